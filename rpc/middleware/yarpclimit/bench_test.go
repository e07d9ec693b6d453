// SPDX-License-Identifier: Apache-2.0

package yarpclimit_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/yarpc/api/transport"

	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/rpc/middleware/yarpclimit"
)

// served handles nothing.
type served struct{}

func (served) Handle(context.Context, *transport.Request, transport.ResponseWriter) error { return nil }

// grants are options under which calls are granted.
var grants = map[string]yarpclimit.Options{
	"reject": {Key: "calls:{user}:{method}"},
	"wait":   {Key: "calls:{user}:{method}", MaxWait: time.Second},
}

// granted is a call that a Limit grants.
func granted(tb testing.TB, o yarpclimit.Options) (call func()) {
	l := limit(tb, enginetest.Of(tb, "limits: [{key: '*', limit: 1e9/s, algorithm: even}]"), o)
	request := &transport.Request{Caller: "me", Service: "orders", Procedure: "List"}
	return func() {
		if err := l.Handle(tb.Context(), request, nil, served{}); err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkGranted is what a Limit adds to a call.
func BenchmarkGranted(b *testing.B) {
	for name, o := range grants {
		b.Run(name, func(b *testing.B) {
			call := granted(b, o)
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}

// A call that is granted at once allocates no more than twice, so that a Limit costs a busy server little.
func TestAGrantedCallAllocatesLittle(t *testing.T) {
	testrun.NotUnderRace(t, "pools forget what they hold")
	for name, o := range grants {
		if n := testing.AllocsPerRun(1000, granted(t, o)); n > 2 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
