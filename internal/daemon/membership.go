// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/daemon/dialled"
	"github.com/headgate/headgate/internal/daemon/memberfile"
	"github.com/headgate/headgate/internal/operators"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/dns"
	"github.com/headgate/headgate/ringpop/gossip"
	"github.com/headgate/headgate/ringpop/health"
	"github.com/headgate/headgate/ringpop/static"
)

// Gossip is how deciders find each other without a list.
type Gossip struct {
	// Seeds are where some of the others gossip: addresses, or one name of package
	// dns, or one file, as in file:/etc/headgate/seeds. Default none, and no gossip.
	Seeds []string

	// Listen is where to gossip, host:port, TCP and UDP; default port
	// DefaultGossipPort on Config.Listen's host.
	Listen string

	// Advertise is where others gossip with this decider; default Listen, or its port on
	// Config.Address's host.
	Advertise string

	// KeyFile is a file of keys, followed while it changes; see gossip.Config. Default
	// no encryption.
	KeyFile string
}

// DefaultGossipPort is that of Gossip.Listen.
const DefaultGossipPort = "7946"

// defaultCluster is the cluster's name in gossip, unless Config.Cluster is set.
const defaultCluster = "headgate"

// The roles of a daemon.
const (
	RoleDecider = "decider"
	RoleEdge    = "edge"
)

const seedFile = "file:"

// validateMembers returns all that is wrong with how c finds members.
func (c Config) validateMembers() error {
	var errs []error
	for _, a := range c.Members {
		switch {
		case !dns.Is(a):
			errs = append(errs, mistaken(dialled.Check(a, 7933), "members"))
		case len(c.Members) > 1:
			errs = append(errs, mistaken(fmt.Errorf("%q is among other members: give one name alone, or addresses", a), "members"))
		default:
			_, err := dns.New(a, dns.Config{})
			errs = append(errs, mistaken(err, "members"))
		}
	}
	ways := 0
	for _, used := range []bool{len(c.Members) > 0, c.MembersFile != "", len(c.Gossip.Seeds) > 0} {
		if used {
			ways++
		}
	}
	if ways > 1 {
		errs = append(errs, mistaken(errors.New("members are listed, in a file, or found by seeds: choose one"), "members", "members-file", "seeds"))
	}
	if c.Address != "" {
		errs = append(errs, mistaken(c.member(c.Address), "address", "members"))
	}
	gossips := len(c.Gossip.Seeds) > 0
	if !gossips && (c.Gossip.Listen != "" || c.Gossip.Advertise != "" || c.Gossip.KeyFile != "" || c.Zone != "" || c.Role == RoleEdge) {
		errs = append(errs, mistaken(errors.New("a gossip address, its keys, a zone and a role are for gossip: name seeds"), "gossip-address", "gossip-advertise", "gossip-keys", "zone", "role"))
	}
	if c.Role != "" && c.Role != RoleDecider && c.Role != RoleEdge {
		errs = append(errs, mistaken(fmt.Errorf("role %q: say %s or %s", c.Role, RoleDecider, RoleEdge), "role"))
	}
	if strings.ContainsAny(c.Zone, ",=") {
		errs = append(errs, mistaken(fmt.Errorf("zone %q has a comma or an equals sign: leave them out", c.Zone), "zone"))
	}
	if gossips {
		if _, err := c.seeds(slog.New(slog.DiscardHandler)); err != nil {
			errs = append(errs, mistaken(err, "seeds"))
		}
		if c.Cluster != "" && !clusterName.MatchString(c.Cluster) {
			errs = append(errs, mistaken(fmt.Errorf("cluster %q: name this cluster with letters, digits, dot, dash and _", c.Cluster), "cluster"))
		}
	}
	return errors.Join(errs...)
}

// seeds is what finds c's seeds.
func (c Config) seeds(log *slog.Logger) (gossip.Seeds, error) {
	first := c.Gossip.Seeds[0]
	if path, ok := strings.CutPrefix(first, seedFile); ok && len(c.Gossip.Seeds) == 1 {
		return gossip.File(path), nil
	}
	if dns.Is(first) && len(c.Gossip.Seeds) == 1 {
		name, err := dns.New(first, dns.Config{Logger: log})
		if err != nil {
			return nil, err
		}
		return name.Lookup, nil
	}
	for _, s := range c.Gossip.Seeds {
		if err := dialled.Check(s, 7946); err != nil {
			return nil, fmt.Errorf("seed: %w", err)
		}
	}
	return gossip.List(c.Gossip.Seeds...), nil
}

// join finds members by c's seeds, which it has.
func (c Config) join(address string, log *slog.Logger) (*gossip.Members, error) {
	seeds, err := c.seeds(log)
	if err != nil {
		return nil, err
	}
	at := c.Gossip.Listen
	if at == "" {
		host, _, _ := net.SplitHostPort(c.Listen)
		at = net.JoinHostPort(host, DefaultGossipPort)
	}
	host := ringpop.Host{Address: address}
	if c.Zone != "" {
		host.Labels = "zone=" + c.Zone
	}
	return gossip.New(gossip.Config{
		Cluster: cmp.Or(c.Cluster, defaultCluster), Host: host, Observer: c.Role == RoleEdge,
		Listen: at, Advertise: c.Gossip.Advertise, Seeds: seeds, KeyFile: c.Gossip.KeyFile, Logger: log,
	})
}

// afterGossip is how deciders that gossip ask each other at the port for other hosts too: one
// that gossips and does not decide must not keep its keys. Gossip notices in 2 s what has
// died; health checks take longer, so that they have a say only in what gossip does not see.
var afterGossip = health.Config{Interval: time.Second, After: 3 * time.Second}

// standings returns what d knows of each member, by gossip, and by health checks of those that
// gossip says are there; nil if members do not gossip.
func (d *Daemon) standings() func() []ringpop.Standing {
	if d.gossip == nil {
		return nil
	}
	return func() []ringpop.Standing {
		all := d.gossip.Standings()
		checked := d.node.Standings()
		for i := range all {
			if all[i].State != ringpop.Up {
				continue
			}
			for _, s := range checked {
				if s.Host.Address == all[i].Host.Address && s.State != ringpop.Up {
					all[i] = s
					all[i].Why += "; it gossips"
				}
			}
		}
		return all
	}
}

// members finds the other deciders, and says how the node asks whether they live.
func (d *Daemon) members(ctx context.Context) (ringpop.Members, []headgate.Option, error) {
	c := d.config
	if len(c.Gossip.Seeds) > 0 {
		if err := dialled.Advertised(ctx, d.address, c.Gossip.Seeds); err != nil {
			return nil, nil, err
		}
		joined, err := c.join(d.address, d.log)
		d.gossip = joined
		checks := afterGossip
		checks.Logger = d.log.With("by", "health check") // gossip logs the same of what it notices
		return joined, []headgate.Option{headgate.WithHealth(checks)}, err
	}
	asked := []headgate.Option{headgate.WithHealth(health.Config{Leaving: d.phase.stopping})}
	switch {
	case c.MembersFile != "":
		hosts, _, err := memberfile.Read(c.MembersFile)
		if err != nil {
			return nil, nil, err
		}
		var others []string
		for _, h := range hosts {
			others = append(others, h.Address)
		}
		return &memberfile.Members{Path: c.MembersFile, Self: d.address, Log: d.log}, asked, dialled.Advertised(ctx, d.address, others)
	case len(c.Members) == 0:
		members, err := static.New(ringpop.Host{Address: d.address})
		return members, nil, err
	case dns.Is(c.Members[0]):
		members, err := dns.New(c.Members[0], dns.Config{Logger: d.log})
		return members, asked, err
	}
	var hosts []ringpop.Host
	for _, a := range c.Members {
		hosts = append(hosts, ringpop.Host{Address: a})
	}
	members, err := static.New(hosts...)
	return members, asked, errors.Join(err, dialled.Advertised(ctx, d.address, c.Members))
}

// leaveCluster notifies others that this decider leaves: where members gossip at once, and else when
// they next ask whether it lives.
func (d *Daemon) leaveCluster() {
	if d.gossip == nil {
		return
	}
	if err := d.gossip.Leave(); err != nil {
		d.log.Warn("others notice by themselves that this decider ends", "error", err)
	}
}

// Cluster returns what d knows of all members, sorted by address.
func (d *Daemon) Cluster() operators.Cluster { return d.desk.Cluster() }

// serveCluster answers GET /cluster.
func (d *Daemon) serveCluster(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(d.Cluster()); err != nil {
		d.log.Debug("a reader of the cluster went away", "error", err)
	}
}
