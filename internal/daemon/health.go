// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/admin"
	"github.com/headgate/headgate/internal/operators"
	"github.com/headgate/headgate/ringpop"
)

// phase is what a daemon does now. The zero phase is that it starts. Safe for
// concurrent use.
type phase struct{ atomic.Int32 }

// The phases, in order.
const (
	starting = iota
	serving
	stopping
)

// err is why requests are not to be sent here; nil if they are.
func (p *phase) err() error {
	switch p.Load() {
	case starting:
		return errors.New("the daemon starts, and waits for a first list of members")
	case stopping:
		return errors.New("the daemon stops: send requests to another one")
	}
	return nil
}

// ready reports whether requests are to be sent here.
func (p *phase) ready() bool { return p.err() == nil }

// health is what operators hear of d. A broken file of limits, or a list of members
// that lacks d, does not make d unready: it answers as before, and all daemons would
// be unready at once. So it is with owners, a Redis or a cluster above that do not
// answer: d falls back.
func (d *Daemon) health() admin.Health {
	limits := d.node.Limits()
	checks := map[string]admin.Check{
		"serving": admin.CheckOf(d.phase.err()),
		"members": admin.CheckOf(d.listed()),
		"owners":  admin.CheckOf(d.reached()),
		"limits":  admin.CheckOf(limits.LastError()),
	}
	if d.parent != nil {
		checks["parent"] = admin.CheckOf(d.parent.err())
	}
	if d.redis != nil {
		checks["redis"] = admin.CheckOf(d.redis.err())
	}
	for name, c := range d.access.certificates() {
		checks[name] = admin.CheckOf(c.Err(time.Now()))
	}
	if d.access.policy != nil {
		checks["policy"] = admin.CheckOf(checkPolicy(d.access.policy))
	}
	if d.access.staff != nil {
		checks["operators"] = admin.CheckOf(checkPolicy(d.access.staff))
	}
	return admin.Health{Ready: d.phase.ready(), Checks: checks, Config: operators.StatusOf(limits)}
}

// listed says what is wrong with the list of members.
func (d *Daemon) listed() error {
	switch ring := d.node.Ring(); {
	case ring.Has(d.address), ring.Len() > 0 && d.config.Role == RoleEdge:
		return nil
	case ring.Len() == 0:
		return errors.New("there is no list of members yet")
	default:
		return fmt.Errorf("this decider's address %s is not among the %d members, so it owns no keys: list it", d.address, ring.Len())
	}
}

// reached says that the owners of most keys do not answer d.
func (d *Daemon) reached() error {
	part := d.unreachable()
	if part <= 0.5 {
		return nil
	}
	return fmt.Errorf("the owners of %.0f%% of all keys do not answer, and their keys fall back: headgate cluster names them; "+
		"if they answer others, look at this machine's network", 100*part)
}

// unreachable is the part of all keys, in [0, 1], whose owners do not answer d. Owners
// that do not answer leave the ring soon, unless d takes itself for the one that is
// cut off.
func (d *Daemon) unreachable() (part float64) {
	for _, m := range d.Cluster().Members {
		if m.State == ringpop.Down {
			part += m.Share
		}
	}
	return part
}

// retire says that no more requests are to be sent here, and goes on to answer them
// for as long as Config.LameDuck, so that those who send them hear of it first.
func (d *Daemon) retire(ctx context.Context) {
	d.phase.Store(stopping)
	d.edge.health.Shutdown()
	d.leaveCluster()
	if d.config.LameDuck == 0 {
		return
	}
	d.log.Info("not ready any more; requests are answered for a while", "for", d.config.LameDuck)
	timer := time.NewTimer(d.config.LameDuck)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.ending.ended:
	case <-ctx.Done():
	}
}
