// SPDX-License-Identifier: Apache-2.0

package toptui

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/headgate/headgate/internal/admin/api/busiest"
	"github.com/headgate/headgate/internal/goldentest"
	"github.com/headgate/headgate/internal/waittest"
)

func TestMain(m *testing.M) { waittest.Main(m) }

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// picture has n keys, of which the first is hostile, and five hosts.
func picture(n int) Picture {
	p := Picture{At: noon, Decider: "10.0.0.7:7933", Step: 2, Total: n, Hosts: []Host{}}
	for i := range n {
		used := float64(i%100) / 100
		k := busiest.Key{Key: fmt.Sprintf("login:user-%05d", i), Rule: "login:*", Limit: "100/s", Allowed: 100 * used, Utilization: &used, Hosts: 5}
		for j := range busiest.Periods {
			k.RecentAllowed = append(k.RecentAllowed, float64((i+j)%(busiest.Periods/2))*used)
			k.RecentRejected = append(k.RecentRejected, 0)
		}
		switch i {
		case 0:
			k.Key, k.Rejected, k.Fallback = "evil\x1b[2J\r\n\u202e\xff日本", 1234.5, 2
		case 1:
			k.Key, k.Rule, k.Limit, k.Utilization = "no-rule:a-key-with-a-name-that-is-much-longer-than-any-column", "", "", nil
			k.RecentAllowed, k.RecentRejected = nil, nil
		case 2:
			k.Rejected = 0.01
		}
		p.Keys = append(p.Keys, k)
	}
	for i := range 5 {
		h := Host{State: "up", Since: noon.Add(-time.Duration(i*i) * 40 * time.Minute), Share: 0.25}
		h.Member = busiest.Member{Host: fmt.Sprintf("10.0.0.%d:7933", i+7), Keys: n, Fallback: i, Allowed: float64(n) * 10, Rejected: float64(i) * 100_000}
		p.Hosts = append(p.Hosts, h)
	}
	p.Hosts[3].Member = busiest.Member{Host: p.Hosts[3].Host, Error: "context deadline exceeded"}
	p.Hosts[4].Member = busiest.Member{Host: p.Hosts[4].Host, Error: "was not asked"}
	p.Hosts[4].State, p.Hosts[4].Why, p.Hosts[4].Share = "down", "dial: connection \x1b[31mrefused", 0
	return p
}

// shown is a view of a terminal that got messages.
func shown(t *testing.T, width, height int, messages ...tea.Msg) model {
	t.Helper()
	m := newModel(t.Context(), nil, Config{Interval: 2 * time.Second, Timeout: 10 * time.Second, Query: Query{Sort: "rejected", Keys: 200}})
	m.now = noon
	return update2(t, m, append([]tea.Msg{tea.WindowSizeMsg{Width: width, Height: height}}, messages...)...)
}

// update2 gives m messages.
func update2(t *testing.T, m model, messages ...tea.Msg) model {
	t.Helper()
	for _, message := range messages {
		next, _ := m.Update(message)
		var ok bool
		if m, ok = next.(model); !ok {
			t.Fatalf("%T is another model", next)
		}
	}
	return m
}

// seen is an answer with n keys.
func seen(n int) answered {
	return answered{q: Query{Sort: "rejected", Keys: 200}, picture: picture(n), at: noon}
}

// typed are keys of the keyboard: names in angle brackets, or single characters.
func typed(keys string) (all []tea.Msg) {
	special := map[string]rune{"tab": tea.KeyTab, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "end": tea.KeyEnd, "pgdown": tea.KeyPgDown, "backspace": tea.KeyBackspace}
	for _, found := range regexp.MustCompile(`<(\w+)>|.`).FindAllStringSubmatch(keys, -1) {
		if code, ok := special[found[1]]; ok {
			all = append(all, tea.KeyPressMsg{Code: code})
			continue
		}
		all = append(all, tea.KeyPressMsg{Code: []rune(found[0])[0], Text: found[0]})
	}
	return all
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// screen is what m shows, without colours, after it was checked to fit.
func screen(t *testing.T, m model) string {
	t.Helper()
	lines := strings.Split(m.View().Content, "\n")
	if len(lines) != m.height {
		t.Errorf("%d rows, not %d", len(lines), m.height)
	}
	for i, line := range lines {
		if w := lipgloss.Width(line); w > m.width {
			t.Errorf("row %d has %d columns, more than %d: %s", i, w, m.width, line)
		}
		lines[i] = strings.TrimRight(escapes.ReplaceAllString(line, ""), " ")
	}
	text := strings.Join(lines, "\n") + "\n"
	if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r < ' ' || r == 0x202e }); i >= 0 {
		t.Errorf("a control character is shown: %q", text[i:])
	}
	return text
}

func TestFrames(t *testing.T) {
	why := explained{key: "login:user-00002", text: "login:user-00002: the rule limits it to 100/s\n\nHOST  PART\n10.0.0.7:7933  41.2\n" + strings.Repeat("because of \x1b[2J this ", 10)}
	failed := answered{err: errors.New("ask the decider: dial tcp 10.0.0.7:9090: connect: connection refused"), at: noon.Add(14 * time.Second)}
	for _, c := range []struct {
		name     string
		messages []tea.Msg
	}{
		{"asking", nil},
		{"never", []tea.Msg{failed}},
		{"0", []tea.Msg{seen(0)}},
		{"3", []tea.Msg{seen(3)}},
		{"10000", []tea.Msg{seen(10_000)}},
		{"10000-end", append([]tea.Msg{seen(10_000)}, typed("s<end>")...)},
		{"filter", append([]tea.Msg{seen(10_000)}, typed("/r-00no<backspace><backspace>9")...)},
		{"filtered", append([]tea.Msg{seen(10_000)}, typed("/zzz<enter>")...)},
		{"hosts", append([]tea.Msg{seen(3)}, typed("<tab><down>")...)},
		{"help", append([]tea.Msg{seen(3)}, typed("?")...)},
		{"explain", append(append([]tea.Msg{seen(3)}, typed("<down><enter>")...), why)},
		{"stale", []tea.Msg{seen(3), failed}},
	} {
		for _, size := range []struct{ width, height int }{{80, 24}, {200, 50}} {
			name := fmt.Sprintf("%s-%dx%d", c.name, size.width, size.height)
			t.Run(name, func(t *testing.T) {
				got := screen(t, shown(t, size.width, size.height, c.messages...))
				goldentest.Same(t, filepath.Join("testdata", name+".golden"), got)
			})
		}
	}
}

func TestNoSizeBreaksTheView(t *testing.T) {
	for _, messages := range [][]tea.Msg{nil, {seen(40)}, append([]tea.Msg{seen(40)}, typed("<tab>")...), append([]tea.Msg{seen(40)}, typed("?")...), append([]tea.Msg{seen(40)}, typed("<enter>")...)} {
		for width := 1; width < 120; width += 7 {
			for height := range 12 {
				text := shown(t, width, height, messages...).render()
				for line := range strings.SplitSeq(text, "\n") {
					if w := lipgloss.Width(line); w > width {
						t.Fatalf("%d columns at %dx%d", w, width, height)
					}
				}
				if n := strings.Count(text, "\n") + 1; n > max(height, 1) {
					t.Fatalf("%d rows at %dx%d", n, width, height)
				}
			}
		}
	}
}

func TestRatesFitTheirColumns(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.01: "<0.1", 0.5: "0.5", 99.94: "99.9", 100: "100", 99_999: "99999", 99_999.6: "100k", 999_499: "999k", 999_600: "1M", 1.5e9: "2G", 1e30: ">999T",
	} {
		if got := rate(v); got != want || len(got) > 7 {
			t.Errorf("rate(%v) = %q, want %q", v, got, want)
		}
	}
	for d, want := range map[time.Duration]string{-1: "0s", 59 * time.Second: "59s", time.Hour: "1h", 47 * time.Hour: "47h", 480 * time.Hour: "20d"} {
		if got := span(d); got != want {
			t.Errorf("span(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestASparkShowsPeaks(t *testing.T) {
	k := busiest.Key{RecentAllowed: []float64{0, 8, 0.001, 0, 4, 0}, RecentRejected: []float64{0, 8, 0, 0, 0, 0}}
	for cells, want := range map[int]string{6: " █▁ ▂ ", 3: "█▁▂", 12: "  █ ▁   ▂   "} {
		if got := spark(&k, cells); got != want {
			t.Errorf("%d cells: %q, want %q", cells, got, want)
		}
	}
	if got := spark(new(busiest.Key), 3); got != "   " {
		t.Errorf("of nothing: %q", got)
	}
}
