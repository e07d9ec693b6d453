// SPDX-License-Identifier: Apache-2.0

package rpcmetrics_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/uber-go/tally/v4"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/rpcmetrics"
)

type deciderFunc func() (*anypb.Any, error)

func (f deciderFunc) Update(context.Context, string, *anypb.Any) (*anypb.Any, error) { return f() }

func TestCallsAreCountedOnBothSides(t *testing.T) {
	scope := tally.NewTestScope("", nil)
	calls := rpcmetrics.New(scope)
	answer, failure := &anypb.Any{Value: make([]byte, 30)}, error(nil)
	d := calls.Caller("b:1", calls.Answerer(deciderFunc(func() (*anypb.Any, error) {
		if failure != nil {
			return nil, failure
		}
		return answer, nil
	})))
	ask := func(name string, err error) {
		t.Helper()
		failure = err
		if _, got := d.Update(t.Context(), "me", &anypb.Any{TypeUrl: "type.googleapis.com/" + name, Value: make([]byte, 10)}); !errors.Is(got, err) {
			t.Errorf("%v, want %v", got, err)
		}
	}
	ask("headgate.v1.Usage", nil)
	ask("headgate.v1.Usage", context.DeadlineExceeded)
	ask("headgate.v1.Takes", rpc.ErrPayload)
	ask("headgate.v1.Nonsense", nil)
	ask("of.somebody.Else", errors.New("no route"))

	want := map[string]int64{
		"rpc.sent_bytes+message=Usage":                     10 + 10 + 30, // two requests, an answer
		"rpc.received_bytes+message=Usage":                 10 + 10 + 30,
		"rpc.calls_failed+message=Usage,reason=timeout":    1,
		"rpc.answers_failed+message=Usage,reason=timeout":  1,
		"rpc.calls_failed+message=Takes,reason=refused":    1,
		"rpc.sent_bytes+message=other":                     10 + 10 + 30,
		"rpc.answers_failed+message=other,reason=failed":   1,
		"rpc.answers_failed+message=other,reason=canceled": 0,
	}
	counters, histograms := scope.Snapshot().Counters(), scope.Snapshot().Histograms()
	for name, n := range want {
		if c := counters[name]; c == nil || c.Value() != n {
			t.Errorf("%s: %v, want %d", name, c, n)
		}
	}
	for message, n := range map[string]int64{"Usage": 2, "Takes": 1, "other": 2} {
		for _, name := range []string{"call_seconds", "answer_seconds"} {
			full := fmt.Sprintf("rpc.%s+message=%s", name, message)
			var sum int64
			if h := histograms[full]; h != nil {
				for _, in := range h.Durations() {
					sum += in
				}
			}
			if sum != n {
				t.Errorf("%s: %d, want %d", full, sum, n)
			}
		}
	}
}
