// SPDX-License-Identifier: Apache-2.0

package nodeload

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/nodeload/figures"
)

// Result is what a node took.
type Result struct {
	Hosts     int     `json:"hosts"`
	Keys      int     `json:"keys"`
	Owned     int     `json:"owned_keys"`
	IntervalS float64 `json:"interval_s"`
	MeasuredS float64 `json:"measured_s"`
	// Live keys in the end, and those of them that had a grant.
	Live    int `json:"live_keys"`
	Granted int `json:"granted_keys"`

	Algorithm     string  `json:"algorithm"`
	DecisionsPerS float64 `json:"decisions_per_s"`
	Refused       int64   `json:"refused_decisions"`
	// DecisionP50Us and DecisionP99Us are how long decisions took, those that
	// asked an owner among them, in µs and to an eighth.
	DecisionP50Us float64 `json:"decision_p50_us"`
	DecisionP99Us float64 `json:"decision_p99_us"`
	// AsksOutPerS are events that the node asked other owners for, and AsksInPerS
	// events that others asked it for.
	AsksOutPerS float64 `json:"asks_out_per_s"`
	AsksInPerS  float64 `json:"asks_in_per_s"`
	// CallsPerS, RowsInPerS and RowsOutPerS are calls with reports that the node
	// made, keys that were reported to it and keys that it reported, to other hosts.
	CallsPerS   float64 `json:"calls_per_s"`
	RowsInPerS  float64 `json:"rows_in_per_s"`
	RowsOutPerS float64 `json:"rows_out_per_s"`
	// BytesInPerS and BytesOutPerS are all that its connections carried.
	BytesInPerS  float64 `json:"bytes_in_per_s"`
	BytesOutPerS float64 `json:"bytes_out_per_s"`

	// CPUPercent is of one core, user and system mode.
	CPUPercent float64 `json:"cpu_percent"`
	RSS        int64   `json:"rss_bytes"`
	MaxRSS     int64   `json:"max_rss_bytes"`

	// Updates are the calls that peers made, and how long they waited.
	Updates     int     `json:"updates"`
	Failed      int64   `json:"failed_updates"`
	UpdateP50Ms float64 `json:"update_p50_ms"`
	UpdateP99Ms float64 `json:"update_p99_ms"`
	UpdateMaxMs float64 `json:"update_max_ms"`
	// LateP99Ms is how late the peers' own timers went off: what the machine
	// adds to the above when all processors are taken.
	LateP99Ms float64 `json:"late_p99_ms"`

	GCs        int     `json:"gcs"`
	PauseMaxMs float64 `json:"gc_pause_max_ms"`
	PauseSumMs float64 `json:"gc_pause_sum_ms"`
}

func newResult(c Config, owned int, from, to reading, before, after counts) Result {
	seconds := (to.At - from.At).Seconds()
	per := func(n int64) float64 { return float64(n) / seconds }
	took := after.took[len(before.took):]
	late := after.late[len(before.late):]
	slices.Sort(took)
	slices.Sort(late)
	pauses := to.Recent[:min(int(to.GCs-from.GCs), len(to.Recent))]
	r := Result{
		Hosts: c.Hosts, Keys: c.Keys, Owned: owned, IntervalS: c.Interval.Seconds(), MeasuredS: seconds,
		Live: to.Live, Granted: to.Granted,
		Algorithm:     c.Algorithm,
		DecisionsPerS: per(to.Decisions - from.Decisions),
		Refused:       to.Refused - from.Refused,
		DecisionP50Us: figures.Us(quantileOf(from.Waits, to.Waits, 0.5)),
		DecisionP99Us: figures.Us(quantileOf(from.Waits, to.Waits, 0.99)),
		AsksOutPerS:   per(after.asksReceived - before.asksReceived),
		AsksInPerS:    per(after.asksSent - before.asksSent),
		CallsPerS:     per(after.calls - before.calls),
		RowsInPerS:    per(after.rowsSent - before.rowsSent),
		RowsOutPerS:   per(after.rowsReceived - before.rowsReceived),
		BytesInPerS:   per(after.sent - before.sent),
		BytesOutPerS:  per(after.received - before.received),
		CPUPercent:    100 * (to.CPU - from.CPU).Seconds() / seconds,
		RSS:           to.RSS,
		MaxRSS:        to.MaxRSS,
		Updates:       len(took),
		Failed:        after.failed - before.failed,
		UpdateP50Ms:   figures.Ms(figures.Quantile(took, 0.5)),
		UpdateP99Ms:   figures.Ms(figures.Quantile(took, 0.99)),
		UpdateMaxMs:   figures.Ms(figures.Quantile(took, 1)),
		LateP99Ms:     figures.Ms(figures.Quantile(late, 0.99)),
		GCs:           int(to.GCs - from.GCs),
		PauseSumMs:    figures.Ms(to.Pauses - from.Pauses),
	}
	if len(pauses) > 0 {
		r.PauseMaxMs = figures.Ms(slices.Max(pauses))
	}
	return r
}

// Rows are the lines of a table: what, and how much.
func (r Result) Rows() [][2]string {
	return [][2]string{
		{"hosts, keys in use, owned", fmt.Sprintf("%d, %s, %s", r.Hosts, figures.Thousands(r.Keys), figures.Thousands(r.Owned))},
		{"interval, measured for", fmt.Sprintf("%g s, %.0f s", r.IntervalS, r.MeasuredS)},
		{"algorithm", "`" + r.Algorithm + "`"},
		{"decisions/s, refused", fmt.Sprintf("%s, %d", figures.Thousands(int(r.DecisionsPerS)), r.Refused)},
		{"a decision: median, **p99**", fmt.Sprintf("%.1f µs, **%.1f µs**", r.DecisionP50Us, r.DecisionP99Us)},
		{"asks of other owners, by other hosts /s", fmt.Sprintf("%s, %s", figures.Thousands(int(r.AsksOutPerS)), figures.Thousands(int(r.AsksInPerS)))},
		{"keys reported to other owners /s", figures.Thousands(int(r.RowsOutPerS))},
		{"keys reported by other hosts /s", figures.Thousands(int(r.RowsInPerS))},
		{"calls with reports /s", fmt.Sprintf("%.1f", r.CallsPerS)},
		{"network in, out", fmt.Sprintf("%.0f kB/s, %.0f kB/s", r.BytesInPerS/1e3, r.BytesOutPerS/1e3)},
		{"**CPU**, user and system", fmt.Sprintf("**%.1f%%** of one core", r.CPUPercent)},
		{"**RSS**, and at most", fmt.Sprintf("**%.0f MB**, %.0f MB", float64(r.RSS)/1e6, float64(r.MaxRSS)/1e6)},
		{"a report: median, **p99**, longest", fmt.Sprintf("%.1f ms, **%.1f ms**, %.1f ms of %d", r.UpdateP50Ms, r.UpdateP99Ms, r.UpdateMaxMs, r.Updates)},
		{"p99 of a timer of the peers", fmt.Sprintf("%.1f ms late", r.LateP99Ms)},
		{"GCs, longest pause, all pauses", fmt.Sprintf("%d, %.2f ms, %.1f ms", r.GCs, r.PauseMaxMs, r.PauseSumMs)},
		{"keys with a grant, failed reports", fmt.Sprintf("%s, %d", figures.Thousands(r.Granted), r.Failed)},
	}
}

// WriteTable writes r for people.
func (r Result) WriteTable(w io.Writer) error {
	for _, row := range r.Rows() {
		if _, err := fmt.Fprintf(w, "%-36s %s\n", figures.Plain(row[0]), figures.Plain(row[1])); err != nil {
			return err
		}
	}
	return nil
}

// NodeTable is results side by side, as Markdown. Each has a title.
func NodeTable(titles []string, results []Result) string {
	var b strings.Builder
	figures.Header(&b, append([]string{""}, titles...))
	for i, row := range results[0].Rows() {
		fmt.Fprintf(&b, "| %s |", row[0])
		for _, r := range results {
			fmt.Fprintf(&b, " %s |", r.Rows()[i][1])
		}
		b.WriteString("\n")
	}
	return b.String()
}
