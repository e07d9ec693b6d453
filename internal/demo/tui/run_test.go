// SPDX-License-Identifier: Apache-2.0

package tui

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/headgate/headgate/internal/demo"
	"github.com/headgate/headgate/internal/waittest"
)

func TestMain(m *testing.M) { waittest.Main(m) }

// screen is a terminal that is not there, with input typed into it.
func screen(input io.Reader, output io.Writer) []tea.ProgramOption {
	return []tea.ProgramOption{tea.WithInput(input), tea.WithOutput(output), tea.WithWindowSize(80, 24), tea.WithEnvironment([]string{"TERM=xterm"})}
}

func TestTheViewEndsWithTheDemo(t *testing.T) {
	var out bytes.Buffer
	broken := errors.New("broken")
	result, err := Run(t.Context(), func(_ context.Context, watch func(demo.Frame)) (demo.Result, error) {
		watch(frame())
		return demo.Result{LimitPerS: 7}, broken
	}, screen(nil, &out)...)
	if result.LimitPerS != 7 || !errors.Is(err, broken) {
		t.Errorf("Run = %v, %v; want what the demo returned", result, err)
	}
}

func TestKeysEndTheDemo(t *testing.T) {
	for _, key := range []string{"q", "\x03", "\x1b"} {
		in, typed := io.Pipe()
		result, err := Run(t.Context(), func(ctx context.Context, watch func(demo.Frame)) (demo.Result, error) {
			watch(frame())
			if _, err := io.WriteString(typed, key); err != nil {
				return demo.Result{}, err
			}
			<-ctx.Done()
			watch(frame()) // when nobody looks any more
			return demo.Result{LimitPerS: 7}, typed.Close()
		}, screen(in, io.Discard)...)
		if err != nil || result.LimitPerS != 7 {
			t.Errorf("after %q Run = %v, %v", key, result, err)
		}
	}
}

func TestASignalEndsTheDemo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Run(ctx, func(ctx context.Context, watch func(demo.Frame)) (demo.Result, error) {
		watch(frame())
		cancel()
		<-ctx.Done()
		return demo.Result{}, nil
	}, screen(nil, io.Discard)...)
	if err != nil {
		t.Error(err)
	}
}

func TestTheModelFollowsTheTerminal(t *testing.T) {
	var m tea.Model = model{width: 80, height: 24}
	if got := m.View().Content; !strings.Contains(got, "starting") {
		t.Errorf("before the first frame the view is %q", got)
	}
	m, _ = m.Update(frame())
	m, _ = m.Update(tea.WindowSizeMsg{Width: 120, Height: 40})
	if got, want := m.View().Content, Render(frame(), 120, 40, false); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
