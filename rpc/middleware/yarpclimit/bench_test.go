// SPDX-License-Identifier: Apache-2.0

package yarpclimit_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/yarpc/api/transport"

	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/rpc/middleware/yarpclimit"
)

// served handles nothing.
type served struct{}

func (served) Handle(context.Context, *transport.Request, transport.ResponseWriter) error { return nil }

// BenchmarkGranted is what a Limit adds to a call.
func BenchmarkGranted(b *testing.B) {
	for name, o := range map[string]yarpclimit.Options{
		"reject": {Key: "calls:{user}:{method}"},
		"wait":   {Key: "calls:{user}:{method}", MaxWait: time.Second},
	} {
		b.Run(name, func(b *testing.B) {
			l := limit(b, enginetest.Of(b, "limits: [{key: '*', limit: 1e9/s, algorithm: even}]"), o)
			request := &transport.Request{Caller: "me", Service: "orders", Procedure: "List"}
			b.ReportAllocs()
			for b.Loop() {
				if err := l.Handle(b.Context(), request, nil, served{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
