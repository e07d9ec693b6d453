// SPDX-License-Identifier: Apache-2.0

// Command scale measures what a whole node costs.
//
//	go run ./internal/nodeload/scale [-json] [-keys 100000] [-hosts 50]
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"

	"github.com/headgate/headgate/internal/nodeload"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) == 2 && os.Args[1] == "node" {
		exit(nodeload.Serve(ctx, os.Stdin, os.Stdout))
		return
	}
	var c nodeload.Config
	flag.IntVar(&c.Hosts, "hosts", 50, "hosts of the cluster")
	flag.IntVar(&c.Keys, "keys", 100_000, "keys in use on every host")
	flag.Float64Var(&c.Rate, "rate", 0, "decisions/s of the node; 0: each key once an interval")
	flag.DurationVar(&c.Interval, "interval", 0, "update_interval; 0: 3s")
	flag.IntVar(&c.Warmup, "warmup", 3, "intervals that pass unmeasured")
	flag.IntVar(&c.Intervals, "intervals", 10, "intervals that are measured")
	flag.StringVar(&c.Algorithm, "algorithm", "", "of all keys; default that of rules")
	flag.StringVar(&c.Profiles, "profiles", "", "folder for the node's profiles; default none")
	asJSON := flag.Bool("json", false, "write JSON")
	flag.Parse()
	exit(run(ctx, c, *asJSON))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c nodeload.Config, asJSON bool) error {
	result, err := nodeload.Run(ctx, c, self)
	if err != nil {
		return err
	}
	if asJSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(result)
	}
	return result.WriteTable(os.Stdout)
}

// self is this very program as the node under test.
func self(ctx context.Context) *exec.Cmd {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	return exec.CommandContext(ctx, program, "node")
}
