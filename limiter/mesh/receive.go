// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
)

// sender is a process that sent messages. Its counts are with the keys.
type sender struct {
	id, previous uint64 // of the process, and of the one before it on that host
	last         stage.Instant
	gone         atomic.Bool // forgotten, or replaced

	mu    sync.Mutex // protects round, and is held while a message is received
	round uint64
}

const (
	// maxSenders bounds the senders that are remembered.
	maxSenders = 4096
	// forgetAfter is after how long without a message a sender that is not a
	// peer is forgotten.
	forgetAfter = time.Minute
	// paidBack is how many intervals without messages are paid back in full.
	paidBack = 4
)

var errTooManySenders = errors.New("mesh: too many hosts send messages; does each host have one name?")

// Update implements rpc.Decider: it receives a message from host.
func (m *Mesh) Update(_ context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	g := messages.Get().(*rpc.Gossip) //nolint:errcheck // nothing else is put there
	defer messages.Put(g)
	if err := rpc.DecodeGossip(payload, g); err != nil {
		return nil, err
	}
	if err := m.ReceiveAt(stage.Now(), host, g); err != nil {
		return nil, err
	}
	return rpc.EncodeHeard(m.id), nil
}

var messages = sync.Pool{New: func() any { return new(rpc.Gossip) }}

// ReceiveAt charges the buckets with what host used, at now. It does not keep
// g.
func (m *Mesh) ReceiveAt(now stage.Instant, host string, g *rpc.Gossip) error {
	s, acked, err := m.sender(now, host, g.From)
	if s == nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	if g.Version < s.round {
		return nil // a newer message, which says all that this one does, came first
	}
	s.round = g.Version
	paused := m.paused(now)
	for i := range g.Rows {
		m.receive(now, s, acked, g, &g.Rows[i], paused)
	}
	m.metrics.rows.Inc(int64(len(g.Rows)))
	return nil
}

// sender returns the process with id on host, and the round up to which it
// received everything. It returns nil if the process was replaced, or is this
// one.
func (m *Mesh) sender(now stage.Instant, host string, id uint64) (s *sender, acked uint64, err error) {
	if id == m.id {
		return nil, 0, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()

	s, p := m.senders[host], m.peers[host]
	switch {
	case s != nil && s.previous == id:
		return nil, 0, nil
	case s == nil || s.id != id:
		if s == nil && len(m.senders) >= maxSenders {
			return nil, 0, errTooManySenders
		}
		next := &sender{id: id}
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

// receive charges a bucket with what s used of one key. If this process was
// paused, its bucket was full meanwhile, and could not fill in what others used.
// It would be charged for that twice. So the sender's bucket counts then, less
// what this host used and the sender may not have known.
func (m *Mesh) receive(now stage.Instant, s *sender, acked uint64, g *rpc.Gossip, row *rpc.Used, paused bool) {
	rule, ok := m.rules(row.Key)
	if !ok || !applies(rule) {
		return // this host's config is older or newer
	}
	e, _, err := m.entry(now, row.Key, rule)
	if err != nil {
		return // the metrics count it
	}
	defer e.mu.Unlock()

	e.touched = now
	r, at, used := e.from(s), time.Duration(now), float64(row.Tokens)
	switch {
	case r.of != nil && row.Born < r.born:
		return // a repeated message about a count that ended
	case r.of != nil && row.Born == r.born:
		m.settle(at, e, r, used-r.used)
		if paused {
			e.bucket.Give(at, row.Left-(e.own.used-r.known)-e.bucket.Level(at))
		}
	case row.Born > g.After:
		*r = received{known: r.known}
		m.settle(at, e, r, used)
	default:
		*r = received{known: r.known}
		e.bucket.Lower(at, row.Left)
	}
	r.of, r.count = s, count{row.Born, used}
	if acked >= e.sentIn {
		r.known = e.sent // when it sends the next row
	}
}

// settle charges e's bucket when a count grows by n, and gives back when it
// shrinks. A charge ends at a debt of what all hosts may use from full buckets,
// and in some intervals without messages. A deeper debt would close the key for
// as long as the messages were missing.
//
// A count shrinks by what was added last. So the tokens charged since the debt
// was last too deep come back first. Then come the uncharged ones, for which
// nothing is given back.
func (m *Mesh) settle(at time.Duration, e *entry, r *received, n float64) {
	if n < 0 {
		charged := min(-n, r.charged)
		uncharged := min(-n-charged, r.uncharged)
		r.charged -= charged
		r.uncharged -= uncharged
		e.bucket.Give(at, -n-uncharged)
		return
	}
	each := e.bucket.Burst() + e.bucket.Rate()*(paidBack*m.config.Interval).Seconds()
	took := e.bucket.Charge(at, n, -each*float64(m.hosts.Load()))
	r.charged += took
	if took < n {
		r.charged = 0
		r.uncharged += n - took
		m.metrics.uncharged.Inc(int64(n - took))
	}
}

// paused reports whether this process stood still a short while ago.
func (m *Mesh) paused(now stage.Instant) bool {
	most := paidBack * m.config.Interval
	ended, resumed := stage.Instant(m.ended.Load()), stage.Instant(m.resumed.Load())
	return ended != math.MinInt64 && now.Sub(ended) > most || resumed != math.MinInt64 && now.Sub(resumed) <= most
}

// applies reports whether hosts send each other what they use under rule.
func applies(rule *dynamicconfig.Rule) bool {
	if rule.InFlight {
		return false
	}
	if m := rule.Migration; m != nil {
		return m.From == Name || m.To == Name
	}
	return rule.Algorithm == Name
}

// from returns what came from s last. If nothing did, it is empty, and takes
// the place of the process before s.
func (e *entry) from(s *sender) *received {
	i := slices.IndexFunc(e.others, func(r received) bool { return r.of == s || r.of.id == s.previous })
	switch {
	case i < 0:
		i = len(e.others)
		e.others = append(e.others, received{})
	case e.others[i].of != s:
		e.others[i] = received{}
	}
	return &e.others[i]
}
