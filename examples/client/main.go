// SPDX-License-Identifier: Apache-2.0

// Command client is a batch job that runs no decider: it asks a daemon. Start
// one or more, then as many jobs as you like; they share the limit:
//
//	go run ./cmd/headgate serve --limits examples/client/limits.yaml
//	go run ./examples/client -edge 127.0.0.1:7934 -jobs 2
//	go run ./examples/client -edge 127.0.0.1:7934 -jobs 2
//
// Edit limits.yaml while they run, or stop the daemon.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/headgate/headgate/dynamicconfig/file"
	"github.com/headgate/headgate/limiter/client"
)

func main() {
	edge := flag.String("edge", "127.0.0.1:7934", "edge addresses of deciders, separated by commas")
	limits := flag.String("limits", "examples/client/limits.yaml", "file of limits, the same as the deciders have")
	jobs := flag.Int("jobs", 1, "how many of these programs share the limits, for when no decider answers")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, strings.Split(*edge, ","), *limits, *jobs, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run imports rows as fast as it may until ctx ends, and says so every second.
func run(ctx context.Context, edge []string, limits string, jobs int, out io.Writer) error {
	c, err := client.New(client.Config{Addresses: edge, Hosts: jobs}, file.New(limits))
	if err != nil {
		return err
	}
	defer c.Close()

	limiter := c.For("batch:import")
	rows, second := 0, time.Now()
	for limiter.Wait(ctx) == nil { // an error is the end of ctx
		rows++
		if since := time.Since(second); since >= time.Second {
			fmt.Fprintf(out, "%.0f rows/s\n", float64(rows)/since.Seconds())
			rows, second = 0, time.Now()
		}
	}
	return nil
}
