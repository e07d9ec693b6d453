// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/explain"
	"github.com/headgate/headgate/limiter/mesh"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/questions"
	"github.com/headgate/headgate/rpc/questions/carried"
	"github.com/headgate/headgate/rpc/usage"
)

// The questions that every Node answers.
const (
	askKey     = "key"
	askTrace   = "trace"
	askUntrace = "untrace"
	askReset   = "reset"
)

// WithAnswers has the Node answer questions of other hosts, beside its own: see Ask. The
// kinds "key", "trace", "untrace" and "reset" are the Node's own.
func WithAnswers(answers questions.Answers) Option {
	return func(o *options) {
		for kind := range answers {
			if slices.Contains([]string{askKey, askTrace, askUntrace, askReset}, kind) {
				o.fail("headgate: every Node answers the question %q: choose another name", kind)
			}
		}
		if o.answers == nil {
			o.answers = make(questions.Answers)
		}
		maps.Copy(o.answers, answers)
	}
}

// inquiries are what the hosts of a cluster ask each other about keys, and what this one
// answers: the parts of a Node that know keys.
type inquiries struct {
	address    string
	peers      rpc.Peers
	limits     *dynamicconfig.Live
	ring       *ringpop.Live
	epoch      atomic.Pointer[time.Time] // since when the ring has its hosts; nil before Start
	group      *limiter.Group
	aggregator *aggregator.Aggregator
	mesh       *mesh.Mesh
	fanout     *usage.Fanout
	board      carried.Board // what programs that report at this host's edge are asked
}

// answer is what answers the questions of other hosts: those that every Node answers, and
// own.
func (n *inquiries) answer(own questions.Answers) questions.Answers {
	all := questions.Answers{
		askKey: func(_ context.Context, about []byte) (any, error) {
			ring := n.ring.Ring()
			bucket := n.bucketOf(string(about))
			h := explain.Here(n.address, n.group, n.limits.Current(), ring.Len(), string(about))
			h.Owner, h.Owned = ring.Owner(bucket), n.Owned(bucket)
			h.Programs = n.programs(bucket)
			if at := n.epoch.Load(); at != nil {
				h.Epoch = *at
			}
			return h, nil
		},
		askReset: func(ctx context.Context, about []byte) (any, error) {
			bucket := n.bucketOf(string(about))
			n.aggregator.Refill(bucket)
			n.mesh.Refill(bucket)
			if err := n.group.Reset(ctx, string(about)); err != nil {
				return nil, fmt.Errorf("the part of this host is full again, and the key's bucket elsewhere is not: %w", err)
			}
			return true, nil
		},
	}
	for kind, on := range map[string]bool{askTrace: true, askUntrace: false} {
		all[kind] = func(_ context.Context, about []byte) (any, error) {
			if !n.group.Trace(string(about), on) {
				return nil, fmt.Errorf("%d keys are traced already: end one", limiter.MaxTraced)
			}
			n.board.Ask(time.Now(), kind, []byte(n.bucketOf(string(about))), askTrace, askUntrace)
			return on, nil
		}
	}
	maps.Copy(all, own)
	return all
}

// Address is this host's, as other hosts know it.
func (n *inquiries) Address() string { return n.address }

// others are the addresses of all hosts but this one.
func (n *inquiries) others() (addresses []string) {
	for _, h := range n.ring.Ring().Hosts() {
		if h.Address != n.address {
			addresses = append(addresses, h.Address)
		}
	}
	return addresses
}

// programs are what programs that listen nowhere have answered about the bucket of a key at
// this host's edge. They are asked with the grants of their next reports.
func (n *inquiries) programs(bucket string) (all []explain.Host) {
	now := time.Now()
	n.board.Ask(now, askKey, []byte(bucket))
	for _, a := range n.board.Answers(now, askKey, []byte(bucket)) {
		var h explain.Host
		if json.Unmarshal(a.JSON, &h) != nil {
			continue // an answer that makes no sense is its operators' concern
		}
		h.Host, h.Program, h.Answered, h.Error, h.Owned, h.Programs = a.Host, true, &a.Time, "", nil, nil
		all = append(all, h)
	}
	return all
}

// Owned returns what this host, as the owner of a bucket's key, knows of it; nothing if it is
// not the owner, or if no caller uses the key.
func (n *inquiries) Owned(bucket string) (all []explain.Owned) {
	address := make(map[string]string) // by identity
	for _, h := range n.ring.Ring().Hosts() {
		address[h.Identity] = h.Address
	}
	delete(address, "")
	for _, k := range n.aggregator.Look(aggregator.Now(), bucket) {
		o := explain.Owned{Algorithm: k.Algorithm, Over: k.Over, Hosts: []explain.AtOwner{}}
		if k.Pooled {
			o.Pool, o.Lent = &k.Tokens, &k.Lent
		}
		if !math.IsInf(k.Bound, 1) {
			o.OverBound = &k.Bound
		}
		for _, h := range k.Hosts {
			at := explain.AtOwner{Host: cmp.Or(address[h.Name], h.Name), Wants: h.Wants, Weight: h.Weight, Lent: h.Lent}
			if h.Silent >= 0 {
				at.Silent = new(h.Silent.Seconds())
			}
			if h.Lease >= 0 {
				at.Lease = new(h.Lease.Seconds())
			}
			o.Hosts = append(o.Hosts, at)
		}
		all = append(all, o)
	}
	return all
}

// OwnedKeys returns the keys that this host owns and that hosts use, in no order.
func (n *inquiries) OwnedKeys() []string { return n.aggregator.Keys() }

// askFor is how long a host is asked if the context does not say.
const askFor = 5 * time.Second

// within is ctx, with a deadline if it has none.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, askFor)
}

// Ask asks the host at address, which may be this one, a question: see WithAnswers. The
// answer, which is JSON, goes into v, a pointer. Under a ctx without a deadline, the host
// has 5 seconds. It works between Start and Stop.
func (n *inquiries) Ask(ctx context.Context, address, kind string, about []byte, v any) error {
	ctx, cancel := within(ctx)
	defer cancel()
	if address == n.address {
		return questions.Ask(ctx, n.fanout.Local, n.address, kind, about, v)
	}
	peer, err := n.peers.Peer(address)
	if err != nil {
		return err
	}
	return questions.Ask(ctx, peer, n.address, kind, about, v)
}

// maxAsked bounds how many hosts AskAll asks at once.
const maxAsked = 64

// AskAll calls f, which may not be nil, for each host of the ring, and for this one, with the host's
// address and a function that asks that host as Ask does. All hosts together have until the context ends
// that f gets: when ctx does, or in 5 seconds if ctx has no deadline. AskAll calls f from several goroutines,
// and returns when all calls have returned.
func (n *inquiries) AskAll(ctx context.Context, f func(ctx context.Context, host string, ask func(ctx context.Context, kind string, about []byte, v any) error)) {
	ctx, cancel := within(ctx)
	defer cancel()
	hosts := append(n.others(), n.address)
	slices.Sort(hosts)
	var calls sync.WaitGroup
	room := make(chan struct{}, maxAsked)
	for _, host := range hosts {
		room <- struct{}{}
		calls.Go(func() {
			defer func() { <-room }()
			f(ctx, host, func(ctx context.Context, kind string, about []byte, v any) error {
				return n.Ask(ctx, host, kind, about, v)
			})
		})
	}
	calls.Wait()
}

// Explain returns why key is limited as it is: what each host of the ring knows of it now.
// Hosts that do not answer before ctx ends, or in 5 seconds if it has no deadline, are in it
// with the error. Programs that listen nowhere, and report at the edges of hosts, are asked
// with the grants of their next reports: until then, what the key's owner knows of them is in
// it. Explain works between Start and Stop.
func (n *inquiries) Explain(ctx context.Context, key string) explain.Explanation {
	var mu sync.Mutex
	var hosts []explain.Host
	owner := n.ring.Owner(n.bucketOf(key)) // before hosts are asked: one that is gone leaves the ring meanwhile
	n.AskAll(ctx, func(ctx context.Context, host string, ask func(context.Context, string, []byte, any) error) {
		var h explain.Host
		if err := ask(ctx, askKey, []byte(key), &h); err != nil {
			h = explain.Host{Error: err.Error()}
		}
		h.Host = host
		mu.Lock()
		defer mu.Unlock()
		hosts = append(hosts, h)
	})
	limits := n.limits.Current()
	return explain.Sum(limits, key, owner, hosts)
}

// bucketOf is the key of the bucket that key has.
func (n *inquiries) bucketOf(key string) string {
	rule, _ := n.limits.Current().Match(key)
	return rule.BucketKey(key)
}

// Trace has all hosts of the ring begin, or end, to remember the newest decisions about
// key, for Explain: see limiter.Group's Trace. It returns an error for each host that does
// not. It works between Start and Stop.
func (n *inquiries) Trace(ctx context.Context, key string, on bool) map[string]error {
	kind := askUntrace
	if on {
		kind = askTrace
	}
	return n.tellAll(ctx, kind, key)
}

// Reset has all hosts of the ring make the bucket of key full again, and forgive its debts:
// the key's owner its bucket, beside what it has lent, and each host its part, as
// limiter.Group's Reset says. So hosts may use a burst again, and what they had left. It
// returns an error for each host that does not answer, or cannot reach a remote bucket, and for
// this host if it has not joined.
// Reset may be repeated. It works between Start and Stop.
func (n *inquiries) Reset(ctx context.Context, key string) map[string]error {
	return n.tellAll(ctx, askReset, key)
}

// tellAll has all hosts do something about key, and returns an error for each that does not.
func (n *inquiries) tellAll(ctx context.Context, kind, key string) map[string]error {
	var mu sync.Mutex
	failed := make(map[string]error)
	if n.epoch.Load() == nil {
		failed[n.address] = errors.New("this host has not joined its cluster yet, and knows no other host: try again")
		return failed
	}
	n.AskAll(ctx, func(ctx context.Context, host string, ask func(context.Context, string, []byte, any) error) {
		var done bool
		if err := ask(ctx, kind, []byte(key), &done); err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed[host] = err
		}
	})
	return failed
}
