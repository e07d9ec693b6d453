// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/internal/roster"
)

// ping asks h again and again, until ctx ends.
func (m *Members) ping(ctx context.Context, h ringpop.Host, board *roster.Board) {
	interval, after := m.pace()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	answered, failed := time.Now(), false
	m.silent(h.Address, false)
	for {
		if now, silence := m.pace(); now != interval {
			interval, after = now, silence
			tick.Reset(interval)
		}
		// While h may be lost by this ping, the ping does not make that later.
		patience := after - time.Since(answered)
		if patience <= 0 {
			patience = after
		}
		began := time.Now()
		err := m.ask(ctx, h.Address, min(patience, after/2))
		now := time.Now()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			answered = now
			board.Up(h, false)
			m.silent(h.Address, false)
		case errors.Is(err, ErrLeaves):
			answered = now
			board.Left(h.Address)
		case now.Sub(began) >= after && !failed: // this process stood still: the next ping decides
		case now.Sub(answered) >= after:
			board.Down(h.Address, fmt.Sprintf("no answer for %v: %.200v", after, err))
			m.silent(h.Address, true)
		}
		failed = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// greet asks this host's own address now and then, until ctx ends.
func (m *Members) greet(ctx context.Context) {
	tick := time.NewTicker(GreetEvery)
	defer tick.Stop()
	for {
		_ = m.ask(ctx, m.config.Self, m.config.After)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (m *Members) ask(ctx context.Context, address string, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return m.config.Ping(ctx, address)
}
