// SPDX-License-Identifier: Apache-2.0

package toptui

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/headgate/headgate/internal/printable"
)

// View implements tea.Model.
func (m model) View() tea.View {
	view := tea.NewView(m.render())
	view.AltScreen = true
	view.WindowTitle = "headgate top"
	return view
}

// around is how many rows there are beside those of a table: title, state, head and foot.
const around = 4

// rows is how many rows of a table fit.
func (m *model) rows() int {
	if m.tab == tabHosts && m.open == "" && m.narrow() {
		return m.height - around - 1 // which says why the selected host is as it is
	}
	return m.height - around
}

// narrow: the hosts have no column that says why.
func (m *model) narrow() bool { return m.width < 120 }

// render is the whole screen: at most height rows of at most width cells.
func (m model) render() string {
	lines := []string{m.title(), m.state()}
	switch {
	case m.help:
		lines = append(lines, helpText...)
	case m.open != "":
		lines = append(lines, m.explanation()...)
	case m.good.IsZero():
	case m.tab == tabKeys:
		lines = append(lines, m.keyTable()...)
	default:
		lines = append(lines, m.hostTable()...)
	}
	body := max(0, m.height-1)
	lines = lines[:min(len(lines), body)]
	for len(lines) < body {
		lines = append(lines, "")
	}
	lines = append(lines, m.foot())
	narrow := lipgloss.NewStyle().MaxWidth(max(m.width, 1))
	for i, line := range lines {
		lines[i] = narrow.Render(line)
	}
	return strings.Join(lines[:min(len(lines), max(m.height, 1))], "\n")
}

// palette is the styles of a view. Meaning never hangs on colour alone.
type palette struct {
	strong, faint, warn, bad, chosen lipgloss.Style
}

func (m *model) palette() palette {
	pick := lipgloss.LightDark(m.dark)
	color := func(light, dark string) lipgloss.Style {
		return lipgloss.NewStyle().Foreground(pick(lipgloss.Color(light), lipgloss.Color(dark)))
	}
	return palette{
		strong: lipgloss.NewStyle().Bold(true),
		faint:  color("#6b7280", "#8b93a1"),
		warn:   color("#b45309", "#fbbf24"),
		bad:    color("#b91c1c", "#f87171"),
		chosen: lipgloss.NewStyle().Reverse(true),
	}
}

// title is the decider, the tabs and the time.
func (m *model) title() string {
	p := m.palette()
	name := func(tab int, name string) string {
		if m.tab == tab {
			return p.chosen.Render(" " + name + " ")
		}
		return " " + name + " "
	}
	left := p.strong.Render("headgate top") + "  " + name(tabKeys, "keys") + name(tabHosts, "hosts")
	if m.picture.Decider != "" {
		left += "  " + p.faint.Render("seen from "+printable.Text(m.picture.Decider))
	}
	return m.spread(left, m.now.Format(time.TimeOnly))
}

// spread puts left and right at the ends of a row.
func (m *model) spread(left, right string) string {
	left = cut(left, m.width-lipgloss.Width(right)-1)
	return left + strings.Repeat(" ", max(1, m.width-lipgloss.Width(left)-lipgloss.Width(right))) + right
}

// state says what the picture is of, or since when there is none.
func (m *model) state() string {
	p := m.palette()
	late := m.now.Sub(m.good)
	switch {
	case m.good.IsZero() && m.failed == nil:
		return p.faint.Render("asking the decider …")
	case m.good.IsZero():
		return p.bad.Render(cut("NO DATA, asking again: "+m.trouble(), m.width))
	case m.failed != nil || late > m.stale():
		return p.bad.Render(cut(fmt.Sprintf("STALE since %s, for %s, asking again: %s", m.good.Format(time.TimeOnly), span(late), m.trouble()), m.width))
	}
	return p.faint.Render(cut(summary(&m.picture), m.width))
}

// stale is how old a picture is when it is called that although nothing has failed yet.
func (m *model) stale() time.Duration { return 2*m.interval + 3*time.Second }

// trouble is why there is no newer picture, in one line.
func (m *model) trouble() string {
	if m.failed == nil {
		return "the decider does not answer"
	}
	return strings.Join(printable.Lines(m.failed.Error()), "; ")
}

// summary is p in a line.
func summary(p *Picture) string {
	up, members, allowed, rejected, silent := 0, 0, 0.0, 0.0, 0
	for _, h := range p.Hosts {
		if h.State == "up" {
			up++
			if h.Error != "" {
				silent++
			}
		}
		if h.State != StatePrograms {
			members++
		}
		allowed += h.Allowed
		rejected += h.Rejected
	}
	text := fmt.Sprintf("%d of %d hosts up", up, members)
	if silent > 0 {
		text += fmt.Sprintf(", %d silent", silent)
	}
	text += " · " + printable.Count(len(p.Keys), "key", "keys")
	if p.Total > len(p.Keys) {
		text += fmt.Sprintf(" of at least %d", p.Total)
	}
	return text + fmt.Sprintf(" · %s/s used · %s/s refused", rate(allowed), rate(rejected))
}

// explanation is why the open key is limited, from the line on to which it is scrolled.
func (m *model) explanation() []string {
	p := m.palette()
	lines := []string{p.strong.Render("  why " + printable.Text(m.open) + " is limited as it is")}
	reasons := m.reasons()
	first := min(m.scroll, len(reasons))
	for _, line := range reasons[first:min(len(reasons), first+max(0, m.rows()))] {
		lines = append(lines, "  "+line)
	}
	return lines
}

// reasons are the lines of why the open key is limited.
func (m *model) reasons() []string {
	var lines []string
	if m.broken != nil {
		lines = append(lines, "the decider does not say: "+strings.Join(printable.Lines(m.broken.Error()), "; "))
	}
	if m.why == "" {
		if m.broken == nil {
			lines = append(lines, "asking …")
		}
		return lines
	}
	for _, line := range printable.Lines(m.why) {
		lines = append(lines, strings.Split(lipgloss.Wrap(line, max(20, m.width-2), " "), "\n")...)
	}
	return lines
}

// foot is the keys of the keyboard, or the filter while it is typed.
func (m *model) foot() string {
	p := m.palette()
	if m.typing {
		return "/" + printable.Text(m.filter[m.tab]) + "█" + p.faint.Render("  enter keeps it, esc clears it")
	}
	if m.help {
		return p.faint.Render("any key goes back")
	}
	if m.open != "" {
		return p.faint.Render("q ends  esc back  ↑↓ scroll  ? help")
	}
	other := "hosts"
	if m.tab == tabHosts {
		other = "keys"
	}
	text := "q ends  ? help  tab " + other + "  s sort: " + words[m.orders()[m.sorts[m.tab]]] + "  / filter"
	if m.tab == tabKeys {
		text += "  enter explains"
	}
	if f := m.filter[m.tab]; f != "" {
		return m.spread(p.faint.Render(text), "/"+printable.Text(f))
	}
	return p.faint.Render(text)
}

// words are the orders for people.
var words = map[string]string{
	"rejected": "refused", "allowed": "used", "utilization": "use", "name": "name", "share": "share", "fallback": "fallback",
}

var helpText = []string{
	"",
	"  q, ctrl+c    end",
	"  tab, ← →     keys or hosts",
	"  s, S         the next order, the one before",
	"  /            show only names that contain a text; esc clears it",
	"  ↑ ↓ j k      a row up, down; page up, page down, home and end too",
	"  enter        why the selected key is limited as it is, at each host",
	"  esc          back",
	"",
	"  Rates are of the last ten seconds, in tokens, over all hosts that answer.",
	"  USE is the part of the cluster's limit that is used, or of its slots.",
	"  MINUTE is what was asked for in the last minute, up to its peak.",
	"  ! before a key: a host uses the key's fallback. FALLB counts such keys.",
	"  SHARE is the part of all keys that a host owns.",
}
