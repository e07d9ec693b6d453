// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/meshusage"
)

// Update implements rpc.Decider: it receives a message from host.
func (m *Mesh) Update(_ context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	if err := rpc.CheckHost(host); err != nil {
		return nil, err
	}
	g := messages.Get().(*meshusage.Report) //nolint:errcheck // nothing else is put there
	defer messages.Put(g)
	if err := meshusage.Decode(payload, g); err != nil {
		return nil, err
	}
	if err := m.ReceiveAt(stage.Now(), host, g); err != nil {
		return nil, err
	}
	return meshusage.EncodeHeard(m.id), nil
}

var messages = sync.Pool{New: func() any { return new(meshusage.Report) }}

// ReceiveAt charges the buckets with what host used, at now. It does not keep
// g.
func (m *Mesh) ReceiveAt(now stage.Instant, host string, g *meshusage.Report) error {
	if g.From == m.id { // this very process
		return nil
	}
	s, acked, err := m.sender(now, host, g.From)
	if err != nil {
		if errors.Is(err, errReplaced) && m.warns(now, host) {
			m.log.Warn("two processes send messages under the name of one host; only those of the latest count", "host", host)
		}
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	if g.Version < s.round {
		return nil // a newer message, which says all that this one does, came first
	}
	if s.starts {
		s.starts = false
		m.starts.Add(1)
	}
	s.round = g.Version
	paused := m.paused(now)
	for i := range g.Rows {
		m.receive(now, s, acked, g, &g.Rows[i], paused)
	}
	m.metrics.rows.Inc(int64(len(g.Rows)))
	return nil
}

// receive charges a bucket with what s used of one key. If this process was
// paused, its bucket was full meanwhile, and could not fill in what others used.
// It would be charged for that twice. So the sender's bucket counts then, less
// what this host used and the sender may not have known.
func (m *Mesh) receive(now stage.Instant, s *sender, acked uint64, g *meshusage.Report, row *meshusage.Used, paused bool) {
	rule, ok := m.rules(row.Key)
	if !ok || !applies(rule) {
		return // this host's config is older or newer
	}
	e, _, err := m.entry(now, row.Key, rule)
	if err != nil {
		m.metrics.refused.Inc(1)
		return
	}
	defer e.mu.Unlock()

	e.touched = now
	r, at, used, lost := e.from(s), time.Duration(now), float64(row.Tokens), 0.0
	each := e.bucket.Burst() + e.bucket.Rate()*m.pauses.most().Seconds()
	floor := -each * float64(m.hosts.Load())
	most := -floor
	if paused {
		most = math.Inf(1)
	}
	spilt := e.bucket.Spilt(at)
	if spilt > e.back.spilt { // the bucket was full meanwhile, so no debt has lasted
		e.notAlone()
	}
	e.back.grow(spilt, m.starts.Load(), each, most)
	switch {
	case r.of != nil && row.Born < r.born:
		return // a repeated message about a count that ended
	case r.of != nil && row.Born == r.born:
		lost = e.settle(at, r, used-r.used, floor)
		level := e.bucket.Level(at)
		lack := row.Left - (e.own.used - r.known) - level // the sender may not know what this host used
		switch {
		case paused:
			e.giveBack(at, lack)
		case used > r.used:
			e.giveBack(at, r.alone.observe(now, level, lack, &m.pauses))
		}
	case row.Born > g.After:
		*r = received{known: r.known, alone: noDebt}
		lost = e.settle(at, r, used, floor)
		if row.Born+m.round.Load() < g.Version { // the count is older than this process, which has paid for all of it
			e.back.add(used-lost, most)
		}
	default:
		*r = received{known: r.known, alone: noDebt}
		e.bucket.Lower(at, max(row.Left, floor))
		e.back.grow(e.bucket.Spilt(at), m.starts.Load(), each, most)
	}
	m.metrics.uncharged.Inc(int64(lost))
	r.of, r.count = s, count{row.Born, used}
	if acked >= e.sentIn {
		r.known = e.sent // when it sends the next row
	}
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

// pauses notices when this process stands still. It is safe for concurrent use.
type pauses struct {
	interval atomic.Int64 // the length of a round, a Duration
	current  atomic.Int64 // the length of the round under way, a Duration
	ended    atomic.Int64 // the Instant at which the last round ended
	resumed  atomic.Int64 // the Instant at which a round last ended late
	stopped  atomic.Int64 // the Instant at which the round before that ended
}

// paidBack is how many intervals without messages are paid back in full.
const paidBack = 4

// length is that of a round.
func (p *pauses) length() time.Duration { return time.Duration(p.interval.Load()) }

// most is the longest time between two rounds that is not a pause. A round that is
// under way ends when it was to end.
func (p *pauses) most() time.Duration {
	return paidBack * max(p.length(), time.Duration(p.current.Load()))
}

// start says that the process runs since now, so that a pause before the end of its first round is noticed.
func (p *pauses) start(now stage.Instant) { p.ended.CompareAndSwap(math.MinInt64, int64(now)) }

// since is when the last round ended, or the first began, before a pause if there was one a short
// while ago; now, if that is not known.
func (p *pauses) since(now stage.Instant) stage.Instant {
	ended := p.ended.Load()
	if p.resumedLately(now) {
		ended = p.stopped.Load()
	}
	if ended != math.MinInt64 {
		return min(stage.Instant(ended), now)
	}
	return now
}

func (p *pauses) roundEnds(now stage.Instant) {
	ended := stage.Instant(p.ended.Swap(int64(now)))
	if ended != math.MinInt64 && now.Sub(ended) > p.most() {
		p.stopped.Store(int64(ended))
		p.resumed.Store(int64(now))
	}
	p.current.Store(p.interval.Load())
}

// paused reports whether this process stood still a short while ago.
func (p *pauses) paused(now stage.Instant) bool {
	ended := stage.Instant(p.ended.Load())
	return ended != math.MinInt64 && now.Sub(ended) > p.most() || p.resumedLately(now)
}

// resumedLately reports whether a round ended late a short while ago.
func (p *pauses) resumedLately(now stage.Instant) bool {
	resumed := stage.Instant(p.resumed.Load())
	return resumed != math.MinInt64 && now.Sub(resumed) <= p.most()
}
