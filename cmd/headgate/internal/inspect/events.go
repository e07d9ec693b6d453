// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/adminclient"
	"github.com/headgate/headgate/cmd/headgate/internal/output"
	"github.com/headgate/headgate/internal/admin/api/events"
	"github.com/headgate/headgate/internal/admin/api/reply"
	"github.com/headgate/headgate/internal/command"
	"github.com/headgate/headgate/internal/printable"
)

func newEvents() *cobra.Command {
	var a adminclient.Decider
	var past bool
	var o output.Form
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Follow what happens at a decider",
		Long: `events prints what happens at one decider, until it is interrupted: limits that were stored
there, limits that came into force or were refused, and members that come, go or do not
answer. It begins with what the decider remembers, at most 1,000 events. It asks a decider that is
restarted again.
In JSON, each event is a line; in YAML, a document.`,
		Example: `  headgate events --admin 10.0.0.7:7936
  headgate events --admin 10.0.0.7:7936 --past -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(); err != nil {
				return err
			}
			show := func(e events.Event) error { return printEvent(cmd.OutOrStdout(), e, &o) }
			if !past {
				a.Timeout = 0
			}
			return a.Use(cmd, func(ctx context.Context, c *adminclient.Client) error {
				if past {
					var all struct {
						Events []events.Event `json:"events"`
					}
					err := c.Ask(ctx, http.MethodGet, "/v1/events?past", "", &all)
					for _, e := range all.Events {
						err = errors.Join(err, show(e))
					}
					return err
				}
				ctx, cancel := command.WhileRead(ctx, cmd.OutOrStdout())
				defer cancel()
				return followEvents(ctx, c, cmd.ErrOrStderr(), show)
			})
		},
	}
	a.Flags(cmd.Flags())
	cmd.Flags().BoolVar(&past, "past", false, "print what the decider remembers, and end")
	o.Flags(cmd, "text")
	return cmd
}

// askAgain is how long events waits before it asks a decider again that does not answer any more.
const askAgain = time.Second

// followEvents calls show with each event until ctx ends. A decider that does not answer any more, as one that is
// restarted, is asked again, and warn says so.
func followEvents(ctx context.Context, c *adminclient.Client, warn io.Writer, show func(events.Event) error) error {
	last, answered := "", false // last names the newest event
	for {
		answer, err := c.Open(ctx, http.MethodGet, "/v1/events", "", "Last-Event-ID", last)
		p, refused := errors.AsType[*reply.Problem](err)
		switch {
		case ctx.Err() != nil:
			return nil // interrupted, or not read any more
		case err != nil && (!answered || refused && p.Status < http.StatusInternalServerError):
			return err
		case err == nil:
			answered = true
			if last, err = showEvents(answer.Body, last, show); err != nil {
				return err
			}
			if ctx.Err() == nil {
				fmt.Fprintln(warn, "the decider does not answer any more, and is asked again")
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(askAgain):
		}
	}
}

// showEvents calls show with each event in body until that ends, and returns the name of the last one. An error is that of show.
func showEvents(body io.ReadCloser, last string, show func(events.Event) error) (string, error) {
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			last = id
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e events.Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return last, err
		}
		if err := show(e); err != nil {
			return last, err
		}
	}
	return last, nil
}

func printEvent(w io.Writer, e events.Event, o *output.Form) error {
	return o.PrintOne(w, e, func(w io.Writer) error {
		lines := strings.Split(strings.TrimSpace(e.Text), "\n")
		for i, line := range lines {
			lines[i] = printable.Text(line)
		}
		_, err := fmt.Fprintf(w, "%s  %-15s %s\n", e.Time.Local().Format(time.DateTime), e.Kind, strings.Join(lines, "\n    "))
		return err
	})
}
