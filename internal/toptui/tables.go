// SPDX-License-Identifier: Apache-2.0

package toptui

import (
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/admin/api/busiest"
	"github.com/headgate/headgate/internal/printable"
)

// column is one of a table.
type column struct {
	name  string
	width int
	left  bool   // its text is at the left
	sort  string // the order by it
}

// head is the names of columns; the one by which rows are sorted has a mark.
func (m *model) head(columns []column) string {
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = c.name
		if c.sort != "" && c.sort == m.orders()[m.sorts[m.tab]] {
			cells[i] += "▼"
		}
	}
	return m.palette().faint.Render("  " + line(columns, cells))
}

// line is cells in their columns.
func line(columns []column, cells []string) string {
	var b strings.Builder
	for i, c := range columns {
		if i > 0 {
			b.WriteString("  ")
		}
		if c.left {
			b.WriteString(fit(cells[i], c.width))
		} else {
			b.WriteString(right(cells[i], c.width))
		}
	}
	return b.String()
}

// widen gives the columns without a width the rest of the row, by weight.
func (m *model) widen(columns []column, weights map[int]int) []column {
	rest, sum := m.width-2-2*(len(columns)-1), 0
	for _, c := range columns {
		rest -= c.width
	}
	for _, w := range weights {
		sum += w
	}
	for i, w := range weights {
		columns[i].width = max(4, rest*w/sum)
	}
	return columns
}

// keyTable is the keys from the top one on.
func (m *model) keyTable() []string {
	cells := 10
	switch {
	case m.width >= 140:
		cells = 30
	case m.width >= 100:
		cells = 15
	}
	columns := m.widen([]column{
		{"KEY", 0, true, "name"},
		{"RULE", 0, true, ""},
		{"LIMIT", 8, false, ""},
		{"USED/S", 7, false, "allowed"},
		{"REFUSED", 8, false, "rejected"},
		{"USE", 6, false, "utilization"},
		{"MINUTE", cells, true, ""},
	}, map[int]int{0: 2, 1: 1})
	keys := m.keys()
	rows, chosen := m.shown(len(keys), "no key"), m.place(m.names())
	for i := m.top[tabKeys]; i < min(len(keys), m.top[tabKeys]+m.rows()); i++ {
		k := &keys[i]
		name := printable.Text(k.Key)
		if k.Fallback > 0 {
			name = "! " + name
		}
		rows = append(rows, m.row(i == chosen, k.Rejected > 0, line(columns, []string{
			name, printable.Text(k.Rule), limit(k), rate(k.Allowed), rate(k.Rejected), percent(k.Utilization), spark(k, cells),
		})))
	}
	return append([]string{m.head(columns)}, rows...)
}

// limit is that of k for people.
func limit(k *busiest.Key) string {
	if k.Limit == "" {
		return "-"
	}
	return printable.Text(k.Limit)
}

// hostTable is the hosts from the top one on.
func (m *model) hostTable() []string {
	columns := []column{
		{"HOST", 0, true, "name"},
		{"STATE", 8, true, ""},
		{"FOR", 4, false, ""},
		{"SHARE", 6, false, "share"},
		{"KEYS", 6, false, ""},
		{"FALLB", 6, false, "fallback"},
		{"USED/S", 7, false, "allowed"},
		{"REFUSED", 8, false, "rejected"},
	}
	weights := map[int]int{0: 1}
	if !m.narrow() {
		columns, weights[8] = append(columns, column{"WHY", 0, true, ""}), 2
	}
	columns = m.widen(columns, weights)
	hosts := m.hosts()
	rows, chosen := m.shown(len(hosts), "no host"), m.place(m.names())
	for i := m.top[tabHosts]; i < min(len(hosts), m.top[tabHosts]+m.rows()); i++ {
		h := &hosts[i]
		rows = append(rows, m.row(i == chosen, h.State != "up" && h.State != StatePrograms || h.Fallback > 0, line(columns, hostCells(h, m.now))))
	}
	if m.narrow() && chosen < len(hosts) {
		for len(rows) < m.rows() {
			rows = append(rows, "")
		}
		h := &hosts[chosen]
		rows = append(rows, m.palette().faint.Render(cut("  "+printable.Text(h.Host)+"  "+hostCells(h, m.now)[8], m.width)))
	}
	return append([]string{m.head(columns)}, rows...)
}

// hostCells is h in the columns of a table.
func hostCells(h *Host, now time.Time) []string {
	since := "-"
	if !h.Since.IsZero() {
		since = span(now.Sub(h.Since))
	}
	cells := []string{
		printable.Text(h.Host), printable.Text(h.State), since, percent(&h.Share), fmt.Sprint(h.Keys), fmt.Sprint(h.Fallback),
		rate(h.Allowed), rate(h.Rejected), printable.Text(h.Why),
	}
	if h.Error != "" { // unknown
		for i := 4; i < 8; i++ {
			cells[i] = "-"
		}
		if h.State == "up" {
			cells[8] = strings.Join(printable.Lines(h.Error), "; ")
		}
	}
	return cells
}

// shown is the note of a table without rows.
func (m *model) shown(n int, none string) []string {
	if n > 0 {
		return nil
	}
	if m.filter[m.tab] != "" {
		return []string{"  " + none + " contains " + printable.Text(m.filter[m.tab])}
	}
	return []string{"  " + none + " is in use"}
}

// row is a row of a table; one that is chosen has a mark, and one that warns a colour.
func (m *model) row(chosen, warns bool, text string) string {
	p := m.palette()
	switch {
	case chosen:
		return "▸ " + p.chosen.Render(text)
	case warns:
		return "  " + p.warn.Render(text)
	}
	return "  " + text
}
