// SPDX-License-Identifier: Apache-2.0

// Command retry shows clients that are over their limit and come back when the
// server says: over HTTP (Retry-After), over gRPC (grpc-retry-pushback-ms) and
// in process (Decision.RetryAfter). It serves itself, on loopback addresses:
//
//	go run ./examples/retry
//
// client.go is what to copy.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/engine"
	"github.com/headgate/headgate/rpc/middleware/grpclimit"
	"github.com/headgate/headgate/rpc/middleware/httplimit"
)

const limits = `
defaults: {algorithm: even}
limits:
  - {key: "*", limit: 2/s, burst: 2}
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run makes four calls of each kind at a limit of 2/s, and writes how long
// they take.
func run(ctx context.Context, out io.Writer) error {
	snapshot, err := dynamicconfig.Parse("limits.yaml", []byte(limits))
	if err != nil {
		return err
	}
	group := limiter.NewGroup(snapshot, 1)
	web, err := serveHTTP(group)
	if err != nil {
		return err
	}
	defer web.Close()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server, err := serveGRPC(group, listener)
	if err != nil {
		return err
	}
	defer server.Stop()
	conn, err := grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(serviceConfig))
	if err != nil {
		return err
	}
	defer conn.Close()
	client, local := grpc_health_v1.NewHealthClient(conn), group.For("local")

	for _, kind := range []struct {
		name string
		call func() error
	}{
		{"http", func() error { _, err := get(ctx, web.Client(), web.URL); return err }},
		{"grpc", func() error { _, err := client.Check(ctx, nil); return err }},
		{"local", func() error { return take(ctx, local) }},
	} {
		began := time.Now()
		for range 4 {
			if err := kind.call(); err != nil {
				return fmt.Errorf("%s: %w", kind.name, err)
			}
		}
		fmt.Fprintf(out, "%s: 4 calls took %v\n", kind.name, time.Since(began).Round(time.Millisecond))
	}
	return nil
}

// serveHTTP serves a page that the group limits. The caller closes the server.
func serveHTTP(group *limiter.Group) (*httptest.Server, error) {
	limit, err := httplimit.New(engine.New(group, nil), httplimit.Options{Key: "http"})
	if err != nil {
		return nil, err
	}
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "served") })
	return httptest.NewServer(limit.Wrap(page)), nil
}

// serveGRPC serves gRPC's health checks, which the group limits, at a listener.
// The caller stops the server.
func serveGRPC(group *limiter.Group, at net.Listener) (*grpc.Server, error) {
	limit, err := grpclimit.New(engine.New(group, nil), grpclimit.Options{Key: "grpc"})
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(limit.UnaryServer))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(at) }() // until Stop
	return server, nil
}
