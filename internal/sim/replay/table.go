// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/headgate/headgate/dynamicconfig/rule"
)

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	length := time.Duration(r.LogSeconds * float64(time.Second)).Round(time.Second)
	fmt.Fprintf(w, "%d requests of %d keys in %s", r.Events, r.Keys, length)
	if r.BadLines > 0 {
		fmt.Fprintf(w, "; %d lines could not be read", r.BadLines)
	}
	if r.WithoutField > 0 {
		fmt.Fprintf(w, "; %d have no value for a field of --key and share a limit", r.WithoutField)
	}
	if r.NoClient > 0 {
		fmt.Fprintf(w, "; %d have no client address ({ip}) and all go to one host: --by random spreads them", r.NoClient)
	}
	fmt.Fprint(w, "\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "algorithm\trejected %\tfalse rejects %\tover %\tkeys rejected\treports /host/s\tasks /host/s\twaited %\tp99 ms")
	for _, l := range r.Lines {
		if l.Algorithm == OneBucket {
			fmt.Fprintf(t, "%s\t%.2f\t–\t–\t%d\t–\t–\t–\t–\n", l.Algorithm, l.RejectedPct, l.KeysRejected)
			continue
		}
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.1f\t%d\t%.2f\t%.2f\t%.1f\t%.1f\n", l.Algorithm, l.RejectedPct, l.FalseRejectPct, l.OverPct,
			l.KeysRejected, l.ReportsPerHostS, l.AsksPerHostS, l.WaitedPct, l.WaitP99Ms)
	}
	for i, c := range r.Limits {
		if i == 0 {
			fmt.Fprint(t, "\none bucket rejects\twith a limit of\n")
		}
		fmt.Fprintf(t, "%g%%\t%s\n", c.RejectedPct, limitOf(c))
	}
	return t.Flush()
}

// limitOf is a limit as limits are written, with three digits at least.
func limitOf(c Choice) string {
	switch {
	case c.Limit == 0:
		return "none: more than the burst come at once"
	case c.Limit >= 100:
		return fmt.Sprintf("%.0f/s", c.Limit)
	}
	return fmt.Sprintf("%.3g/s", c.Limit)
}

// keyOf is a key that limits can have: not too long, and without signs that
// cannot be printed.
func keyOf(text string) string {
	key := prefix + strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0xfffd {
			return '?'
		}
		return r
	}, text)
	if len(key) <= rule.MaxKeyLength && key == prefix+text {
		return key
	}
	sum := sha256.Sum256([]byte(text))
	return strings.ToValidUTF8(key[:min(len(key), rule.MaxKeyLength-17)], "") + "#" + hex.EncodeToString(sum[:8])
}
