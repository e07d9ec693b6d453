// SPDX-License-Identifier: Apache-2.0

package growth

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate/internal/nodeload/figures"
)

// HostTable is what a host takes, as Markdown.
func (costs Costs) HostTable() string {
	var b strings.Builder
	figures.Header(&b, []string{"keys", "decision, ns", "report and apply, ns/key", "watch, ns/key/s", "memory, B/key", "asleep, B/key", "out, B/key", "back, B/key", "one round, CPU", "memory"})
	for _, c := range costs.Host {
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.0f | %.0f | %.0f | %.1f | %.1f | %s | %s |\n", figures.Thousands(c.Keys), c.DecisionNs, c.RoundNs, c.WatchNs,
			c.Bytes, c.AsleepBytes, c.Out, c.Back, milliseconds(c.RoundNs*float64(c.Keys)), megabytes(c.Bytes*float64(c.Keys)))
	}
	return b.String()
}

// OwnerTable is what an owner takes, as Markdown.
func (costs Costs) OwnerTable() string {
	var b strings.Builder
	figures.Header(&b, []string{"hosts per key", "keys", "report, ns/key", "memory, B per key and host", "memory, B/key"})
	for _, c := range costs.Owner {
		fmt.Fprintf(&b, "| %s | %s | %.0f | %.0f | %s |\n", figures.Thousands(c.Hosts), figures.Thousands(c.Keys), c.ReportNs, c.Bytes, figures.Thousands(int(c.KeyBytes)))
	}
	return b.String()
}

// PeerTable is what the ring and calls take, as Markdown.
func (costs Costs) PeerTable() string {
	var b strings.Builder
	figures.Header(&b, []string{"hosts", "build the ring, ms", "add one, ms", "owner of a key, ns", "ring, kB/host", "fullest ÷ mean", "ring, all", "connections, all"})
	for _, c := range costs.Ring {
		fmt.Fprintf(&b, "| %s | %.1f | %.2f | %.0f | %.1f | %.2f | %s | %s |\n", figures.Thousands(c.Hosts), c.BuildMs, c.AddMs, c.LookupNs,
			c.Bytes/1e3, c.Balance, megabytes(c.Bytes*float64(c.Hosts)), megabytes(costs.Call.ConnectionBytes*float64(c.Hosts)))
	}
	return b.String()
}

// CallTable is what a call takes, as Markdown.
func (costs Costs) CallTable() string {
	var b strings.Builder
	figures.Header(&b, []string{"of both sides together", ""})
	fmt.Fprintf(&b, "| a call about one key, CPU | %.0f µs |\n", costs.Call.Us)
	fmt.Fprintf(&b, "| each further key, CPU to carry it | %.0f ns |\n", costs.Call.KeyNs)
	fmt.Fprintf(&b, "| headers and framing of a call and its answer | %.0f B |\n", costs.Call.Bytes)
	fmt.Fprintf(&b, "| memory for a connection to a host and one from it, without the kernel's | %.0f kB |\n", costs.Call.ConnectionBytes/1e3)
	return b.String()
}

// PaperTable is the Shapes on paper, as Markdown.
func (costs Costs) PaperTable() string {
	var b strings.Builder
	figures.Header(&b, []string{"hosts", "keys per host", "keys in all", "interval", "calls/s", "CPU: host", "owner", "calls", "watch", "**CPU**, of a core", "**memory**", "**network**, each way"})
	for _, s := range Shapes() {
		e := costs.Estimate(s)
		hosts := figures.Thousands(s.Hosts)
		if s.Note != "" {
			hosts += ", " + s.Note
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %.0f s | %s | %.1f%% | %.1f%% | %.1f%% | %.1f%% | **%.0f%%** | **%s** | **%s/s** |\n",
			hosts, figures.Thousands(s.KeysPerHost), figures.Thousands(int(s.Keys())), s.Interval.Seconds(), figures.Thousands(int(e.CallsPerS)),
			e.HostCPU, e.OwnerCPU, e.CallCPU, e.WatchCPU, e.CPU(), megabytes(e.Memory()), megabytes(e.BytesPerS))
	}
	return b.String()
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
	return fmt.Sprintf("%s ms", figures.Thousands(int(ns/1e6)))
}
