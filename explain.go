// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/explain"
	"github.com/headgate/headgate/rpc/questions"
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
				o.errs = append(o.errs, fmt.Errorf("headgate: every Node answers the question %q: choose another name", kind))
			}
		}
		if o.answers == nil {
			o.answers = make(questions.Answers)
		}
		maps.Copy(o.answers, answers)
	}
}

// answer is what answers the questions of other hosts.
func (n *Node) answer() questions.Answers {
	all := questions.Answers{
		askKey: func(_ context.Context, about []byte) (any, error) {
			ring := n.ring.Ring()
			h := explain.Here(n.address, n.group, n.limits.Current(), ring.Len(), string(about))
			h.Owner = ring.Owner(n.bucketOf(string(about)))
			if at := n.epoch.Load(); at != nil {
				h.Epoch = *at
			}
			return h, nil
		},
		askReset: func(ctx context.Context, about []byte) (any, error) {
			bucket := n.bucketOf(string(about))
			n.aggregator.Refill(bucket)
			n.mesh.Refill(bucket)
			return true, n.group.Reset(ctx, string(about))
		},
	}
	for kind, on := range map[string]bool{askTrace: true, askUntrace: false} {
		all[kind] = func(_ context.Context, about []byte) (any, error) {
			if !n.group.Trace(string(about), on) {
				return nil, fmt.Errorf("%d keys are traced already: end one", limiter.MaxTraced)
			}
			return on, nil
		}
	}
	maps.Copy(all, n.answers)
	return all
}

// Ask asks the host at address, which may be this one, a question: see WithAnswers. The
// answer, which is JSON, goes into v, a pointer. It works between Start and Stop.
func (n *Node) Ask(ctx context.Context, address, kind string, about []byte, v any) error {
	if address == n.address {
		return questions.Ask(ctx, n.fanout.Local, n.address, kind, about, v)
	}
	peer, err := n.transport.Peer(address)
	if err != nil {
		return err
	}
	return questions.Ask(ctx, peer, n.address, kind, about, v)
}

// maxAsked bounds how many hosts AskAll asks at once.
const maxAsked = 64

// AskAll asks all hosts of the ring, and this one, a question: f gets the name of each,
// and what asks it. It calls f from several goroutines, and returns when all have.
func (n *Node) AskAll(f func(host string, ask func(ctx context.Context, kind string, about []byte, v any) error)) {
	hosts := append(n.others(), n.address)
	slices.Sort(hosts)
	var calls sync.WaitGroup
	room := make(chan struct{}, maxAsked)
	for _, host := range hosts {
		room <- struct{}{}
		calls.Go(func() {
			defer func() { <-room }()
			f(host, func(ctx context.Context, kind string, about []byte, v any) error {
				return n.Ask(ctx, host, kind, about, v)
			})
		})
	}
	calls.Wait()
}

// Explain returns why key is limited as it is: what each host of the ring knows of it now.
// Hosts that do not answer before ctx ends are in it with the error. It works between
// Start and Stop.
func (n *Node) Explain(ctx context.Context, key string) explain.Explanation {
	var mu sync.Mutex
	var hosts []explain.Host
	n.AskAll(func(host string, ask func(context.Context, string, []byte, any) error) {
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
	return explain.Sum(limits, key, n.ring.Owner(n.bucketOf(key)), hosts)
}

// bucketOf is the key of the bucket that key has.
func (n *Node) bucketOf(key string) string {
	if rule, ok := n.limits.Current().Match(key); ok && rule.Shared {
		return rule.Key
	}
	return key
}

// Trace has all hosts of the ring begin, or end, to remember the newest decisions about
// key, for Explain: see limiter.Group's Trace. It returns an error for each host that does
// not. It works between Start and Stop.
func (n *Node) Trace(ctx context.Context, key string, on bool) map[string]error {
	kind := askUntrace
	if on {
		kind = askTrace
	}
	return n.tellAll(ctx, kind, key)
}

// Reset has all hosts of the ring make the bucket of key full again, and forgive its debts:
// the key's owner its bucket, beside what it has lent, and each host its part, as
// limiter.Group's Reset says. So hosts may use a burst again, and what they had left. It
// returns an error for each host that does not answer, or cannot reach a bucket elsewhere.
// Reset may be repeated. It works between Start and Stop.
func (n *Node) Reset(ctx context.Context, key string) map[string]error {
	return n.tellAll(ctx, askReset, key)
}

// tellAll has all hosts do something about key, and returns an error for each that does not.
func (n *Node) tellAll(ctx context.Context, kind, key string) map[string]error {
	var mu sync.Mutex
	failed := make(map[string]error)
	n.AskAll(func(host string, ask func(context.Context, string, []byte, any) error) {
		var done bool
		if err := ask(ctx, kind, []byte(key), &done); err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed[host] = err
		}
	})
	return failed
}
