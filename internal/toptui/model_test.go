// SPDX-License-Identifier: Apache-2.0

package toptui

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
)

// scripted answers with a picture of three keys, or fails.
type scripted struct {
	mu      sync.Mutex // guards what follows
	queries []Query
	failing bool
}

func (s *scripted) Picture(_ context.Context, q Query) (Picture, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queries = append(s.queries, q)
	if s.failing {
		return Picture{}, errors.New("connection refused")
	}
	return picture(3), nil
}

func (s *scripted) Explain(_ context.Context, key string) (string, error) {
	return "why " + key, nil
}

func (s *scripted) fail(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = on
}

func (s *scripted) asked() []Query {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Query(nil), s.queries...)
}

// The whole of it, in time that passes at once: it asks, loses the decider, says so, finds
// it again, and ends.
func TestALostDeciderIsStaleUntilItIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := new(scripted)
		// m is driven as a program does: by the messages of its commands.
		m := newModel(t.Context(), source, Config{Interval: 2 * time.Second, Timeout: time.Second, Query: Query{Sort: "rejected", Keys: 3}})
		m.width, m.height = 80, 24
		messages := make(chan tea.Msg, 100)
		var running sync.WaitGroup
		defer running.Wait() // there is room for what they still say
		run := func(cmd tea.Cmd) {
			if cmd == nil {
				return
			}
			running.Go(func() { messages <- cmd() })
		}
		after := func(d time.Duration) {
			t.Helper()
			end := time.After(d)
			for {
				select {
				case message := <-messages:
					if batch, ok := message.(tea.BatchMsg); ok {
						for _, cmd := range batch {
							run(cmd)
						}
						continue
					}
					next, cmd := m.Update(message)
					m, _ = next.(model)
					run(cmd)
				case <-end:
					return
				}
			}
		}
		run(m.Init())
		after(5500 * time.Millisecond)
		if n := len(source.asked()); n != 3 {
			t.Errorf("asked %d times in 5.5s, want 3: at 0s, 2s and 4s", n)
		}
		if text := screen(t, m); strings.Contains(text, "STALE") || !strings.Contains(text, "login:user-00002") {
			t.Errorf("fresh:\n%s", text)
		}
		source.fail(true)
		since := m.good
		after(10 * time.Second)
		if text := screen(t, m); !strings.Contains(text, "STALE since "+since.Format(time.TimeOnly)+", for 11s, asking again: connection refused") || !strings.Contains(text, "login:user-00002") {
			t.Errorf("lost:\n%s", text)
		}
		source.fail(false)
		after(3 * time.Second)
		if text := screen(t, m); strings.Contains(text, "STALE") {
			t.Errorf("back again:\n%s", text)
		}
		before := len(source.asked())
		next, cmd := m.Update(typed("s")[0])
		m, _ = next.(model)
		run(cmd)
		after(100 * time.Millisecond)
		if all := source.asked(); len(all) != before+1 || all[before].Sort != "allowed" {
			t.Errorf("another order is not asked for at once: %+v", all[before:])
		}
		after(3 * time.Second)
		if n := len(source.asked()); n != before+2 {
			t.Errorf("asked %d times more in three seconds, want once", n-before-1)
		}
		// A question that hangs makes the picture stale too, without an error.
		m.asking, m.answers = true, m.answers+1
		after(8 * time.Second)
		if text := screen(t, m); !strings.Contains(text, "asking again: the decider does not answer") {
			t.Errorf("hanging:\n%s", text)
		}
	})
}

// What is typed reaches the model, and what it asks for follows.
func TestKeysOfTheKeyboard(t *testing.T) {
	for _, c := range []struct {
		keys string
		want func(m *model) bool
	}{
		{"s", func(m *model) bool { return m.query().Sort == "allowed" }},
		{"S", func(m *model) bool { return m.query().Sort == "name" }},
		{"ssss", func(m *model) bool { return m.query().Sort == "rejected" }},
		{"<tab>ss", func(m *model) bool {
			return m.tab == tabHosts && m.orders()[m.sorts[tabHosts]] == "allowed" && m.sorts[tabKeys] == 0
		}},
		{"/q?s<enter>", func(m *model) bool { return m.query().Like == "q?s" && !m.typing && !m.help }},
		{"/ab<esc>", func(m *model) bool { return m.query().Like == "" && !m.typing }},
		{"/ab<enter><esc>", func(m *model) bool { return m.query().Like == "" }},
		{"/日本<backspace>", func(m *model) bool { return m.query().Like == "日" }},
		{"/<backspace>", func(m *model) bool { return m.typing }},
		{"?s", func(m *model) bool { return !m.help && m.query().Sort == "rejected" }},
		{"jjjj", func(m *model) bool {
			return m.selected[tabKeys] == "no-rule:a-key-with-a-name-that-is-much-longer-than-any-column"
		}},
		{"jk", func(m *model) bool { return strings.HasPrefix(m.selected[tabKeys], "evil") }},
		{"<down><enter>", func(m *model) bool { return m.open == "login:user-00002" }},
		{"<enter>s<esc>", func(m *model) bool { return m.open == "" && m.query().Sort == "rejected" }},
		{"<tab><enter>", func(m *model) bool { return m.open == "" }},
	} {
		m := shown(t, 80, 24, append([]tea.Msg{seen(3)}, typed(c.keys)...)...)
		if !c.want(&m) {
			t.Errorf("after %s: tab %d, query %+v, selected %q, open %q", c.keys, m.tab, m.query(), m.selected, m.open)
		}
	}
}

// The selected row stays selected while others overtake it, and in sight.
func TestTheSelectedKeyIsFollowed(t *testing.T) {
	m := shown(t, 80, 24, append([]tea.Msg{seen(100)}, typed("s<down><down>")...)...)
	chosen := m.selected[tabKeys]
	later := seen(100)
	for i := range later.picture.Keys {
		if k := &later.picture.Keys[i]; k.Key == chosen {
			k.Allowed = 0
		}
	}
	m = update2(t, m, later)
	if text := screen(t, m); m.selected[tabKeys] != chosen || !strings.Contains(text, "▸ "+chosen[:10]) {
		t.Errorf("%s is not in sight:\n%s", chosen, text)
	}
}

// An answer about a key that is not open any more is not shown.
func TestALateExplanationIsNotShown(t *testing.T) {
	m := shown(t, 80, 24, append([]tea.Msg{seen(3)}, typed("<enter><esc><down>")...)...)
	m = update2(t, m, explained{key: "evil\x1b[2J\r\n\u202e\xff日本", text: "late"})
	m = update2(t, m, typed("<enter>")...)
	m = update2(t, m, explained{key: "other", text: "late"})
	if text := screen(t, m); strings.Contains(text, "late") || m.open != "login:user-00002" {
		t.Errorf("%s", text)
	}
	m = update2(t, m, explained{key: m.open, err: errors.New("gone")})
	if text := screen(t, m); !strings.Contains(text, "the decider does not say: gone") {
		t.Errorf("%s", text)
	}
}

func TestRunEnds(t *testing.T) {
	options := func(in io.Reader, out io.Writer) []tea.ProgramOption {
		return []tea.ProgramOption{tea.WithInput(in), tea.WithOutput(out), tea.WithWindowSize(80, 24), tea.WithEnvironment([]string{"TERM=xterm"})}
	}
	config := Config{Interval: time.Minute, Timeout: time.Minute, Query: Query{Sort: "rejected", Keys: 3}}
	for _, key := range []string{"q", "\x03"} {
		if err := Run(t.Context(), new(scripted), config, options(strings.NewReader(key), io.Discard)...); err != nil {
			t.Errorf("after %q: %v", key, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	if err := Run(ctx, new(scripted), config, options(nil, &out)...); err != nil {
		t.Errorf("interrupted: %v", err)
	}
}

func TestPrintIsText(t *testing.T) {
	p := picture(3)
	var out bytes.Buffer
	if err := Print(&out, &p, Query{Sort: "rejected"}); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{"KEY", `evil\x1b[2J\r\n\u202e\xff日本`, "1234", "HOST", `connection \x1b[31mrefused`, "4 of 5 hosts up"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if strings.ContainsAny(text, "\x1b\r\u202e") {
		t.Errorf("control characters in %q", text)
	}
	if first, second := strings.Index(text, "evil"), strings.Index(text, "login:user-00002"); first > second {
		t.Error("the key that is refused most is not the first")
	}
}
