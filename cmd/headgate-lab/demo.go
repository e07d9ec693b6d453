// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"github.com/headgate/headgate/internal/demo"
	"github.com/headgate/headgate/internal/demo/tui"
)

// demoFlags are those of `headgate-lab demo`.
type demoFlags struct {
	length         time.Duration
	limit, offered int
	json, plain    bool
	printConfig    bool

	play func(context.Context, demo.Config, func(demo.Frame)) (demo.Result, error)
}

func newDemo() *cobra.Command {
	f := demoFlags{play: demo.Run}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch five hosts on this machine share one limit",
		Long: `demo starts five hosts in this process. Each has its own connections to the others and
its own HTTP service on loopback. HTTP requests come in at twice the limit, 90% of them
at one host. Three algorithms decide about every request at the same time: "even" divides
the limit by the number of hosts; "request-weighted" shares it by where the load was;
"auto", the default, shares it by load too, asks the owner of the key before it rejects,
and is the one that answers.

  steady   one host is hot (the measured time begins when all hosts have grants)
  moved    another host is hot
  killed   the host that decides for the key dies

It ends by itself. Ctrl-C ends it sooner, with the summary of what there was.`,
		Example: `  headgate-lab demo                        # one minute, live
  headgate-lab demo --for 20s              # the short version
  headgate-lab demo --for 20s --json       # one JSON object at the end
  headgate-lab demo --limit 200 --offered 300
  headgate-lab demo --print-config         # what the hosts run with`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.DurationVar(&f.length, "for", time.Minute, "length of all phases together; 0 goes round after round until Ctrl-C")
	flags.IntVar(&f.limit, "limit", 500, "limit of all hosts together, in requests per second")
	flags.IntVar(&f.offered, "offered", 0, "load on all hosts together, in requests per second (default twice the limit)")
	flags.BoolVar(&f.json, "json", false, "print one JSON object on stdout at the end, and progress on stderr")
	flags.BoolVar(&f.plain, "plain", false, "print lines instead of the live view, as when there is no terminal")
	flags.BoolVar(&f.printConfig, "print-config", false, "print the limits that the hosts run with, as YAML, and end")
	return cmd
}

func (f demoFlags) run(cmd *cobra.Command) error {
	config, err := f.config(cmd)
	if err != nil {
		return err
	}
	out, ctx := cmd.OutOrStdout(), cmd.Context()
	if f.printConfig {
		_, err := io.WriteString(out, config.YAML())
		return err
	}
	live := !f.json && !f.plain && out == io.Writer(os.Stdout) && terminal()
	var result demo.Result
	switch {
	case live:
		result, err = tui.Run(ctx, func(ctx context.Context, watch func(demo.Frame)) (demo.Result, error) {
			return f.play(ctx, config, watch)
		})
	case f.json:
		result, err = f.play(ctx, config, demo.NewPlain(cmd.ErrOrStderr()).Show)
	default:
		result, err = f.play(ctx, config, demo.NewPlain(out).Show)
	}
	if err != nil {
		return err
	}
	if f.json {
		return result.WriteJSON(out)
	}
	if !live {
		fmt.Fprintln(out)
	}
	return result.WriteSummary(out)
}

// config checks the flags, in the words of the flags.
func (f demoFlags) config(cmd *cobra.Command) (demo.Config, error) {
	if f.limit < 1 {
		return demo.Config{}, fmt.Errorf("--limit %d: take 1 or more requests per second", f.limit)
	}
	if cmd.Flags().Changed("offered") && f.offered < 1 {
		return demo.Config{}, fmt.Errorf("--offered %d: take 1 or more requests per second", f.offered)
	}
	if f.length < 0 {
		return demo.Config{}, fmt.Errorf("--for %v: take 12s or more, or 0 to go on until Ctrl-C", f.length)
	}
	config := demo.Config{Limit: f.limit, Offered: f.offered, For: f.length}
	if err := config.Validate(); err != nil {
		return demo.Config{}, fmt.Errorf("demo: %w", err)
	}
	return config, nil
}

// terminal reports whether stdout is one that can be drawn on.
func terminal() bool {
	info, err := os.Stdout.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && lipgloss.Writer.Profile.String() != "NoTTY"
}
