// SPDX-License-Identifier: Apache-2.0

package nodeload

import (
	"fmt"
	"strings"
)

// NodeTable is results side by side, as Markdown. Each has a title.
func NodeTable(titles []string, results []Result) string {
	var b strings.Builder
	header(&b, append([]string{""}, titles...))
	for i, row := range results[0].Rows() {
		fmt.Fprintf(&b, "| %s |", row[0])
		for _, r := range results {
			fmt.Fprintf(&b, " %s |", r.Rows()[i][1])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// HostTable is what a host takes, as Markdown.
func (g Growth) HostTable() string {
	var b strings.Builder
	header(&b, []string{"keys", "decision, ns", "report and apply, ns/key", "watch, ns/key/s", "memory, B/key", "asleep, B/key", "out, B/key", "back, B/key", "one round, CPU", "memory"})
	for _, c := range g.Host {
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.0f | %.0f | %.0f | %.1f | %.1f | %s | %s |\n", thousands(c.Keys), c.DecisionNs, c.RoundNs, c.WatchNs,
			c.Bytes, c.AsleepBytes, c.Out, c.Back, milliseconds(c.RoundNs*float64(c.Keys)), megabytes(c.Bytes*float64(c.Keys)))
	}
	return b.String()
}

// OwnerTable is what an owner takes, as Markdown.
func (g Growth) OwnerTable() string {
	var b strings.Builder
	header(&b, []string{"hosts per key", "keys", "report, ns/key", "memory, B per key and host", "memory, B/key"})
	for _, c := range g.Owner {
		fmt.Fprintf(&b, "| %s | %s | %.0f | %.0f | %s |\n", thousands(c.Hosts), thousands(c.Keys), c.ReportNs, c.Bytes, thousands(int(c.KeyBytes)))
	}
	return b.String()
}

// PeerTable is what the ring and calls take, as Markdown.
func (g Growth) PeerTable() string {
	var b strings.Builder
	header(&b, []string{"hosts", "build the ring, ms", "add one, ms", "owner of a key, ns", "ring, kB/host", "fullest ÷ mean", "ring, all", "connections, all"})
	for _, c := range g.Ring {
		fmt.Fprintf(&b, "| %s | %.1f | %.2f | %.0f | %.1f | %.2f | %s | %s |\n", thousands(c.Hosts), c.BuildMs, c.AddMs, c.LookupNs,
			c.Bytes/1e3, c.Balance, megabytes(c.Bytes*float64(c.Hosts)), megabytes(g.Call.ConnectionBytes*float64(c.Hosts)))
	}
	return b.String()
}

// CallTable is what a call takes, as Markdown.
func (g Growth) CallTable() string {
	var b strings.Builder
	header(&b, []string{"of both sides together", ""})
	fmt.Fprintf(&b, "| a call about one key, CPU | %.0f µs |\n", g.Call.Us)
	fmt.Fprintf(&b, "| each further key, CPU to carry it | %.0f ns |\n", g.Call.KeyNs)
	fmt.Fprintf(&b, "| headers and framing of a call and its answer | %.0f B |\n", g.Call.Bytes)
	fmt.Fprintf(&b, "| memory for a connection to a host and one from it, without the kernel's | %.0f kB |\n", g.Call.ConnectionBytes/1e3)
	return b.String()
}

// PaperTable is the Shapes on paper, as Markdown.
func (g Growth) PaperTable() string {
	var b strings.Builder
	header(&b, []string{"hosts", "keys per host", "keys in all", "interval", "calls/s", "CPU: host", "owner", "calls", "watch", "**CPU**, of a core", "**memory**", "**network**, each way"})
	for _, s := range Shapes() {
		e := g.Estimate(s)
		hosts := thousands(s.Hosts)
		if s.Note != "" {
			hosts += ", " + s.Note
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %.0f s | %s | %.1f%% | %.1f%% | %.1f%% | %.1f%% | **%.0f%%** | **%s** | **%s/s** |\n",
			hosts, thousands(s.KeysPerHost), thousands(int(s.Keys())), s.Interval.Seconds(), thousands(int(e.CallsPerS)),
			e.HostCPU, e.OwnerCPU, e.CallCPU, e.WatchCPU, e.CPU(), megabytes(e.Memory()), megabytes(e.BytesPerS))
	}
	return b.String()
}

// header begins a table; the first column is of names.
func header(b *strings.Builder, columns []string) {
	fmt.Fprintf(b, "| %s |\n|---|%s\n", strings.Join(columns, " | "), strings.Repeat("--:|", len(columns)-1))
}

func megabytes(bytes float64) string {
	switch {
	case bytes >= 10e9:
		return fmt.Sprintf("%.0f GB", bytes/1e9)
	case bytes >= 1e9:
		return fmt.Sprintf("%.1f GB", bytes/1e9)
	case bytes >= 10e6:
		return fmt.Sprintf("%.0f MB", bytes/1e6)
	case bytes >= 1e6:
		return fmt.Sprintf("%.1f MB", bytes/1e6)
	}
	return fmt.Sprintf("%.0f kB", bytes/1e3)
}

func milliseconds(ns float64) string {
	if ns < 10e6 {
		return fmt.Sprintf("%.1f ms", ns/1e6)
	}
	return fmt.Sprintf("%s ms", thousands(int(ns/1e6)))
}
