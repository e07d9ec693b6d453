// SPDX-License-Identifier: Apache-2.0

package toptui

import (
	"context"
	"slices"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/headgate/headgate/internal/admin/api/busiest"
)

// The tabs.
const (
	tabKeys = iota
	tabHosts
)

// messages of a model beside those of the terminal.
type (
	// answered: the source has answered q, at the time at.
	answered struct {
		q       Query
		picture Picture
		err     error
		at      time.Time
	}

	// explained: the source has said why a key is limited.
	explained struct {
		key, text string
		err       error
	}

	// ticked: a second has gone by.
	ticked time.Time

	// due: it is time to ask; of the answer with a number.
	due int
)

// model is what the terminal shows. It is a value: Update returns another one.
type model struct {
	ctx      context.Context
	source   Source
	interval time.Duration
	timeout  time.Duration

	now           time.Time // of the newest message
	width, height int
	dark          bool

	picture  Picture
	good     time.Time // when picture came; zero: there is none
	failed   error     // why there is no newer one
	asking   bool
	asked    Query // of the newest question
	answers  int
	opening  bool // an explanation is asked for
	tab      int
	sorts    [2]int // of each tab
	filter   [2]string
	typing   bool
	help     bool
	selected [2]string // name of a row; the first row if it is not there
	top      [2]int    // the first row that is shown

	// What is open beside the tables: why a key is limited.
	open   string // the key; empty: nothing is
	why    string
	broken error
	scroll int
}

var _ tea.Model = model{}

// Init implements tea.Model.
func (m model) Init() tea.Cmd {
	return tea.Batch(tea.RequestBackgroundColor, m.ask(m.query()), m.tick())
}

// tick is a second later.
func (m model) tick() tea.Cmd {
	return later(m.ctx, time.Second, func(at time.Time) tea.Msg { return ticked(at) })
}

// query is what the view needs now.
func (m *model) query() Query {
	return Query{Sort: KeySorts[m.sorts[tabKeys]], Like: m.filter[tabKeys], Keys: m.asked.Keys}
}

// ask asks the source.
func (m model) ask(q Query) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, m.timeout)
		defer cancel()
		p, err := m.source.Picture(ctx, q)
		return answered{q, p, err, time.Now()}
	}
}

// explain asks why the open key is limited.
func (m model) explain() tea.Cmd {
	key := m.open
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, m.timeout)
		defer cancel()
		text, err := m.source.Explain(ctx, key)
		return explained{key, text, err}
	}
}

// Update implements tea.Model.
func (m model) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch message := message.(type) {
	case answered:
		cmd = m.take(message)
	case due:
		if int(message) == m.answers {
			cmd = m.refresh()
		}
	case ticked:
		m.now = time.Time(message)
		cmd = m.tick()
	case explained:
		m.opening = false
		if message.key == m.open {
			m.broken = message.err
			if message.err == nil {
				m.why = message.text
			}
		}
	case tea.WindowSizeMsg:
		m.width, m.height = message.Width, message.Height
	case tea.BackgroundColorMsg:
		m.dark = message.IsDark()
	case tea.KeyPressMsg:
		before := m.query()
		cmd = m.press(message)
		if m.query() != before && !m.asking {
			cmd = tea.Batch(cmd, m.refresh())
		}
	case tea.PasteMsg:
		if m.typing {
			m.filter[m.tab] += message.Content
		}
	}
	m.follow()
	return m, cmd
}

// take takes in an answer, and asks again: at once if the view needs another one by now.
func (m *model) take(a answered) tea.Cmd {
	m.asking, m.now = false, a.at
	m.answers++
	m.failed = a.err
	if a.err == nil {
		m.picture, m.good = a.picture, a.at
	}
	if a.err == nil && a.q != m.query() {
		return m.refresh()
	}
	number := m.answers
	return later(m.ctx, m.interval, func(time.Time) tea.Msg { return due(number) })
}

// refresh asks for all that is shown.
func (m *model) refresh() tea.Cmd {
	if m.asking {
		return nil
	}
	m.asking, m.asked = true, m.query()
	m.answers++ // what was due is not any more
	cmd := m.ask(m.asked)
	if m.open != "" && !m.opening {
		m.opening = true
		cmd = tea.Batch(cmd, m.explain())
	}
	return cmd
}

// press does what a key of the keyboard is for.
func (m *model) press(key tea.KeyPressMsg) tea.Cmd {
	name := key.String()
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case m.typing:
		m.write(key)
		return nil
	case m.help:
		m.help = false
		return nil
	}
	page := max(1, m.rows()-1)
	switch name {
	case "q":
		return tea.Quit
	case "?", "h":
		m.help = true
	case "esc":
		switch {
		case m.open != "":
			m.open = ""
		case m.filter[m.tab] != "":
			m.filter[m.tab] = ""
		}
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup", "ctrl+b":
		m.move(-page)
	case "pgdown", "ctrl+f", "space":
		m.move(page)
	case "home", "g":
		m.move(-1 << 30)
	case "end", "G":
		m.move(1 << 30)
	default:
		if m.open == "" {
			return m.choose(name)
		}
	}
	return nil
}

// choose does what a key of the keyboard is for while a table is shown.
func (m *model) choose(name string) tea.Cmd {
	switch name {
	case "tab", "shift+tab", "left", "right":
		m.tab = 1 - m.tab
	case "s":
		m.sorts[m.tab] = (m.sorts[m.tab] + 1) % len(m.orders())
		m.selected[m.tab], m.top[m.tab] = "", 0
	case "S":
		m.sorts[m.tab] = (m.sorts[m.tab] + len(m.orders()) - 1) % len(m.orders())
		m.selected[m.tab], m.top[m.tab] = "", 0
	case "/":
		m.typing = true
	case "enter":
		names := m.names()
		if m.tab != tabKeys || len(names) == 0 || m.opening {
			return nil
		}
		m.open, m.why, m.broken, m.scroll, m.opening = names[m.place(names)], "", nil, 0, true
		return m.explain()
	}
	return nil
}

// write takes a key of the keyboard into the filter.
func (m *model) write(key tea.KeyPressMsg) {
	text := &m.filter[m.tab]
	switch key.String() {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, *text = false, ""
	case "backspace":
		_, size := utf8.DecodeLastRuneInString(*text)
		*text = (*text)[:len(*text)-size]
	case "ctrl+u":
		*text = ""
	default:
		*text += key.Text
	}
}

// orders are those of the tab.
func (m *model) orders() []string {
	if m.tab == tabHosts {
		return hostSorts
	}
	return KeySorts
}

// keys are those that are shown, if the terminal is high enough.
func (m *model) keys() []busiest.Key {
	return keysOf(&m.picture, KeySorts[m.sorts[tabKeys]], m.filter[tabKeys])
}

func (m *model) hosts() []Host {
	return hostsOf(&m.picture, hostSorts[m.sorts[tabHosts]], m.filter[tabHosts])
}

// names are those of the rows of the tab.
func (m *model) names() (names []string) {
	if m.tab == tabHosts {
		for _, h := range m.hosts() {
			names = append(names, h.Host)
		}
		return names
	}
	for _, k := range m.keys() {
		names = append(names, k.Key)
	}
	return names
}

// place is that of the selected row in names.
func (m *model) place(names []string) int { return max(0, slices.Index(names, m.selected[m.tab])) }

// move selects the row that is by so many further, or scrolls what is open.
func (m *model) move(by int) {
	if m.open != "" {
		m.scroll = min(max(0, m.scroll+by), max(0, len(m.reasons())-m.rows()))
		return
	}
	if names := m.names(); len(names) > 0 {
		m.selected[m.tab] = names[min(max(0, m.place(names)+by), len(names)-1)]
	}
}

// follow scrolls the table so that the selected row is shown.
func (m *model) follow() {
	names := m.names()
	at, rows := m.place(names), max(1, m.rows())
	top := min(m.top[m.tab], at, max(0, len(names)-rows))
	m.top[m.tab] = max(top, at-rows+1)
}
