// SPDX-License-Identifier: Apache-2.0

package grpclimit_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/rpc/middleware/grpclimit"
)

// grants are options under which calls are granted.
var grants = map[string]grpclimit.Options{
	"method": {Key: "calls:{method}"},
	"header": {Key: "calls:{header:x-tenant}"},
	"wait":   {Key: "calls:{method}", MaxWait: time.Second},
}

// granted is a call that a Limit grants.
func granted(tb testing.TB, o grpclimit.Options) (call func()) {
	l := limit(tb, enginetest.Of(tb, "limits: [{key: '*', limit: 1e9/s, algorithm: even}]"), o)
	ctx := metadata.NewIncomingContext(tb.Context(), metadata.Pairs("x-tenant", "alice"))
	info := &grpc.UnaryServerInfo{FullMethod: check}
	handle := func(context.Context, any) (any, error) { return nil, nil }
	return func() {
		if _, err := l.UnaryServer(ctx, nil, info, handle); err != nil {
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
