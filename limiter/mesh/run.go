// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/meshusage"
)

// Run sends all peers what they lack, every interval, until ctx ends. A peer
// that is slow delays no other; each has one goroutine at most. Run returns when
// all calls have ended.
func (m *Mesh) Run(ctx context.Context, peers rpc.Peers) {
	var calls sync.WaitGroup
	defer calls.Wait()
	m.StartAt(stage.Now())
	// Hosts that start together do not send at the same time.
	timer := time.NewTimer(time.Duration(rand.Int64N(int64(m.length()))))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(m.length())
		m.send(ctx, peers, &calls)
	}
}

// Leave sends all peers what this host used since the last round, and returns
// when they have answered, after an interval per message, or when ctx ends. Call
// it after Run has returned. What the host uses later is not sent.
func (m *Mesh) Leave(ctx context.Context, peers rpc.Peers) {
	var calls sync.WaitGroup
	m.send(ctx, peers, &calls)
	calls.Wait()
}

// send ends a round, and sends each message in a goroutine.
func (m *Mesh) send(ctx context.Context, peers rpc.Peers, calls *sync.WaitGroup) {
	for _, message := range m.RoundAt(stage.Now()) {
		calls.Go(func() {
			by, err := m.deliver(ctx, peers, message)
			if err != nil {
				m.metrics.unanswered.Inc(1)
				m.log.Debug("a host did not receive what this one used", "host", message.To, "error", err)
			}
			m.Done(message, by)
		})
	}
}

// deliver returns the process that received all of message. A host that is new
// is sent all keys, which may take longer than a round.
func (m *Mesh) deliver(ctx context.Context, peers rpc.Peers, message Message) (by uint64, err error) {
	defer rpc.Recovered(&err) // Peers are anybody's
	payloads, err := message.encode()
	if err != nil {
		return 0, err
	}
	peer, err := peers.Peer(message.To)
	if err != nil {
		return 0, err
	}
	for _, payload := range payloads {
		m.metrics.sent.Inc(1)
		process, err := m.call(ctx, peer, payload)
		if err == nil && by != 0 && by != process {
			err = errRestarted
		}
		if err != nil {
			return 0, err
		}
		by = process
	}
	return by, nil
}

var errRestarted = errors.New("mesh: the host restarted between two messages")

// minTimeout is the shortest time that a host has to answer.
const minTimeout = 100 * time.Millisecond

// call returns the process that received payload.
func (m *Mesh) call(ctx context.Context, peer rpc.Decider, payload *anypb.Any) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, max(m.length(), minTimeout))
	defer cancel()
	answer, err := rpc.Ask(ctx, peer, m.self, payload)
	if err != nil {
		return 0, err
	}
	return meshusage.DecodeHeard(answer)
}
