// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/admin"
	"github.com/headgate/headgate/internal/daemon/access"
	"github.com/headgate/headgate/internal/operators"
	"github.com/headgate/headgate/ringpop"
)

// phase is what a daemon does now. The zero phase is that it starts. Safe for
// concurrent use.
type phase struct {
	atomic.Int32

	stopping chan struct{} // closed when that begins
}

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

// health is what operators see of d. A broken file of limits, or a list of members
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
	if d.config.Data != "" {
		checks["data"] = admin.CheckOf(d.kept.Err())
	}
	if d.parent != nil {
		checks["parent"] = admin.CheckOf(d.parent.Err())
	}
	if d.redis != nil {
		checks["redis"] = admin.CheckOf(d.redis.Err())
	}
	for name, c := range d.access.Certificates() {
		checks[name] = admin.CheckOf(c.Err(time.Now()))
	}
	for name, p := range d.access.Policies() {
		checks[name] = admin.CheckOf(access.NewestPolicy(p))
	}
	return admin.Health{Ready: d.phase.ready(), Checks: checks, Config: operators.StatusOf(limits)}
}

// listed says what is wrong with the list of members.
func (d *Daemon) listed() error {
	ring, members := d.node.Ring(), d.Cluster().Members
	held := slices.IndexFunc(members, func(m operators.Member) bool { return m.Address == d.address && m.State == ringpop.Held })
	switch {
	case ring.Has(d.address), ring.Len() > 0 && d.config.Role == RoleEdge:
		return nil
	case ring.Len() == 0:
		return errors.New("there is no list of members yet")
	case held >= 0:
		return fmt.Errorf("%s: they own its keys until that ends, and it answers as before; find out why it restarts, hangs, or is not reached", members[held].Why)
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
	if missing := d.node.Missing(); missing > 0 {
		return fmt.Errorf("this daemon reaches %d of %d deciders, may be on the smaller side of a split, and grants a part of each limit: "+
			"headgate cluster names the others; if they answer each other, look at this machine's network", d.node.Ring().Len(), d.node.Ring().Len()+missing)
	}
	return fmt.Errorf("the owners of %.0f%% of all keys do not answer, and their keys fall back: headgate cluster names them; "+
		"if they answer others, look at this machine's network", 100*part)
}

// unreachable is the part of all keys, in [0, 1], whose owners do not answer d. Owners
// that do not answer leave the ring soon, and count no more, unless d takes itself for one on
// the smaller side of a split.
func (d *Daemon) unreachable() (part float64) {
	if missing := float64(d.node.Missing()); missing > 0 {
		return missing / (missing + float64(d.node.Ring().Len()))
	}
	for _, m := range d.Cluster().Members {
		if m.State == ringpop.Down {
			part += m.Share
		}
	}
	return part
}

// retire says that no more requests are to be sent here, and goes on to answer them
// for as long as Config.LameDuck, so that those who send them notice first.
func (d *Daemon) retire(ctx context.Context) {
	d.phase.Store(stopping)
	close(d.phase.stopping)
	d.web.Retire()
	d.edge.Retire()
	d.leaveCluster()
	if d.config.LameDuck == 0 {
		return
	}
	d.log.Info("not ready any more; requests are answered for a while", "for", d.config.LameDuck)
	timer := time.NewTimer(d.config.LameDuck)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.ending.Ended():
	case <-ctx.Done():
	}
}
