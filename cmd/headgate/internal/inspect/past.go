// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/adminclient"
	"github.com/headgate/headgate/cmd/headgate/internal/output"
	"github.com/headgate/headgate/internal/admin/api/lasthour"
	"github.com/headgate/headgate/internal/printable"
)

// explainPast prints why a key was limited as it was at a time, at host or at all hosts.
func explainPast(cmd *cobra.Command, a *adminclient.Decider, o *output.Form, key, host, at string) error {
	if err := o.Check(); err != nil {
		return err
	}
	when, err := timeOfLastHour(at, time.Now())
	if err != nil {
		return err
	}
	return a.Use(cmd, func(ctx context.Context, c *adminclient.Client) error {
		var t lasthour.Then
		query := url.Values{"key": {key}, "at": {when.UTC().Format(time.RFC3339)}}
		if err := c.Ask(ctx, http.MethodGet, "/v1/explain/past?"+query.Encode(), "", &t); err != nil {
			return err
		}
		if host != "" {
			t.Hosts = slices.DeleteFunc(t.Hosts, func(h lasthour.HostThen) bool { return h.Host != host })
			if len(t.Hosts) == 0 {
				return fmt.Errorf("%s is no member that answers: headgate cluster lists the members", host)
			}
		}
		return o.Print(cmd.OutOrStdout(), t, func(w io.Writer) error { return printThen(w, &t) })
	})
}

// timeOfLastHour reads a time: a date and time, how long ago, or a time of day, which is the last
// such time before now.
func timeOfLastHour(text string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, form := range []string{time.TimeOnly, "15:04"} {
		t, err := time.ParseInLocation(form, text, now.Location())
		if err != nil {
			continue
		}
		t = time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location())
		if t.After(now) {
			t = t.AddDate(0, 0, -1)
		}
		return t, nil
	}
	return time.Time{}, fmt.Errorf("--at %q: write a time of the last hour, as in 15:04, 15:04:05 or 2006-01-02T15:04:05Z, or how long ago, as in 5m", text)
}

func printThen(out io.Writer, t *lasthour.Then) error {
	fmt.Fprintf(out, "%s, from %s to %s: %s\n", printable.Text(t.Key), t.From.Local().Format(time.DateTime), t.Until.Local().Format(time.TimeOnly), printable.Text(t.Because))
	printRule(out, t.Rule)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nHOST\tALLOWED\tREJECTED")
	for _, h := range t.Hosts {
		fmt.Fprintf(w, "%s\t%s\t%s\n", printable.Text(h.Host), amount(&h.Allowed), amount(&h.Rejected))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(t.Events) > 0 {
		fmt.Fprintln(out, "\nwhat happened in the minute before and meanwhile:")
	}
	for _, e := range t.Events {
		fmt.Fprintf(out, "  %s  %s: %s\n", e.Time.Local().Format(time.TimeOnly), e.Kind, printable.Text(strings.TrimSpace(e.Text)))
	}
	for _, h := range t.Hosts {
		if len(h.Decisions) > 0 {
			fmt.Fprintf(out, "\ndecisions at %s:\n", printable.Text(h.Host))
			printDecisions(out, h.Decisions)
		}
	}
	return nil
}
