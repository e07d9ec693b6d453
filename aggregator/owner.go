// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/aggregator/internal/guard"
	"github.com/headgate/headgate/aggregator/internal/hosts"
	"github.com/headgate/headgate/aggregator/internal/rules"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/exactbucket"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// Owner is what a host runs for the keys that it owns: it answers one type of
// message about them, and is notified of changes. An Aggregator is the Owner of
// the built-in messages. A service adds its own with headgate.WithPayload.
type Owner interface {
	rpc.Decider
	Lifecycle
}

// Lifecycle notifies an Owner of changes. Its methods are safe for concurrent use:
// one may be called while another runs, and while messages are answered. A
// method that has nothing to do comes from NoLifecycle. A panic in one ends
// nothing: it is logged. While a method runs, it is not called again: the latest call follows
// when it returns. Only the HandOver of a host that leaves does not wait for that.
type Lifecycle interface {
	// Configure puts limits in force. The first call comes before the first
	// message. On an error, which is logged, the limits before stay in force.
	Configure(limits *dynamicconfig.Snapshot) error

	// RingMoved says that keys may have other owners from now on. HandOver follows.
	RingMoved(c Cluster)

	// HandOver sends the owners of keys that this host does not own any more
	// what it knows about them. Its calls end with ctx. What new owners are not
	// told, they have to learn from the hosts.
	HandOver(ctx context.Context, c Cluster) error

	// Sweep forgets what is too old. It is called once per update_interval.
	Sweep(now time.Time)
}

// Cluster is the hosts as one of them sees them.
type Cluster struct {
	rpc.Placement // who owns which key
	rpc.Peers     // how to call a host

	// Host is this host's name, and Self its address in the Placement.
	Host, Self string

	// Member reports whether a host, by its name, is one of the cluster. Others may not hand
	// keys over. Nil: everyone may. It is safe for concurrent use.
	Member func(host string) bool

	// Deciders is how many hosts own keys, and Missing how many more may live on the larger
	// side of a split; 0 unless this is the smaller side. An owner then grants the part that
	// the rule's fallback would give the Deciders: with `even`, Deciders of Deciders and Missing.
	Deciders, Missing int

	// Leaving: this host leaves, and owns no key any more.
	Leaving bool
}

// Owns reports whether this host owns key.
func (c Cluster) Owns(key string) bool { return !c.Leaving && c.Owner(key) == c.Self }

// NoLifecycle does nothing. An Owner embeds it, and has the methods that it
// needs.
type NoLifecycle struct{}

// Configure implements Lifecycle.
func (NoLifecycle) Configure(*dynamicconfig.Snapshot) error { return nil }

// RingMoved implements Lifecycle.
func (NoLifecycle) RingMoved(Cluster) {}

// HandOver implements Lifecycle.
func (NoLifecycle) HandOver(context.Context, Cluster) error { return nil }

// Sweep implements Lifecycle.
func (NoLifecycle) Sweep(time.Time) {}

// Owners are the Owners of one host, which share their lives. Its fields do not
// change once it is in use.
type Owners struct {
	All []Owner
	Log *slog.Logger

	guard guard.Guard
}

// Serve returns one as a Decider that refuses hosts without a proper name, and whose
// panics are logged. An Owner may keep the names.
func (o *Owners) Serve(one Owner) rpc.Decider {
	return rpc.DeciderFunc(func(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
		if err := rpc.CheckHost(host); err != nil {
			return nil, err
		}
		answer, err := rpc.Ask(ctx, one, host, payload)
		if stack := rpc.StackOf(err); stack != "" {
			o.guard.Failed(o.Log, guard.Method{Owner: one, Failed: "panicked; its caller gets an error", Level: slog.LevelError}, err)
		}
		return answer, err
	})
}

// Configure gives all of them the limits.
func (o *Owners) Configure(limits *dynamicconfig.Snapshot) {
	o.each("Configure", "keeps its old limits", func(one Owner) error { return one.Configure(limits) })
}

// RingMoved notifies all that keys may have moved.
func (o *Owners) RingMoved(c Cluster) {
	o.each("RingMoved", "was not notified of the ring", func(one Owner) error { one.RingMoved(c); return nil })
}

// Sweep has all forget what is too old.
func (o *Owners) Sweep(now time.Time) {
	o.each("Sweep", "forgot nothing", func(one Owner) error { one.Sweep(now); return nil })
}

// each calls f for all. An Owner whose method does not return keeps the others waiting
// once, for a second. It gets the latest call when it returns.
func (o *Owners) each(method, failed string, f func(Owner) error) {
	for i, one := range o.All {
		o.guard.Latest(o.Log, guard.Method{Owner: one, Number: i, Name: method, Failed: failed, Level: slog.LevelError, Call: func() error { return f(one) }})
	}
}

// HandOver has all hand over what they do not own any more. A host that leaves waits until they
// have, or until ctx ends.
func (o *Owners) HandOver(ctx context.Context, c Cluster) {
	for i, one := range o.All {
		m := guard.Method{
			Owner: one, Number: i, Name: "HandOver", Failed: "did not hand over all keys; their new owners will learn from the hosts",
			Level: slog.LevelWarn, Call: func() error { return one.HandOver(ctx, c) },
		}
		if c.Leaving {
			o.guard.Until(ctx, o.Log, m)
		} else {
			o.guard.Latest(o.Log, m)
		}
	}
}

var _ Owner = (*Aggregator)(nil)

// RingMoved implements Lifecycle.
func (a *Aggregator) RingMoved(c Cluster) {
	now := Now()
	a.Split(now, c.Deciders, c.Missing)
	a.Moved(now)
	a.fence.Move(now, c.Member)
	if c.Placement != nil {
		a.keys.Parent.Moved(c.Owns)
	}
}

// Sweep implements Lifecycle.
func (a *Aggregator) Sweep(time.Time) { a.GC(Now()) }

// Refill makes the buckets of key full, beside what is lent to hosts, and forgives their debts,
// if this host owns some: under auto, exact or elastic, or measured as these.
func (a *Aggregator) Refill(key string) {
	s, hash := a.settings.Load(), a.keys.Table.Hash(key)
	sh := a.keys.Table.Shard(hash)
	now := sh.Lock(Now())
	defer sh.Unlock()

	for _, pooled := range rules.Pooled {
		for _, name := range [...]string{pooled, dynamicconfig.Measured(pooled)} {
			if k, _ := a.keys.Find(now, sh, s, name, hash, key); k != nil && a.keys.Adopt(now, sh, k, s, name, hash) {
				k.Take(now, &usage.Take{Auto: true, Tokens: -exactbucket.MaxTokens}, a.number, hosts.None)
			}
		}
	}
}
