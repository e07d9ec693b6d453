// SPDX-License-Identifier: Apache-2.0

package tui

import (
	"context"
	"errors"
	"fmt"

	tea "charm.land/bubbletea/v2"

	"github.com/headgate/headgate/internal/demo"
)

// Play plays the demo until it is over or ctx ends, and hands frames to watch.
type Play func(ctx context.Context, watch func(demo.Frame)) (demo.Result, error)

// Run shows what play plays in the terminal. It takes the whole screen while
// it lasts and leaves it as it was.
func Run(ctx context.Context, play Play, options ...tea.ProgramOption) (demo.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	program := tea.NewProgram(model{width: 80, height: 24, dark: true}, append(options, tea.WithoutSignalHandler())...)

	var result demo.Result
	var failed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		result, failed = play(ctx, func(f demo.Frame) { program.Send(f) })
		program.Send(over{})
	}()
	_, err := program.Run()
	cancel()
	<-done
	if err != nil {
		err = fmt.Errorf("show the live view (try --plain): %w", err)
	}
	return result, errors.Join(failed, err)
}

// over: the demo has ended.
type over struct{}

// model is what the terminal shows.
type model struct {
	frame         demo.Frame
	seen          bool // a frame is there
	width, height int
	dark          bool
}

var _ tea.Model = model{}

// Init asks for the background, for colours that stand out from it.
func (m model) Init() tea.Cmd { return tea.RequestBackgroundColor }

// Update implements tea.Model.
func (m model) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case demo.Frame:
		m.frame, m.seen = message, true
	case over:
		return m, tea.Quit
	case tea.WindowSizeMsg:
		m.width, m.height = message.Width, message.Height
	case tea.BackgroundColorMsg:
		m.dark = message.IsDark()
	case tea.KeyPressMsg:
		switch message.String() {
		case "q", "esc", "ctrl+c":
			return m, tea.Quit
		}
	}
	return m, nil
}

// View implements tea.Model.
func (m model) View() tea.View {
	text := " starting five hosts …"
	if m.seen {
		text = Render(m.frame, m.width, m.height, m.dark)
	}
	view := tea.NewView(text)
	view.AltScreen = true
	view.WindowTitle = "headgate-lab demo"
	return view
}
