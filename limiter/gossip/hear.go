// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/rpc"
)

// sender is one process that told something. What it told of a key is with
// the key.
type sender struct {
	id, before uint64 // of the process, and of the one before it on that host
	last       limiter.Instant
	gone       atomic.Bool // forgotten, or replaced

	mu      sync.Mutex // protects version, and is held while a message is heard
	version uint64
}

const (
	// maxSenders bounds those that are remembered.
	maxSenders = 4096
	// forget is after how long of silence one may be forgotten.
	forget = time.Minute
)

// errStrangers: nobody else is listened to.
var errStrangers = errors.New("gossip: too many hosts tell something; is each known by one name?")

// Update implements rpc.Decider: it hears what a host tells.
func (m *Mesh) Update(_ context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	g := messages.Get().(*rpc.Gossip) //nolint:errcheck // nothing else is put there
	defer messages.Put(g)
	if err := rpc.DecodeGossip(payload, g); err != nil {
		return nil, err
	}
	if err := m.HearAt(limiter.Now(), host, g); err != nil {
		return nil, err
	}
	return rpc.EncodeHeard(m.id), nil
}

var messages = sync.Pool{New: func() any { return new(rpc.Gossip) }}

// HearAt counts what host tells at now. It does not keep g.
func (m *Mesh) HearAt(now limiter.Instant, host string, g *rpc.Gossip) error {
	s, err := m.sender(now, host, g.From)
	if s == nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	if g.Version < s.version {
		return nil // overtaken by one that says more
	}
	s.version = g.Version
	late := m.late(now)
	for i := range g.Rows {
		m.hear(now, s, g, &g.Rows[i], late)
	}
	m.metrics.rows.Inc(int64(len(g.Rows)))
	return nil
}

// sender is who tells, or nil if that is over.
func (m *Mesh) sender(now limiter.Instant, host string, id uint64) (*sender, error) {
	if id == m.id {
		return nil, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()

	s := m.senders[host]
	switch {
	case s != nil && s.before == id:
		return nil, nil // late, of a process that was replaced
	case s == nil || s.id != id:
		if s == nil && len(m.senders) >= maxSenders {
			return nil, errStrangers
		}
		next := &sender{id: id}
		if s != nil {
			next.before = s.id
			s.gone.Store(true)
		}
		s = next
		m.senders[strings.Clone(host)] = s
		if p := m.peers[host]; p != nil && p.id != 0 && p.id != id {
			started := m.renewed(id)
			m.peers[host] = &started
		}
	}
	s.last = now
	return s, nil
}

// hear counts what s used of one key.
func (m *Mesh) hear(now limiter.Instant, s *sender, g *rpc.Gossip, row *rpc.Used, late bool) {
	rule, ok := m.rules(row.Key)
	if !ok || !gossips(rule) {
		return // this host's config is older or newer
	}
	e, _, err := m.entry(now, row.Key, rule)
	if err != nil {
		return // counted
	}
	defer e.mu.Unlock()

	e.touched = now
	h := e.from(s)
	used, mine := float64(row.Tokens), e.used
	switch {
	case h.of != nil && h.born == row.Born:
		m.charge(now, e, used-h.used)
		if late {
			mine = h.mine // whoever said this has not heard of more
			e.bucket.raise(now, row.Left-(e.used-mine))
		}
	case row.Born > g.After:
		m.charge(now, e, used)
	default:
		e.bucket.lower(now, row.Left)
	}
	*h = heard{of: s, born: row.Born, used: used, mine: mine}
}

// late tells whether this process has stood still lately. While it did, its
// buckets were full, and what others used meanwhile came out of what nobody
// filled in: it would be taken twice. So what the others think is left counts,
// less what they cannot have heard of.
func (m *Mesh) late(now limiter.Instant) bool {
	most := paidBack * m.config.Interval
	spoke, woken := limiter.Instant(m.spoke.Load()), limiter.Instant(m.woken.Load())
	return spoke != math.MinInt64 && now.Sub(spoke) > most || woken != math.MinInt64 && now.Sub(woken) <= most
}

// gossips tells whether rule has anything to do with this package.
func gossips(rule *dynamicconfig.Rule) bool {
	if rule.InFlight {
		return false
	}
	if m := rule.Migration; m != nil {
		return m.From == Name || m.To == Name
	}
	return rule.Algorithm == Name
}

// from is what s told last, or a place for it: that of the process which it
// replaced, if there was one.
func (e *entry) from(s *sender) *heard {
	for i := range e.heard {
		if e.heard[i].of == s {
			return &e.heard[i]
		}
	}
	for i := range e.heard {
		if e.heard[i].of.id == s.before {
			e.heard[i] = heard{}
			return &e.heard[i]
		}
	}
	e.heard = append(e.heard, heard{})
	return &e.heard[len(e.heard)-1]
}

// charge takes what another host used, as far as it is paid back: as much as
// all hosts may use when they have full buckets, and then do not hear of each
// other for some intervals. More would close a key for as long as they did
// not.
func (m *Mesh) charge(now limiter.Instant, e *entry, n float64) {
	each := e.bucket.burst + e.bucket.rate*(paidBack*m.config.Interval).Seconds()
	took := e.bucket.add(now, n, -within(each*float64(m.crowd.Load()), maxTokens))
	if n > took {
		m.metrics.lost.Inc(int64(n - took))
	}
}

// paidBack is how many intervals without a word are paid back in full.
const paidBack = 4
