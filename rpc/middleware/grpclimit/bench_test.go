// SPDX-License-Identifier: Apache-2.0

package grpclimit_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/rpc/middleware/grpclimit"
)

// BenchmarkGranted is what a Limit adds to a call.
func BenchmarkGranted(b *testing.B) {
	for name, o := range map[string]grpclimit.Options{
		"method": {Key: "calls:{method}"},
		"header": {Key: "calls:{header:x-tenant}"},
		"wait":   {Key: "calls:{method}", MaxWait: time.Second},
	} {
		b.Run(name, func(b *testing.B) {
			l := limit(b, enginetest.Of(b, "limits: [{key: '*', limit: 1e9/s, algorithm: even}]"), o)
			ctx := metadata.NewIncomingContext(b.Context(), metadata.Pairs("x-tenant", "alice"))
			info := &grpc.UnaryServerInfo{FullMethod: check}
			handle := func(context.Context, any) (any, error) { return nil, nil }
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.UnaryServer(ctx, nil, info, handle); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
