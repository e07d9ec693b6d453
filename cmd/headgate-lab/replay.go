// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/internal/sim/replay"
)

// replayFlags are those of `headgate-lab replay`.
type replayFlags struct {
	replay.Config

	json bool
}

func newReplay() *cobra.Command {
	f := replayFlags{}
	cmd := &cobra.Command{
		Use:   "replay LOG",
		Short: "Say what a limit would have done to the users in an access log",
		Long: `replay turns an access log into traffic for a simulated cluster, and says in one table what
each algorithm would have done to these users, beside one perfect bucket. Below it says
which limits that bucket would need to reject 0.1, 1 and 5% of the requests.

  --key        which requests share a limit: {ip}, {method}, {path}, {status}, {user},
               {header:user-agent}, … or a word for all requests together
  --by         which host gets a request: always the same for a client (its {ip}), or any

The log is read once, from the file or, as -, from stdin. Memory does not grow with it.
docs/replay.md has the formats and the fields of each.`,
		Example: `  headgate-lab replay access.log --limit 26/s --burst 40
  headgate-lab replay access.log --key '{ip}' --limit 2/s --burst 10 --hosts 8 --by random
  headgate-lab replay access.log --format json --key '{header:x-api-key}' --limit 100/m
  headgate-lab replay access.log --limit 260/s --speed 10 --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Format, "format", "combined", "combined (and common), json (an object per line), envoy or alb")
	flags.StringVar(&f.Key, "key", "all", "template of the key that a request uses, such as {ip}")
	flags.IntVar(&f.Hosts, "hosts", 8, "number of hosts")
	flags.StringVar(&f.By, "by", replay.Client, "how a request's host is chosen: client or random")
	flags.Float64Var(&f.Speed, "speed", 1, "how many times as fast as the log")
	flags.StringVar(&f.Limit, "limit", "", "limit of each key, such as 26/s")
	flags.Float64Var(&f.Burst, "burst", 0, "burst of each key, in requests (default one second of the limit)")
	flags.StringSliceVar(&f.Algorithms, "algorithm", []string{"even", "request-weighted", "elastic", "auto", "exact"}, "algorithms, one line each")
	flags.Uint64Var(&f.Seed, "seed", 1, "seed of all chance")
	flags.BoolVar(&f.SkipBad, "skip-bad", false, "leave out lines that cannot be read, and count them")
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	_ = cmd.MarkFlagRequired("limit")
	return cmd
}

func (f replayFlags) run(cmd *cobra.Command, name string) error {
	if err := f.Validate(); err != nil {
		return err
	}
	in, err := input(cmd, name)
	if err != nil {
		return err
	}
	defer in.Close()
	progress := newProgress(cmd.ErrOrStderr())
	log, err := f.Read(name, &counting{in, 0, func(bytes int64) error {
		progress(fmt.Sprintf("reading: %d MB", bytes>>20))
		return cmd.Context().Err()
	}})
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	defer log.Close()
	report, err := f.Run(cmd.Context(), log, func(percent int64) { progress(fmt.Sprintf("replaying: %d%%", percent)) })
	progress("")
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	out := cmd.OutOrStdout()
	if f.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(report)
	}
	return report.WriteTable(out)
}

// counting reports how many bytes were read so far, and ends with the first error of that.
type counting struct {
	io.Reader

	bytes int64
	tell  func(bytes int64) error
}

func (c *counting) Read(p []byte) (int, error) {
	if err := c.tell(c.bytes); err != nil {
		return 0, err
	}
	n, err := c.Reader.Read(p)
	c.bytes += int64(n)
	return n, err
}

// input opens a file; - is stdin.
func input(cmd *cobra.Command, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	return os.Open(name)
}
