// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/keys"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// Even is the algorithm that divides a limit evenly, without any owner.
const Even = "even"

// Auto is the default algorithm: a host decides by its grant, and asks the key's owner for what
// the grant does not cover. Asking needs a Remote: see WithRemote. Without one, a host
// without a grant decides by its fallback.
const Auto = share.Auto

// Measured ends a stated demand: after SetDemand(Measured), the host measures its demand again.
const Measured = share.Measured

// Group holds the limiters of one host. Use NewGroup. Keys come to life at their first use
// and leave when they have been idle for their rule's idle_after.
//
// All methods, and those of the Limiters, are safe for concurrent use. Of a Limiter's methods,
// only SetDemand waits while a report is made, or Configure or SetHosts runs.
type Group keys.Handle

// keys are those of g.
func (g *Group) keys() *keys.Set { return (*keys.Handle)(g).Set() }

// NewGroup returns the Group of a host. snapshot has the rules; nil has none. hosts is how many
// hosts the cluster has; 0 means that this is not known yet, and counts as 1.
func NewGroup(snapshot *dynamicconfig.Snapshot, hosts int, opts ...Option) *Group {
	c := keys.Config{Traits: make(map[string]dynamicconfig.Traits), Remotes: make(map[string]stage.Remote), Charges: make(map[string]stage.Charges)}
	for _, option := range opts {
		if option != nil {
			option(&c)
		}
	}
	return (*Group)(keys.New(c, snapshot, hosts))
}

// For returns the limiter of key. It costs one lookup for a key that is live;
// another comes to life when its limiter is first used. A key that no rule
// matches, or that is one too many, gets a limiter too, which allows or refuses
// as config says.
func (g *Group) For(key string) *Limiter { return (*Limiter)(g.keys().For(key)) }

// Configure puts the rules of snapshot in force, for held limiters too. A key
// whose limit changed keeps its tokens. A debt that is deeper than a Charge can make
// becomes less with the limit. nil changes nothing.
func (g *Group) Configure(snapshot *dynamicconfig.Snapshot) {
	g.keys().Configure(stage.Now(), snapshot)
}

// SetHosts sets how many hosts the cluster has: the even part is the limit divided by them.
// Less than 1 counts as 1. A Node calls it.
func (g *Group) SetHosts(hosts int) { g.keys().SetHosts(stage.Now(), hosts) }

// Introduce says that the ring has changed. New owners have to learn what their hosts hold,
// so each key whose algorithm reports early does so soon. A Node calls it.
func (g *Group) Introduce() { g.keys().Introduce(stage.Now()) }

// Interval is the update interval in force.
func (g *Group) Interval() time.Duration { return g.keys().Interval() }

// Run reports every update_interval, and early what cannot wait, until ctx
// ends. It starts at a random point of the first interval so that hosts do
// not report in step. It is the only loop that a Group needs, and returns
// when all of its calls have. Of two at a time, both report.
func (g *Group) Run(ctx context.Context, updater usage.Updater) { g.keys().Run(ctx, updater) }

// Leave gives back what the host holds, so that other hosts have it at once and not
// when the leases end: a last report says that this host wants nothing. From then
// on, limiters use their fallbacks, or ask for each event under Auto, slots stay held
// until they are released, and the host reports nothing. Leave returns when all owners
// have answered, after update_timeout at the latest, or when ctx ends. Call it after
// Run has returned, when the service has stopped.
func (g *Group) Leave(ctx context.Context, updater usage.Updater) { g.keys().Leave(ctx, updater) }

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
	return g.keys().Refill(ctx, stage.Now(), key)
}
