// SPDX-License-Identifier: Apache-2.0

package tui

import (
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/headgate/headgate/internal/demo"
)

// widest is how wide a view gets, however wide the terminal is.
const widest = 140

// Render draws f in at most width columns and, where height allows for the
// rows that f needs, in at most height rows.
func Render(f demo.Frame, width, height int, dark bool) string {
	v := view{f, min(max(width, 40), widest) - 2, newPalette(dark)}
	parts := [][]string{v.title(), v.hosts(), v.algorithms(true), v.foot()}
	if rows(parts, 1) > height {
		parts[2] = v.algorithms(false)
	}
	gap := 1
	if rows(parts, 2) <= height && height >= 32 {
		gap = 2
	}
	if rows(parts, 1) > height {
		gap = 0
	}
	var lines []string
	for i, part := range parts {
		if i > 0 {
			lines = append(lines, make([]string, gap)...)
		}
		lines = append(lines, part...)
	}
	cut := lipgloss.NewStyle().MaxWidth(width)
	for i, line := range lines {
		lines[i] = cut.Render(" " + line)
	}
	return strings.Join(lines, "\n")
}

func rows(parts [][]string, gap int) int {
	n := gap * (len(parts) - 1)
	for _, p := range parts {
		n += len(p)
	}
	return n
}

// view draws one frame in width columns.
type view struct {
	demo.Frame

	width int
	style palette
}

func (v view) title() []string {
	left := fmt.Sprintf("headgate  %d hosts share one limit of %.0f/s; %.0f/s are offered", len(v.Hosts), v.Limit, v.Offered)
	right := clock(v.Elapsed)
	if v.Total > 0 {
		right += " of " + clock(v.Total)
	}
	return []string{
		v.spread(v.style.faint.Render(left), v.style.faint.Render(right)),
		v.style.strong.Render("▸ " + v.Headline),
	}
}

// spread puts left and right at the ends of a line.
func (v view) spread(left, right string) string {
	space := max(1, v.width-lipgloss.Width(left)-lipgloss.Width(right))
	return left + strings.Repeat(" ", space) + right
}

// hosts is a table with a bar of each host's part of the traffic.
func (v view) hosts() []string {
	names := make([]string, len(v.Algorithms))
	for i, a := range v.Algorithms {
		names[i] = a.Name
	}
	head := header(names)
	if v.width-lipgloss.Width(head)-2 < len(owner) {
		for i, name := range names {
			names[i] = name[strings.LastIndex(name, "-")+1:]
		}
		head = header(names)
	}
	lines := []string{v.style.faint.Render(head)}
	bar := v.width - lipgloss.Width(head) - 2
	for _, h := range v.Hosts {
		lines = append(lines, v.host(h, names, bar))
	}
	return lines
}

// owner marks the host that decides.
const owner = "owner"

// header of the hosts' table, with a column for each name.
func header(names []string) string {
	var columns strings.Builder
	for _, name := range names {
		fmt.Fprintf(&columns, "  %*s", column(name), name)
	}
	return fmt.Sprintf("  %-6s %9s%s  %6s  %7s  %-8s", "host", "offered/s", columns.String(), "weight", "limit/s", "by")
}

// column is how wide the column of an algorithm is.
func column(name string) int { return max(5, len(name)) }

func (v view) host(h demo.HostRow, names []string, bar int) string {
	mark := " "
	if h.Hot {
		mark = "▸"
	}
	var rates strings.Builder
	for i, name := range names {
		admitted := 0.0
		if i < len(h.Admitted) {
			admitted = h.Admitted[i]
		}
		fmt.Fprintf(&rates, "  %*.0f", column(name), admitted)
	}
	weight, inForce := "–", "–"
	if h.State == demo.StateGrant {
		weight = fmt.Sprintf("%.0f%%", 100*h.Weight)
	}
	if h.State != demo.StateKilled {
		inForce = fmt.Sprintf("%.0f", h.InForce)
	}
	line := fmt.Sprintf("%s %-6s %9.0f%s  %6s  %7s  ", mark, h.Name, h.Offered, rates.String(), weight, inForce)
	switch {
	case h.Hot:
		line = v.style.strong.Render(line)
	case h.State == demo.StateKilled:
		line = v.style.faint.Render(line)
	}
	line += v.style.state(h.State).Render(fmt.Sprintf("%-8s", h.State))
	if h.Decides {
		return line + "  " + v.style.faint.Render(cutTo(owner, bar))
	}
	return line + "  " + v.part(h, bar)
}

// part is a bar of what a host gets of all the traffic.
func (v view) part(h demo.HostRow, width int) string {
	if v.Offered <= 0 || width < 3 || h.State == demo.StateKilled {
		return ""
	}
	return v.style.faint.Render(strings.Repeat("▪", demo.Filled(h.Offered/v.Offered, width)))
}

// algorithms is a wide bar for each, and its last minute under it.
func (v view) algorithms(sparklines bool) []string {
	label := 8
	for _, a := range v.Algorithms {
		label = max(label, len(a.Name))
	}
	const numbers = 17
	bar := max(10, v.width-label-2-numbers)
	var lines []string
	for i, a := range v.Algorithms {
		ratio := demo.Percent(a.Admitted, a.Ideal) / 100
		style := v.style.ratio(ratio)
		full := demo.Filled(ratio, bar)
		lines = append(lines, fmt.Sprintf("%-*s  %s%s  %s", label, a.Name,
			style.Render(strings.Repeat("█", full)), v.style.faint.Render(strings.Repeat("░", bar-full)),
			style.Bold(true).Render(fmt.Sprintf("%4.0f%%", 100*ratio))+fmt.Sprintf(" %6.0f/s", a.Admitted)))
		if !sparklines {
			continue
		}
		note := "measured"
		if a.Answers {
			note = "answers"
		}
		history := a.History[max(0, len(a.History)-bar):]
		lines = append(lines, fmt.Sprintf("%s  %s", v.style.faint.Render(fmt.Sprintf("%-*s", label, note)), style.Render(sparkline(history))))
		if i < len(v.Algorithms)-1 {
			lines = append(lines, "")
		}
	}
	return lines
}

// sparkline draws each value, of 1, as a cell; above 1 the cell is full too.
func sparkline(values []float64) string {
	levels := []rune("▁▂▃▄▅▆▇█")
	cells := make([]rune, len(values))
	for i, value := range values {
		cells[i] = levels[min(demo.Filled(value, len(levels)), len(levels)-1)]
	}
	return string(cells)
}

// foot is the progress of the phases, the newest warning, and the keys.
func (v view) foot() []string {
	names := demo.Phases()
	each := (v.width - 2*(len(names)-1)) / len(names)
	parts := make([]string, len(names))
	for i, name := range names {
		progress := 0.0
		switch {
		case i < v.Phase:
			progress = 1
		case i == v.Phase:
			progress = v.Progress
			if !v.Measuring {
				name += " (warming up)"
			}
		}
		line := max(0, each-len(name)-1)
		full := demo.Filled(progress, line)
		text := name
		if i == v.Phase {
			text = v.style.strong.Render(name)
		}
		parts[i] = text + " " + strings.Repeat("━", full) + v.style.faint.Render(strings.Repeat("╌", line-full))
	}
	lines := []string{strings.Join(parts, "  ")}
	keys := "q ends"
	if v.Page != "" {
		keys = "in a browser: " + v.Page + "   " + keys
	}
	if v.Failed > 0 {
		keys = fmt.Sprintf("%d requests failed   %s", v.Failed, keys)
	}
	notice := ""
	if v.Notice != "" {
		notice = v.style.warn.Render(cutTo("log "+v.Notice, v.width-len(keys)-3))
	}
	return append(lines, v.spread(notice, v.style.faint.Render(keys)))
}

// cutTo shortens s to at most width cells.
func cutTo(s string, width int) string {
	runes := []rune(s)
	switch {
	case width <= 0:
		return ""
	case len(runes) <= width:
		return s
	default:
		return string(runes[:width-1]) + "…"
	}
}

// clock is d as minutes and seconds.
func clock(d time.Duration) string {
	s := int(d / time.Second)
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
