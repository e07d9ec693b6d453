// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/adminclient"
	"github.com/headgate/headgate/cmd/headgate/internal/output"
	"github.com/headgate/headgate/internal/admin/api/busiest"
	"github.com/headgate/headgate/internal/operators"
	"github.com/headgate/headgate/internal/toptui"
	"github.com/headgate/headgate/limiter/explain"
)

func newTop() *cobra.Command {
	var a adminclient.Decider
	var o output.Form
	var once bool
	config := toptui.Config{Query: toptui.Query{Sort: "rejected"}}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the keys and the hosts of a cluster live",
		Long: `top asks a running decider, again and again, which keys are used and refused most in the whole
cluster, and what each host does. It shows them live in the terminal: press ? for help and q to
end. If the decider does not answer, top keeps the last picture, says of when it is, and asks again.

--once prints one picture and ends; so does -o json or yaml. Rates are of the last ten seconds,
in tokens, over all hosts that answer. The environment's NO_COLOR takes the colours away.`,
		Example: `  headgate top --admin 10.0.0.7:7936
  headgate top --admin 10.0.0.7:7936 --like login: --sort utilization
  headgate top --admin 10.0.0.7:7936 --once -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := &config.Query
			if !slices.Contains(toptui.KeySorts, q.Sort) {
				return fmt.Errorf("top: --sort %s: use one of: %s", q.Sort, strings.Join(toptui.KeySorts, ", "))
			}
			if q.Keys < 1 || q.Keys > 1000 {
				return fmt.Errorf("top: --number %d: use 1 to 1000", q.Keys)
			}
			if config.Interval < 100*time.Millisecond {
				return fmt.Errorf("top: --interval %v: use at least 100ms", config.Interval)
			}
			if err := o.Check(); err != nil {
				return err
			}
			if once || !o.ForPeople() {
				return a.Use(cmd, func(ctx context.Context, c *adminclient.Client) error {
					p, err := watched{c}.Picture(ctx, *q)
					if err != nil {
						return err
					}
					return o.Print(cmd.OutOrStdout(), p, func(w io.Writer) error { return toptui.Print(w, &p, *q) })
				})
			}
			if config.Timeout = a.Timeout; config.Timeout <= 0 {
				config.Timeout = time.Hour
			}
			if !term.IsTerminal(os.Stdin.Fd()) || !term.IsTerminal(os.Stdout.Fd()) {
				return errors.New("top: this is no terminal: print one picture with --once")
			}
			a.Timeout = 0 // of all; each question has its own
			return a.Use(cmd, func(ctx context.Context, c *adminclient.Client) error { return toptui.Run(ctx, watched{c}, config) })
		},
	}
	a.Flags(cmd.Flags())
	o.Flags(cmd, "text")
	cmd.Flags().BoolVar(&once, "once", false, "print one picture, and end")
	cmd.Flags().StringVar(&config.Query.Like, "like", "", "only keys that contain this `text`")
	cmd.Flags().StringVar(&config.Query.Sort, "sort", config.Query.Sort, "`order` of the keys: "+strings.Join(toptui.KeySorts, ", "))
	cmd.Flags().IntVarP(&config.Query.Keys, "number", "n", 200, "how many keys, at most 1000")
	cmd.Flags().DurationVar(&config.Interval, "interval", 2*time.Second, "how long to wait between two pictures")
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(toptui.KeySorts, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// watched is a decider that toptui asks.
type watched struct{ c *adminclient.Client }

var _ toptui.Source = watched{}

// Picture implements toptui.Source.
func (s watched) Picture(ctx context.Context, q toptui.Query) (toptui.Picture, error) {
	var top busiest.Top
	query := url.Values{"sort": {q.Sort}, "like": {q.Like}, "n": {strconv.Itoa(q.Keys)}}
	if err := s.c.Ask(ctx, http.MethodGet, "/v1/top?"+query.Encode(), "", &top); err != nil {
		return toptui.Picture{}, err
	}
	var cluster operators.Cluster
	if err := s.c.Ask(ctx, http.MethodGet, "/v1/cluster", "", &cluster); err != nil {
		return toptui.Picture{}, err
	}
	return toptui.Join(top, cluster), nil
}

// Explain implements toptui.Source.
func (s watched) Explain(ctx context.Context, key string) (string, error) {
	var e explain.Explanation
	if err := s.c.Ask(ctx, http.MethodGet, "/v1/explain?"+url.Values{"key": {key}}.Encode(), "", &e); err != nil {
		return "", err
	}
	var text strings.Builder
	err := printExplanation(&text, &e)
	return text.String(), err
}
