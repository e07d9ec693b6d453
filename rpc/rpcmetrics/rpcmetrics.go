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
	messages map[string]func() *message // by rpc.KindOf; each is made when it is first used
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
	c := &Calls{messages: make(map[string]func() *message)}
	for _, kind := range rpc.Kinds {
		c.messages[kind] = sync.OnceValue(func() *message { return newMessage(scope.SubScope("rpc"), kind) })
	}
	c.messages["Usage"]() // every cluster has these: they are there from the beginning
	c.messages["Takes"]()
	return c
}

// Caller implements rpc.Instrument.
func (c *Calls) Caller(_ string, d rpc.Decider) rpc.Decider {
	return rpc.DeciderFunc(func(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
		m, start := c.messages[rpc.KindOf(payload)](), time.Now()
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
		m, start := c.messages[rpc.KindOf(payload)](), time.Now()
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

// newMessage returns the metrics of the calls with this kind of messages.
func newMessage(scope tally.Scope, kind string) *message {
	scope = scope.Tagged(map[string]string{"message": kind})
	m := &message{
		took: scope.Histogram("call_seconds", times), answered: scope.Histogram("answer_seconds", times),
		sent: scope.Counter("sent_bytes"), received: scope.Counter("received_bytes"),
		failed: make(map[string]tally.Counter), refused: make(map[string]tally.Counter),
	}
	for _, reason := range rpc.Reasons {
		tagged := scope.Tagged(map[string]string{"reason": reason})
		m.failed[reason], m.refused[reason] = tagged.Counter("calls_failed"), tagged.Counter("answers_failed")
	}
	return m
}
