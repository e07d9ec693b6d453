// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"math"
	"slices"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/rpc"
)

// peer is one host that is told.
type peer struct {
	id    uint64 // of the process that answered last; 0: none has
	acked uint64 // the round up to which it has heard all
	after uint64 // what was used before this round is not for it to count
	busy  bool   // a message is under way
}

// SetPeers says which hosts there are; this one may be among them. What the
// new ones are told first is where to begin.
func (m *Mesh) SetPeers(addresses []string) {
	m.mu.Lock()
	defer m.mu.Unlock()

	now := make(map[string]*peer, len(addresses))
	for _, a := range addresses {
		switch old := m.peers[a]; {
		case a == m.self:
		case old != nil:
			now[a] = old
		default:
			now[a] = &peer{after: m.version.Load() - 1}
		}
	}
	m.peers = now
	m.crowd.Store(int64(len(now) + 1))
}

// Message is what a host is to be told: Gossip that is one, cut into pieces.
type Message struct {
	To      string
	Gossips []*rpc.Gossip
	peer    *peer
}

// TellAt ends a round and returns what there is to tell at now, to those who
// are not being told something already. Each Message wants a Done.
func (m *Mesh) TellAt(now limiter.Instant) []Message {
	spoke := limiter.Instant(m.spoke.Swap(int64(now)))
	if spoke != math.MinInt64 && now.Sub(spoke) > paidBack*m.config.Interval {
		m.woken.Store(int64(now))
	}
	version := m.version.Add(1) - 1
	fresh := m.changed(now, version)
	m.sweep(now)
	m.mu.Lock()
	defer m.mu.Unlock()

	// Most have heard the last round, and are told the same.
	same := make(map[[2]uint64][]*rpc.Gossip)
	var all []Message
	for to, p := range m.peers {
		if p.busy {
			continue
		}
		after := max(p.acked, min(p.after, version))
		about := [2]uint64{p.acked, after}
		gossips, ok := same[about]
		if !ok {
			rows := fresh
			if p.acked+1 != version {
				rows = m.since(now, p.acked, version)
			}
			gossips = m.cut(version, after, rows)
			same[about] = gossips
		}
		switch {
		case len(gossips) > 0:
		case p.id != 0:
			p.acked = version // there is nothing to hear
			continue
		default: // but that this process is here
			gossips = []*rpc.Gossip{{From: m.id, Version: version, After: after}}
		}
		p.busy = true
		all = append(all, Message{to, gossips, p})
	}
	return all
}

const (
	// maxBytes keeps a message with long keys below the 4 MiB that transports
	// take.
	maxBytes = 3 << 20
	// rowBytes is more than what a row takes beside its key.
	rowBytes = 40
)

// cut makes messages of rows.
func (m *Mesh) cut(version, after uint64, rows []rpc.Used) (all []*rpc.Gossip) {
	for len(rows) > 0 {
		n, bytes := 0, 0
		for n < min(len(rows), rpc.MaxGossip) && bytes <= maxBytes {
			bytes += len(rows[n].Key) + rowBytes
			n++
		}
		all = append(all, &rpc.Gossip{From: m.id, Version: version, After: after, Rows: rows[:n:n]})
		rows = rows[n:]
	}
	return all
}

// Done says that message's host has heard all of it, as by says who it is; or
// not, if by is 0.
func (m *Mesh) Done(message Message, by uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()

	p := message.peer
	p.busy = false
	switch {
	case by == 0:
	case p.id != 0 && p.id != by:
		*p = m.renewed(by)
	default:
		p.id, p.acked = by, message.Gossips[0].Version
	}
}

// renewed is a peer that knows nothing, because it is a new process.
func (m *Mesh) renewed(id uint64) peer { return peer{id: id, after: m.version.Load() - 1} }

// changed are the keys that this host used in the round that ended.
func (m *Mesh) changed(now limiter.Instant, version uint64) (rows []rpc.Used) {
	for i := range m.parts {
		p := &m.parts[i]
		p.mu.Lock()
		entries := p.changed
		p.changed = nil
		p.mu.Unlock()
		for _, e := range entries {
			e.mu.Lock()
			if e.born > version {
				p.note(e) // it belongs to the next round
			} else {
				e.told = false
				rows = append(rows, e.row(now))
			}
			e.mu.Unlock()
		}
	}
	return rows
}

// since are the keys that this host used after a round, up to version.
func (m *Mesh) since(now limiter.Instant, round, version uint64) (rows []rpc.Used) {
	for i := range m.parts {
		for _, e := range m.parts[i].all() {
			e.mu.Lock()
			if e.changed > round && e.born <= version {
				rows = append(rows, e.row(now))
			}
			e.mu.Unlock()
		}
	}
	return rows
}

func (p *part) all() []*entry {
	p.mu.RLock()
	defer p.mu.RUnlock()

	all := make([]*entry, 0, len(p.entries))
	for _, e := range p.entries {
		all = append(all, e)
	}
	return all
}

func (e *entry) row(now limiter.Instant) rpc.Used {
	return rpc.Used{Key: e.key, Born: e.born, Tokens: uint64(e.used), Left: e.bucket.level(now)}
}

const (
	// sweepEvery is how often idle keys are looked for.
	sweepEvery = 10 * time.Second
	// shortestIdle is for how long a key is idle at least: others may have
	// yet to hear of it.
	shortestIdle = 30 * time.Second
)

// sweep forgets keys that are full and that nobody has used for a while, and
// hosts that have been silent.
func (m *Mesh) sweep(now limiter.Instant) {
	m.mu.Lock()
	due := now.Sub(m.swept).Abs() >= sweepEvery // before the first, it may be any time
	if due {
		m.swept = now
		for host, s := range m.senders {
			if now.Sub(s.last) > forget && m.peers[host] == nil {
				delete(m.senders, host)
				s.gone.Store(true)
			}
		}
	}
	m.mu.Unlock()
	if !due {
		return
	}
	for i := range m.parts {
		p := &m.parts[i]
		for _, e := range p.all() {
			m.drop(now, p, e)
		}
	}
	m.metrics.keys.Update(float64(m.keys.Load()))
}

// drop forgets e if that loses nothing.
func (m *Mesh) drop(now limiter.Instant, p *part, e *entry) {
	e.mu.Lock()
	defer e.mu.Unlock()

	e.heard = slices.DeleteFunc(e.heard, func(h heard) bool { return h.of.gone.Load() })
	idle := max(e.rule.IdleAfter, shortestIdle)
	if e.told || now.Sub(e.touched) < idle || e.bucket.level(now) < e.bucket.burst {
		return
	}
	e.gone = true
	p.mu.Lock()
	defer p.mu.Unlock()

	delete(p.entries, e.key)
	m.keys.Add(-1)
}
