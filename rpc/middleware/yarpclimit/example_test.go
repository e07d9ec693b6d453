// SPDX-License-Identifier: Apache-2.0

package yarpclimit_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"go.uber.org/yarpc"
	"go.uber.org/yarpc/encoding/raw"
	"go.uber.org/yarpc/transport/grpc"
	"go.uber.org/yarpc/yarpcerrors"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/engine"
	"github.com/headgate/headgate/rpc/middleware/yarpclimit"
)

// A service takes two calls of each procedure at once. In a service that links
// headgate, the group is its Node's.
func Example() {
	limits, err := dynamicconfig.Parse("limits.yaml", []byte(`limits: [{key: "calls:*", limit: 1/m, burst: 2, algorithm: even}]`))
	if err != nil {
		panic(err)
	}
	limit, err := yarpclimit.New(engine.New(limiter.NewGroup(limits, 1), nil), yarpclimit.Options{Key: "calls:{method}"})
	if err != nil {
		panic(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	transport := grpc.NewTransport()
	service := yarpc.NewDispatcher(yarpc.Config{
		Name:              "orders",
		Inbounds:          yarpc.Inbounds{transport.NewInbound(listener)},
		InboundMiddleware: yarpc.InboundMiddleware{Unary: limit, Oneway: limit, Stream: limit},
	})
	service.Register(raw.Procedure("List", func(context.Context, []byte) ([]byte, error) { return []byte("a list"), nil }))
	client := yarpc.NewDispatcher(yarpc.Config{
		Name:      "shop",
		Outbounds: yarpc.Outbounds{"orders": {Unary: transport.NewSingleOutbound(listener.Addr().String())}},
	})
	for _, d := range []*yarpc.Dispatcher{service, client} {
		if err := d.Start(); err != nil {
			panic(err)
		}
	}
	defer func() { _ = service.Stop() }()
	defer func() { _ = client.Stop() }()
	for range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		answer, err := raw.New(client.ClientConfig("orders")).Call(ctx, "List", nil)
		cancel()
		if yarpcerrors.IsResourceExhausted(err) {
			fmt.Println("over the limit")
			continue
		}
		fmt.Println(string(answer))
	}
	// Output:
	// a list
	// a list
	// over the limit
}
