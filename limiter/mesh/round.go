// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
)

// peer is a host that messages are sent to.
type peer struct {
	address string
	id      uint64 // of the process that answered last; 0: none did
	acked   uint64 // the round up to which it received everything
	after   uint64 // it does not count what was used up to this round
	busy    bool   // a message is under way
	failed  uint64 // the round of the last message, if that was not answered
}

// maxRetries is how many hosts that did not answer last time are sent a message
// per round.
const maxRetries = 64

// SetPeers sets the hosts of the cluster; this one may be among them. The first
// message to a new host says where its buckets start.
func (m *Mesh) SetPeers(addresses []string) {
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
func (m *Mesh) newPeer(address string, id uint64) *peer {
	return &peer{address: address, id: id, after: m.round.Load() - 1}
}

// Message is what to send one host: the Gossips one after another.
type Message struct {
	To      string
	Gossips []*rpc.Gossip
	peer    *peer
	encode  func() ([]*anypb.Any, error) // once for all hosts that are sent the same
}

// RoundAt ends a round at now and returns the messages to send. Hosts come in
// the order of their names, those that did not answer last time at the end. The
// caller calls Done for each Message; before that, its host has no other one.
func (m *Mesh) RoundAt(now stage.Instant) []Message {
	ended := stage.Instant(m.ended.Swap(int64(now)))
	if ended != math.MinInt64 && now.Sub(ended) > paidBack*m.config.Interval {
		m.resumed.Store(int64(now))
	}
	round := m.round.Add(1) - 1
	latest := m.changed(now, round)
	m.sweep(now)
	m.mu.Lock()
	defer m.mu.Unlock()

	var all []Message
	same := make(map[[2]uint64]Message) // most hosts lack the same
	retries := 0
	for _, p := range slices.SortedFunc(maps.Values(m.peers), inTurn) {
		if p.busy || p.failed > 0 && retries == maxRetries {
			continue
		}
		after := max(p.acked, min(p.after, round))
		message, ok := same[[2]uint64{p.acked, after}]
		if !ok {
			message = m.message(now, round, p.acked, after, latest)
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

// message returns what a host lacks that received everything up to acked. If it
// lacks nothing, a message without rows says that this process is there.
func (m *Mesh) message(now stage.Instant, round, acked, after uint64, latest []rpc.Used) Message {
	gossips := m.cut(round, after, latest)
	if acked+1 != round {
		ended, rows := m.since(now, acked, round)
		gossips = append(m.cut(round, after, ended), m.cut(round, after, rows)...)
	}
	if len(gossips) == 0 {
		gossips = []*rpc.Gossip{{From: m.id, Version: round, After: after}}
	}
	return Message{Gossips: gossips, encode: sync.OnceValues(func() (all []*anypb.Any, err error) {
		for _, g := range gossips {
			payload, err := rpc.EncodeGossip(g)
			if err != nil {
				return nil, err
			}
			all = append(all, payload)
		}
		return all, nil
	})}
}

// inTurn orders peers by name, and those that did not answer last time at the
// end, by when that was.
func inTurn(a, b *peer) int {
	return cmp.Or(cmp.Compare(a.failed, b.failed), strings.Compare(a.address, b.address))
}

const (
	// maxBytes keeps a message with long keys below the 4 MiB that transports
	// take.
	maxBytes = 3 << 20
	// rowBytes is more than a row takes without its key.
	rowBytes = 40
)

// cut makes messages of rows.
func (m *Mesh) cut(round, after uint64, rows []rpc.Used) (all []*rpc.Gossip) {
	for len(rows) > 0 {
		n, bytes := 0, 0
		for n < min(len(rows), rpc.MaxGossip) && bytes <= maxBytes {
			bytes += len(rows[n].Key) + rowBytes
			n++
		}
		all = append(all, &rpc.Gossip{From: m.id, Version: round, After: after, Rows: rows[:n:n]})
		rows = rows[n:]
	}
	return all
}

// Done says that the process with id by received all of message. 0 means that
// there was no answer.
func (m *Mesh) Done(message Message, by uint64) {
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

// changed returns the keys that this host used in the round that ended.
func (m *Mesh) changed(now stage.Instant, round uint64) (rows []rpc.Used) {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		entries := s.changed
		s.changed = nil
		s.mu.Unlock()
		for _, e := range entries {
			e.mu.Lock()
			if e.own.born > round {
				s.mark(e, &m.round) // it belongs to the next round
			} else {
				e.marked, e.sent, e.sentIn = false, e.own.used, round
				rows = append(rows, e.row(now, e.own, 0))
				e.renew(round)
			}
			e.mu.Unlock()
		}
	}
	return rows
}

// renewAt is how much is used before a count begins anew: so little that no
// round takes it to rpc.MaxTokens.
const renewAt = 1 << 50

// renew begins a new count in the next round, if own is too large. Hosts that
// did not receive this round are sent the last state of the old count first. A
// host that receives nothing until yet another count has begun misses a part.
func (e *entry) renew(round uint64) {
	if e.own.used < renewAt {
		return
	}
	for i := range e.others {
		e.others[i].known -= e.own.used
	}
	e.sent = 0
	e.ended, e.own = e.own, count{born: round + 1}
}

// since returns the keys that this host used after a round that was acked, up
// to round. First come the counts that ended meanwhile.
func (m *Mesh) since(now stage.Instant, acked, round uint64) (ended, rows []rpc.Used) {
	for i := range m.shards {
		for _, e := range m.shards[i].all() {
			e.mu.Lock()
			if e.ended.born > 0 && e.own.born > acked+1 {
				ended = append(ended, e.row(now, e.ended, e.own.used))
			}
			if e.changed > acked && e.own.born <= round {
				rows = append(rows, e.row(now, e.own, 0))
			}
			e.mu.Unlock()
		}
	}
	return ended, rows
}

func (s *shard) all() []*entry {
	s.mu.RLock()
	defer s.mu.RUnlock()

	return slices.Collect(maps.Values(s.entries))
}

// row says c, and that what is left does not include the later use.
func (e *entry) row(now stage.Instant, c count, later float64) rpc.Used {
	return rpc.Used{Key: e.key, Born: c.born, Tokens: uint64(c.used), Left: e.bucket.Level(time.Duration(now)) + later}
}

const (
	// sweepEvery is how often Mesh looks for idle keys.
	sweepEvery = 10 * time.Second
	// shortestIdle is the shortest time for which a key is idle before it is
	// dropped. Other hosts need some of it to receive the last use.
	shortestIdle = 30 * time.Second
)

// sweep drops keys that are full and idle, and hosts that send no messages.
func (m *Mesh) sweep(now stage.Instant) {
	m.mu.Lock()
	due := now.Sub(m.swept).Abs() >= sweepEvery // the first now may be any time
	if due {
		m.swept = now
		for host, s := range m.senders {
			if now.Sub(s.last) > forgetAfter && m.peers[host] == nil {
				delete(m.senders, host)
				s.gone.Store(true)
			}
		}
	}
	m.mu.Unlock()
	if !due {
		return
	}
	for i := range m.shards {
		for _, e := range m.shards[i].all() {
			m.drop(now, &m.shards[i], e)
		}
	}
	m.metrics.keys.Update(float64(m.keys.Load()))
}

// drop removes e if nothing is lost.
func (m *Mesh) drop(now stage.Instant, s *shard, e *entry) {
	e.mu.Lock()
	defer e.mu.Unlock()

	e.others = slices.DeleteFunc(e.others, func(r received) bool { return r.of.gone.Load() })
	idle := max(e.rule.IdleAfter, shortestIdle)
	if e.marked || now.Sub(e.touched) < idle || !e.bucket.Full(time.Duration(now)) {
		return
	}
	e.removed = true
	s.mu.Lock()
	defer s.mu.Unlock()

	delete(s.entries, e.key)
	m.keys.Add(-1)
}
