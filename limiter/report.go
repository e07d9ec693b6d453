// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"math"
	"time"

	"github.com/headgate/headgate/rpc"
)

// Report gathers what was used since the last report that was answered, and
// does what time alone brings about: leases end, idle keys leave. It returns a
// Batch per algorithm, ordered by name.
func (g *Group) Report(now Instant) []*Batch {
	g.mu.Lock()
	defer g.mu.Unlock()

	g.mergeLocked()
	g.forgetSleepersLocked(now)
	hosts := int(g.hosts.Load())
	batches := g.batchesLocked(now, false, g.sizes)
	g.lastWordsLocked(now, batches)
	tired, recent := restless*g.interval(), g.interval()*2/3
	live, fallbacks := 0, 0
	for at, k := range g.live {
		c := k.core
		if c.tired(now, tired) && g.sleepLocked(now, k) {
			continue
		}
		for i, s := range c.shares {
			if s.granted != s.valid(now) {
				s.steer(now, hosts)
				g.tellFallback(now, s)
			}
			if !s.eager || s.regular(now, recent) {
				s.report(now, batches)
			}
			if c.inFallback(i) {
				fallbacks++
			}
		}
		if c.special != nil {
			c.tellOwed()
		}
		if k.idle(now) {
			g.dropLocked(now, k)
			continue
		}
		if live != at {
			g.live[live] = k
		}
		live++
	}
	clear(g.live[live:])
	g.live = fitted(g.live[:live])
	g.metrics.report(live+len(g.asleep), fallbacks)
	clear(g.spare) // of algorithms that have nothing to say any more
	all := batches.sorted()
	g.sizes = make(map[string]int, len(all))
	for _, b := range all {
		g.sizes[b.Usage.Algorithm] = len(b.rows)
	}
	return all
}

// regular tells whether an eager share takes part in a regular report: not if
// it has just reported, is about to be answered, or has nothing to say.
func (s *share) regular(now Instant, recent time.Duration) bool {
	if now < s.waiting || now.Sub(s.reported.at) < recent && s.grant.given {
		return false
	}
	s.disperse(now)
	return s.allowed.Load() > s.reported.allowed || s.rejected.Load() > s.reported.rejected ||
		s.pulse.demand.told > quietDemand || !s.grant.given
}

// lastWordsLocked reports the usage of shares that are gone. If the key is
// back under the same algorithm, its share takes the usage over.
func (g *Group) lastWordsLocked(now Instant, batches *batches) {
	wait := g.gone[:0]
	for _, s := range g.gone {
		if s.slots != nil && !g.bequeath(now, s, batches) {
			wait = append(wait, s)
			continue
		}
		// Who counts from here on sees low, and who does not see low has
		// counted before.
		s.low.Store(straggling)
		upTo := s.count(now)
		allowed, rejected, _ := upTo.since(s.reported)
		if allowed+rejected == 0 {
			continue
		}
		if now < s.waiting { // its last report may still be answered
			wait = append(wait, s)
			continue
		}
		var heir *share
		if c := g.coreOf(s.key); c != nil {
			heir = find(c.shares, s.algorithm)
		}
		if heir == nil {
			s.report(now, batches)
			continue
		}
		heir.allowed.Add(allowed)
		heir.rejected.Add(rejected)
		s.reported = upTo
	}
	clear(g.gone[len(wait):])
	g.gone = fitted(wait)
}

// Apply takes in the grants for some rows of b: grant i is for row rows[i],
// or for row i if rows is nil. Grants that make no sense are refused whole,
// with an error, and the keys go on as they were. A row that is never
// answered is reported again with the next Report.
func (g *Group) Apply(now Instant, b *Batch, rows []int, grants *rpc.Grants) error {
	n := len(rows)
	if rows == nil {
		n = len(b.rows)
	}
	if err := grants.Check(n); err != nil {
		g.metrics.badGrants.Inc(1)
		return fmt.Errorf("limiter: apply: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()

	if b.rows == nil {
		return fmt.Errorf("limiter: apply %d grants: the batch is done", n)
	}
	hosts := int(g.hosts.Load())
	heard := make([]effect, 0, together)
	weight, burst, used, lease := grants.Weight[:n], grants.Burst[:n], grants.Used[:n], grants.Lease[:n]
	for i := range n {
		at := i
		if rows != nil {
			at = rows[i]
		}
		if len(heard) == together {
			heard = g.hear(now, heard)
		}
		if rows != nil && i%ahead == 0 {
			b.fetch(rows[i:min(i+ahead, n)])
		}
		r := &b.rows[at]
		s := r.share
		if b.at > s.reported.at {
			s.reported = counts{r.allowed, r.rejected, b.at}
		}
		s.waiting = now
		if lease[i] == 0 && s.prompt() {
			g.retry(now, s)
		}
		if lease[i] == 0 || s.algorithm != b.Usage.Algorithm || int32(r.ask-s.heard) <= 0 {
			continue // an answer that was overtaken says nothing any more
		}
		s.heard = r.ask
		back := s.grant.given && s.fallen.Load()
		s.grant.given, s.grant.nothing, s.grant.floor = true, false, grants.Floor
		s.grant.weight, s.grant.burst, s.grant.used = weight[i], burst[i], used[i]
		if s.grant.burst > s.rule.Burst {
			s.grant.burst = s.rule.Burst
		}
		s.grant.until = now.Add(lease[i])
		if s.grant.burst == 0 && s.grant.weight == 0 && s.algorithm == Auto {
			s.grant.nothing, s.grant.until = true, now // it rules no bucket
		}
		if s.slots != nil {
			g.refit(now, s, hosts, b.early)
		} else if grants.Tokens == nil || s.grant.nothing {
			held := s.granted && s.grant.nothing
			s.steer(now, hosts)
			if held {
				g.hasDropped(now, s)
			}
		} else if r.ask == s.asks {
			more, before := grants.Tokens[i]-r.tokens, s.applied.limit
			if math.IsInf(more, 0) { // nothing was limited until now
				more = 0
			}
			s.lend(now, more, hosts)
			if s.eager {
				heard = append(heard, effect{s, b.early, before, more})
			}
		}
		if back {
			g.tellFallback(now, s)
		}
	}
	g.hear(now, heard)
	return nil
}

// lend puts a grant in force that changes the tokens too.
func (s *share) lend(now Instant, more float64, hosts int) {
	s.disperse(now)
	if s.granted {
		// With the pace in one step: the new depth may be less than what
		// there is now and not less than what there is to be.
		if level := s.grantLevel(hosts); level != s.applied {
			s.applied = level
			s.bucket.replace(now, newPace(level.limit, level.burst), func(old float64) float64 { return old + more })
		} else {
			s.bucket.add(now, more)
		}
		if s.grant.floor != rpc.FloorDrop && s.pass.Load() == passAll {
			s.settle(now) // which level rules does not change
		} else {
			s.steer(now, hosts)
		}
		return
	}
	before := s.bucket.tokens(now)
	s.settle(now)
	level := s.grantLevel(hosts)
	s.spare = spare{level.limit, level.burst, max(before+more, 0), now}
	s.steer(now, hosts)
}

// Fail says that rows of b, as in Apply, will not be answered. They are
// reported again with the next Report; keys that run low may ask again.
func (g *Group) Fail(now Instant, b *Batch, rows []int) {
	g.mu.Lock()
	defer g.mu.Unlock()

	n := len(rows)
	if rows == nil {
		n = len(b.rows)
	}
	if b.rows == nil {
		return // it is done
	}
	for i := range n {
		r := i
		if rows != nil {
			r = rows[i]
		}
		if s := b.rows[r].share; b.rows[r].ask == s.asks {
			s.waiting = now
			if s.eager {
				g.hear(now, []effect{{s, true, s.applied.limit, 0}})
			}
		}
	}
}

// mergeLocked takes in the keys that were admitted since the last time.
func (g *Group) mergeLocked() {
	g.freshMu.Lock()
	g.live = append(g.live, g.fresh...)
	g.gone = append(g.gone, g.stragglers...)
	g.fresh, g.stragglers = nil, nil
	g.freshMu.Unlock()
}

// idle tells whether k's key can be forgotten without anybody noticing: it
// was not used for long, and its buckets are full.
func (k *Keyed) idle(now Instant) bool {
	c := k.core
	if len(c.shares) == 0 {
		if o := k.other.Load(); o != nil && o.touched.Swap(false) {
			c.used = now
		}
	}
	if now.Sub(c.lastUsed()) < c.idleAfter() {
		return false
	}
	for _, s := range c.shares {
		if !s.idle(now) {
			return false
		}
	}
	return true
}

// lastUsed is when a report last found new usage.
func (c *core) lastUsed() Instant {
	used := c.used
	for _, s := range c.shares {
		used = max(used, s.used)
	}
	return used
}

// idleAfter is the rule's; keys without a rule are kept for as long as they
// would be by default.
func (c *core) idleAfter() time.Duration {
	if c.admitted.rule == nil {
		return 5 * c.admitted.of.snapshot.Properties().UpdateInterval
	}
	return c.admitted.rule.IdleAfter
}

// dropLocked forgets k's key. Whoever holds k brings it back by using it.
// Usage that comes in meanwhile is in the next report.
func (g *Group) dropLocked(now Instant, k *Keyed) {
	h := g.table.hash(k.key)
	p := g.table.part(h)
	p.mu.Lock()
	p.deleteLocked(&g.table, h, k)
	k.share.Store(nil)
	k.other.Store(nil)
	g.gone = append(g.gone, k.core.shares...)
	for _, s := range k.core.shares {
		g.end(s)
	}
	a := k.core.admitted
	a.keys.Add(-1)
	k.core = nil
	p.mu.Unlock()
	g.tellOf(now, EventRemoved, k.key, a.rule)
}
