// SPDX-License-Identifier: Apache-2.0

// Command payload shows an algorithm with a request, a response and state of its
// own. Three nodes on this machine share a limit under it, and the program
// prints how many events each may do:
//
//	go run ./examples/payload
//
// firstcome.go is what to copy.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/static"
)

const limits = `
defaults: {update_interval: 100ms}
limits:
  - {key: "job:*", limit: 100/s, algorithm: first-come}
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, 2*time.Second); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run lets three nodes work on one job for some time.
func run(ctx context.Context, out io.Writer, work time.Duration) (err error) {
	nodes, err := start(ctx, 3)
	defer func() {
		for _, node := range nodes {
			err = errors.Join(err, node.Stop(context.WithoutCancel(ctx)))
		}
	}()
	if err != nil {
		return err
	}
	done := make([]int, len(nodes))
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(work); time.Now().Before(end) && ctx.Err() == nil; <-ticker.C {
		for i, node := range nodes {
			if node.For("job:1").Allow() {
				done[i]++
			}
		}
	}
	for i, node := range nodes {
		fmt.Fprintf(out, "%s did %d parts of the job\n", node.Address(), done[i])
	}
	return nil
}

// start starts n nodes. It returns those that run also if one does not.
func start(ctx context.Context, n int) (nodes []*headgate.Node, err error) {
	snapshot, err := dynamicconfig.Parse("limits.yaml", []byte(limits))
	if err != nil {
		return nil, err
	}
	var hosts []ringpop.Host
	var listeners []net.Listener
	for range n {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		listeners, hosts = append(listeners, l), append(hosts, ringpop.Host{Address: l.Addr().String()})
	}
	members, err := static.New(hosts...)
	if err != nil {
		return nil, err
	}
	for i, l := range listeners {
		node, err := headgate.New(headgate.Config{Address: hosts[i].Address}, memory.New(snapshot), members,
			headgate.WithListen(l), headgate.WithLogger(slog.New(slog.DiscardHandler)),
			headgate.WithPayload("first-come", payload()))
		if err == nil {
			err = node.Start(ctx)
		}
		if err != nil {
			return nodes, err
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}
