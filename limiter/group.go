// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"log/slog"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/events"
	"github.com/headgate/headgate/limiter/internal/keys"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// Even is the algorithm that divides a limit evenly, without any owner.
const Even = "even"

// Auto is the algorithm under which a key's owner says whether its hosts decide
// by their grants or ask for each event. With a Remote for it, they ask when
// they are told to; without, their fallback decides meanwhile.
const Auto = share.Auto

// Measured is the demand to set that is not stated: it is measured again.
const Measured = share.Measured

// Group holds the limiters of one host. Keys come to life at their first use
// and leave when they have been idle for their rule's idle_after.
//
// For and everything that a Limiter does are safe for concurrent use and do
// not wait for reports, Configure or SetHosts, which may be called at any time
// too.
type Group struct {
	keys    *keys.Set
	log     *slog.Logger
	events  *events.Bus[Event] // nil if nobody listens
	dropped tally.Counter
}

// NewGroup returns a Group of a host in a cluster of hosts hosts (0: not yet
// known, which is taken for 1) under the rules of snapshot.
func NewGroup(snapshot *dynamicconfig.Snapshot, hosts int, opts ...Option) *Group {
	o := defaults()
	for _, option := range opts {
		option(&o)
	}
	g := &Group{log: o.Log, dropped: o.Scope.SubScope("limiter").Counter("events_dropped")}
	if len(o.listeners) > 0 {
		g.events = events.New[Event]()
		for _, f := range o.listeners {
			g.events.Listen(f)
		}
		o.Listener = bus{g.events}
	}
	g.keys = keys.New(o.Config, snapshot, hosts)
	return g
}

// For returns the limiter of key. It costs one lookup for a key that is live;
// another comes to life when its limiter is first used. A key that no rule
// matches, or that is one too many, gets a limiter too, which allows or refuses
// as config says.
func (g *Group) For(key string) *Limiter { return (*Limiter)(g.keys.For(key)) }

// Configure puts the rules of snapshot in force, for held limiters too. A key
// whose limit changed keeps its tokens.
func (g *Group) Configure(snapshot *dynamicconfig.Snapshot) { g.keys.Configure(stage.Now(), snapshot) }

// SetHosts sets how many hosts the cluster has, which the even part depends on.
func (g *Group) SetHosts(hosts int) { g.keys.SetHosts(stage.Now(), hosts) }

// Introduce has every key that reports early do so soon: the ring has changed,
// and new owners have to learn what their hosts hold.
func (g *Group) Introduce() { g.keys.Introduce(stage.Now()) }

// Interval is the update interval in force.
func (g *Group) Interval() time.Duration { return g.keys.Interval() }
