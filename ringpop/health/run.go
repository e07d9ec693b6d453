// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/internal/roster"
)

// ping asks h again and again, until ctx ends.
func (m *Members) ping(ctx context.Context, h ringpop.Host, board *roster.Board) {
	tick := time.NewTicker(m.config.Interval)
	defer tick.Stop()
	answered := time.Now()
	for {
		// While h may be lost by this ping, the ping does not make that later.
		patience := m.config.After - time.Since(answered)
		if patience <= 0 {
			patience = m.config.After
		}
		err := m.ask(ctx, h.Address, min(patience, m.config.After/2))
		switch silent := time.Since(answered); {
		case ctx.Err() != nil:
			return
		case err == nil:
			answered = time.Now()
			board.Up(h, false)
		case silent >= m.config.After:
			board.Down(h.Address, fmt.Sprintf("no answer for %v: %.200v", m.config.After, err))
		}
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
