// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limiter/stage"
)

// members is the hosts that messages are sent to, and those that sent some. It
// is safe for concurrent use.
type members struct {
	self   string
	rounds *atomic.Uint64 // the table's round
	hosts  atomic.Int64   // with this one

	mu      sync.Mutex // protects following fields, and those of all peers
	peers   map[string]*peer
	senders map[string]*sender
	swept   stage.Instant
	warned  stage.Instant // of two processes that have one name
}

// peer is a host that messages are sent to.
type peer struct {
	address string
	id      uint64 // of the process that answered last; 0: none did
	acked   uint64 // the round up to which it received everything
	busy    bool   // a message is under way
	failed  uint64 // the round of the last message, if that was not answered

	// Of what this host used up to this round, the peer gets the tokens that
	// are left. It is charged only with what was used later.
	after uint64
}

// maxRetries is how many hosts that did not answer last time are sent a message
// per round.
const maxRetries = 64

// SetPeers sets the hosts of the cluster; this one may be among them. The first
// message to a new host says where its buckets start.
func (m *members) SetPeers(addresses []string) {
	m.mu.Lock()
	defer m.mu.Unlock()

	peers := make(map[string]*peer, len(addresses))
	for _, a := range addresses {
		switch old := m.peers[a]; {
		case a == m.self:
		case old != nil:
			peers[a] = old
		default:
			peers[a] = m.newPeer(a, 0)
		}
	}
	m.peers = peers
	m.hosts.Store(int64(len(peers) + 1))
}

// newPeer returns a peer that knows nothing of what this host used before.
func (m *members) newPeer(address string, id uint64) *peer {
	return &peer{address: address, id: id, after: m.rounds.Load() - 1}
}

// inTurn orders peers by name, and those that did not answer last time at the
// end, by when that was.
func inTurn(a, b *peer) int {
	return cmp.Or(cmp.Compare(a.failed, b.failed), strings.Compare(a.address, b.address))
}

// messages returns the messages to send at the end of a round. lacks makes the
// one for a host that received everything up to acked; after is as in peer.
func (m *members) messages(round uint64, lacks func(acked, after uint64) Message) (all []Message) {
	m.mu.Lock()
	defer m.mu.Unlock()

	same := make(map[[2]uint64]Message) // most hosts lack the same
	retries := 0
	for _, p := range slices.SortedFunc(maps.Values(m.peers), inTurn) {
		if p.busy || p.failed > 0 && retries == maxRetries {
			continue
		}
		after := max(p.acked, min(p.after, round))
		message, ok := same[[2]uint64{p.acked, after}]
		if !ok {
			message = lacks(p.acked, after)
			same[[2]uint64{p.acked, after}] = message
		}
		if p.id != 0 && len(message.Gossips[0].Rows) == 0 {
			p.acked = round // it lacks nothing
			continue
		}
		if p.failed > 0 {
			retries++
		}
		p.busy, message.To, message.peer = true, p.address, p
		all = append(all, message)
	}
	return all
}

// Done says that the process with id by received all of message. 0 means that
// there was no answer.
func (m *members) Done(message Message, by uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()

	p, round := message.peer, message.Gossips[0].Version
	p.busy = false
	switch {
	case by == 0:
		p.failed = round
	case p.id != 0 && p.id != by:
		*p = *m.newPeer(p.address, by)
	default:
		p.id, p.acked, p.failed = by, round, 0
	}
}

// sender is a process that sent messages. Its counts are with the keys.
type sender struct {
	id, previous uint64 // of the process, and of the one before it on that host
	last         stage.Instant
	late         bool        // the process before it has sent a message since
	gone         atomic.Bool // forgotten, or replaced

	mu     sync.Mutex // protects following fields, and is held while a message is received
	round  uint64
	starts bool // it started later than this process, and is not in the table's starts yet
}

const (
	// maxSenders bounds the senders that are remembered beside the members.
	maxSenders = 4096
	// forgetAfter is after how long without a message a sender that is not a
	// peer is forgotten, and one that is a peer gives way to the process before it.
	forgetAfter = time.Minute
	// sweepEvery is how often Mesh looks for idle keys.
	sweepEvery = 10 * time.Second
)

var (
	errTooManySenders = errors.New("mesh: too many hosts send messages; does each host have one name?")
	errReplaced       = errors.New("mesh: another process sends messages under the name of this one; give each host a name of its own")
)

// sender returns the process with id on host, and the round up to which it
// received everything. The error is errReplaced if another process has come after it, and
// has not been silent for forgetAfter.
func (m *members) sender(now stage.Instant, host string, id uint64) (s *sender, acked uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()

	s, p := m.senders[host], m.peers[host]
	switch {
	case s != nil && s.previous == id && now.Sub(s.last) <= forgetAfter:
		return nil, 0, errReplaced
	case s == nil || s.id != id:
		if s == nil && p == nil && len(m.senders) >= maxSenders {
			return nil, 0, errTooManySenders
		}
		next := &sender{id: id, starts: s != nil || p == nil || p.after > 0}
		if s != nil {
			next.previous = s.id
			s.gone.Store(true)
		}
		s = next
		m.senders[strings.Clone(host)] = s
		if p != nil && p.id != 0 && p.id != id {
			p = m.newPeer(p.address, id)
			m.peers[host] = p
		}
	}
	s.last = now
	if p != nil {
		acked = p.acked
	}
	return s, acked, nil
}

// warnEvery is how often Mesh logs at most that two processes have one name.
const warnEvery = time.Minute

// warns reports whether to log that a message came from a process of host that was
// replaced. One may be on its way still when the next process begins.
func (m *members) warns(now stage.Instant, host string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()

	s := m.senders[host]
	if s == nil {
		return false
	}
	due := s.late && (m.warned == 0 || now.Sub(m.warned).Abs() >= warnEvery)
	if s.late = true; due {
		m.warned = now
	}
	return due
}

// sweep forgets hosts that send no messages, from time to time. It reports
// whether it was time.
func (m *members) sweep(now stage.Instant) (due bool) {
	m.mu.Lock()
	defer m.mu.Unlock()

	if now.Sub(m.swept).Abs() < sweepEvery { // the first now may be any time
		return false
	}
	m.swept = now
	for host, s := range m.senders {
		if now.Sub(s.last) > forgetAfter && m.peers[host] == nil {
			delete(m.senders, host)
			s.gone.Store(true)
		}
	}
	return true
}
