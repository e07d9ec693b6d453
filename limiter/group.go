// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
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

// Reset makes the bucket of key full again, and forgives its debts, on this host. All keys
// of a shared rule have one bucket.
//
//   - Under even, and where the fallback decides, this host's part is full again. So it is
//     under algorithms that divide the limit by what hosts used, such as request-weighted.
//   - Under auto and exact, the key's owner is asked to fill the bucket, and under gossip and
//     in Redis the bucket that there is. What the owner has lent this host stays lent.
//   - Under elastic, this host's debt is forgiven. The bucket is the owner's alone: see
//     Node.Reset.
//   - Slots that are held stay held.
//
// What hosts have used and not reported yet is charged afterwards. Reset waits for buckets
// elsewhere until ctx ends, and returns an error if one did not answer. A key that is not
// in use here has nothing to fill.
func (g *Group) Reset(ctx context.Context, key string) error {
	return g.keys.Refill(ctx, stage.Now(), key)
}
