// SPDX-License-Identifier: Apache-2.0

package toptui

import (
	"context"
	"errors"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Config of a view.
type Config struct {
	Interval time.Duration // between an answer and the next question
	Timeout  time.Duration // of a question
	Query    Query         // to begin with
}

// newModel is the model of a view that has seen nothing yet.
func newModel(ctx context.Context, source Source, c Config) model {
	m := model{
		ctx: ctx, source: source, interval: c.Interval, timeout: c.Timeout,
		now: time.Now(), width: 80, height: 24, dark: true, asking: true, asked: c.Query,
	}
	for i, sort := range KeySorts {
		if sort == c.Query.Sort {
			m.sorts[tabKeys] = i
		}
	}
	m.filter[tabKeys] = c.Query.Like
	return m
}

// Run shows what source says in the terminal until q is pressed or ctx ends. It takes the whole
// screen while it lasts, and leaves it as it was.
func Run(ctx context.Context, source Source, c Config, options ...tea.ProgramOption) error {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	options = append(options, tea.WithContext(ctx), tea.WithoutSignalHandler())
	_, err := tea.NewProgram(newModel(asking, source, c), options...).Run()
	if ctx.Err() != nil || errors.Is(err, tea.ErrInterrupted) {
		return nil // interrupted
	}
	if err != nil {
		return fmt.Errorf("show the live view (try --once): %w", err)
	}
	return nil
}

// later has f make a message after d, or none if ctx ends before.
func later(ctx context.Context, d time.Duration, f func(time.Time) tea.Msg) tea.Cmd {
	return func() tea.Msg {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case at := <-timer.C:
			return f(at)
		case <-ctx.Done():
			return nil
		}
	}
}
