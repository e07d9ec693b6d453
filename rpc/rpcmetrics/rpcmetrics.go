// SPDX-License-Identifier: Apache-2.0

// Package rpcmetrics counts the calls between hosts in a scope of tally: how long they
// take, how large they are, and why they fail.
//
//	calls := rpcmetrics.New(scope) // an rpc.Instrument
//	peers := rpc.Observed(client, calls)
//
// A Node and a client.Client have one. Spans are package rpcotel's.
package rpcmetrics

import (
	"context"
	"sync"
	"time"

	"github.com/uber-go/tally/v4"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
)

// Calls is an rpc.Instrument that counts. Use New. Safe for concurrent use.
type Calls struct {
	scope tally.Scope

	mu       sync.RWMutex        // protects messages
	messages map[string]*message // by rpc.KindOf
}

var _ rpc.Instrument = (*Calls)(nil)

// message is the metrics of the calls with one kind of messages.
type message struct {
	took, answered  tally.Histogram
	sent, received  tally.Counter
	failed, refused map[string]tally.Counter // by rpc.ReasonOf
}

// times are the buckets of how long a call takes: 1 ms, each four times the last, to 4 s.
var times = tally.MustMakeExponentialDurationBuckets(time.Millisecond, 4, 7)

// New returns the metrics of a host, under scope.
func New(scope tally.Scope) *Calls {
	c := &Calls{scope: scope.SubScope("rpc"), messages: make(map[string]*message)}
	for _, kind := range []string{"Usage", "Takes"} {
		c.of(kind) // those that every cluster has are there from the beginning
	}
	return c
}

// Caller implements rpc.Instrument.
func (c *Calls) Caller(_ string, d rpc.Decider) rpc.Decider {
	return rpc.DeciderFunc(func(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
		m, start := c.of(rpc.KindOf(payload)), time.Now()
		m.sent.Inc(int64(len(payload.GetValue())))
		answer, err := d.Update(ctx, host, payload)
		m.took.RecordDuration(time.Since(start))
		if err != nil {
			m.failed[rpc.ReasonOf(err)].Inc(1)
		}
		m.received.Inc(int64(len(answer.GetValue())))
		return answer, err
	})
}

// Answerer implements rpc.Instrument.
func (c *Calls) Answerer(d rpc.Decider) rpc.Decider {
	return rpc.DeciderFunc(func(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
		m, start := c.of(rpc.KindOf(payload)), time.Now()
		m.received.Inc(int64(len(payload.GetValue())))
		answer, err := rpc.Ask(ctx, d, host, payload)
		m.answered.RecordDuration(time.Since(start))
		if err != nil {
			m.refused[rpc.ReasonOf(err)].Inc(1)
		}
		m.sent.Inc(int64(len(answer.GetValue())))
		return answer, err
	})
}

// of returns the metrics of the calls with this kind of messages, which is an rpc.KindOf.
func (c *Calls) of(kind string) *message {
	c.mu.RLock()
	m := c.messages[kind]
	c.mu.RUnlock()
	if m != nil {
		return m
	}
	c.mu.Lock()
	defer c.mu.Unlock()

	if m = c.messages[kind]; m != nil {
		return m
	}
	scope := c.scope.Tagged(map[string]string{"message": kind})
	m = &message{
		took: scope.Histogram("call_seconds", times), answered: scope.Histogram("answer_seconds", times),
		sent: scope.Counter("sent_bytes"), received: scope.Counter("received_bytes"),
		failed: make(map[string]tally.Counter), refused: make(map[string]tally.Counter),
	}
	for _, reason := range rpc.Reasons {
		tagged := scope.Tagged(map[string]string{"reason": reason})
		m.failed[reason], m.refused[reason] = tagged.Counter("calls_failed"), tagged.Counter("answers_failed")
	}
	c.messages[kind] = m
	return m
}
