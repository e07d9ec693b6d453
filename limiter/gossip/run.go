// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/rpc"
)

// maxCalls bounds the messages under way.
const maxCalls = 64

// Run tells all peers every interval what there is to tell, until ctx ends. A
// host that is slow holds up nobody, and is told more when it has answered. It
// returns when all of its calls have.
func (m *Mesh) Run(ctx context.Context, peers rpc.Peers) {
	var calls sync.WaitGroup
	defer calls.Wait()
	room := make(chan struct{}, maxCalls)
	// Hosts that start together do not tell in step.
	timer := time.NewTimer(time.Duration(rand.Int64N(int64(m.config.Interval))))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(m.config.Interval)
		for _, message := range m.TellAt(limiter.Now()) {
			select {
			case room <- struct{}{}:
			case <-ctx.Done():
				return
			}
			calls.Go(func() {
				defer func() { <-room }()
				m.Done(message, m.tell(ctx, peers, message))
			})
		}
	}
}

// tell returns who heard all of message, or 0. A host that is new is told of all
// keys, which may take longer than a round.
func (m *Mesh) tell(ctx context.Context, peers rpc.Peers, message Message) (by uint64) {
	for _, g := range message.Gossips {
		m.metrics.sent.Inc(1)
		who, err := m.call(ctx, peers, message.To, g)
		if err != nil || by != 0 && by != who {
			m.metrics.unanswered.Inc(1)
			m.log.Debug("a host does not hear what this one used", "host", message.To, "error", err)
			return 0
		}
		by = who
	}
	return by
}

// minTimeout is how long an answer may take at least.
const minTimeout = 100 * time.Millisecond

func (m *Mesh) call(ctx context.Context, peers rpc.Peers, to string, g *rpc.Gossip) (by uint64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("tell %q of %d keys: %w", to, len(g.Rows), err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, max(m.config.Interval, minTimeout))
	defer cancel()
	payload, err := rpc.EncodeGossip(g)
	if err != nil {
		return 0, err
	}
	peer, err := peers.Peer(to)
	if err != nil {
		return 0, err
	}
	answer, err := rpc.Ask(ctx, peer, m.self, payload)
	if err != nil {
		return 0, err
	}
	return rpc.DecodeHeard(answer)
}
