// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
)

// share is this host's part of one key's limit under one algorithm.
//
// Two bucket levels exist: what the grant gives, and what the fallback gives.
// Decisions touch only the one that rules, in bucket. The other, spare, is
// charged with the same usage at each report and at each switch, so that a
// switch gives nobody a second burst.
//
// AllowAt, ReserveAt, ChargeAt, CapAt and Level are safe for concurrent use.
// All else is called with group.mu held.
type share struct {
	// What an event that is allowed touches is one cache line, and no other
	// share's.
	bucket  bucket
	low     atomic.Int64 // quanta; with less left, runsLow
	allowed atomic.Int64 // cost, ever
	crowd   atomic.Pointer[crowd]

	rejected atomic.Int64  // cost, ever
	most     atomic.Uint64 // float64 bits; spare has no more when it is settled
	largest  atomic.Int64  // cost at once since the last report
	pass     atomic.Uint64 // of 2⁶⁴ events, how many pass an unlimited bucket
	salt     uint64        // of the coin that decides which
	group    *Group        // set before low, and for good, once low matters
	pulse    pulse         // its askAt is atomic; early.mu protects the rest

	key       string
	algorithm string
	rule      *dynamicconfig.Rule
	terms     atomic.Pointer[terms] // of the rule and the algorithm
	remote    bool                  // reports and gets grants
	eager     bool                  // reports early
	wanting   bool                  // reports what it wants
	granted   bool                  // the bucket is the grant's, spare is the fallback's
	fallen    atomic.Bool           // remote and not granted

	grant   grant
	spare   spare
	applied applied

	reported counts  // as of the last report that was answered
	settled  int64   // of allowed, what spare was charged with
	seen     int64   // allowed and rejected, at the last report
	cost     float64 // largest at once lately
	asks     uint32  // reports so far, modulo 2³²
	heard    uint32  // the newest of them that was answered
	waiting  Instant // until when the newest may be answered
	used     Instant // last report that found new usage

	slots  *slots        // instead of bucket, if not nil
	auto   *auto         // under Auto with a Remote, else nil
	stated atomic.Uint64 // float64 bits of the demand, or of Measured
	mean   float64       // demand of late, in events/s, if wanting
}

// grant is the newest grant; it is valid before until.
type grant struct {
	given               bool // false: there never was one
	nothing             bool // under Auto: the key's owner decides each event
	floor               rpc.Floor
	weight, burst, used float64
	until               Instant
}

// spare is a bucket that nobody takes from.
type spare struct {
	limit         rate.Limit
	burst, tokens float64
	at            Instant
}

// counts are readings of a share's counters at an instant.
type counts struct {
	allowed, rejected int64
	at                Instant
}

// newShare returns a share in fallback whose bucket has tokens tokens or is
// full, whichever is less.
func newShare(now Instant, key, algorithm string, rule *dynamicconfig.Rule, hosts int, tokens float64) *share {
	s := &share{key: key, algorithm: algorithm, remote: algorithm != Even, rule: rule}
	s.low.Store(neverLow)
	s.most.Store(noCap)
	s.pass.Store(passAll)
	s.stated.Store(math.Float64bits(Measured))
	s.terms.Store(&noTerms)
	if rule.InFlight {
		s.slots = newSlots(0)
		s.slots.short = s.short
	}
	s.applied = s.fallbackLevel(hosts)
	s.bucket.init(newPace(s.applied.limit, s.applied.burst))
	s.bucket.cap(now, tokens)
	s.spare = unknown(now)
	s.reported.at, s.used = now, now
	s.steer(now, hosts)
	return s
}

func (s *share) AllowAt(now Instant, n int) bool {
	if n != 1 {
		_, ok := s.reserve(now, n, 0)
		return ok
	}
	if c := s.crowd.Load(); c != nil {
		if ok, known := s.allowFrom(c.own(), c, now); known {
			return ok
		}
	}
	// What bucket.allow does, here because a call is a twentieth of it all.
	for lost := 0; ; lost++ {
		w, p := s.bucket.read()
		if p.unlimited() {
			return s.allowUnlimited(now)
		}
		d := p.taken(w, now) + p.quanta()
		if d > p.depth {
			if s.bucket.full.Load() == w {
				return s.refuse(now)
			}
			continue
		}
		if s.bucket.full.CompareAndSwap(w, p.at(now)+d|w&1) {
			s.allowed.Add(1)
			if p.depth-d < s.low.Load() {
				s.runsLow(now)
			}
			if lost > 1 {
				s.gather()
			}
			return true
		}
	}
}

// refuse counts an event as rejected, unless there are tokens in pockets.
func (s *share) refuse(now Instant) bool {
	if c := s.crowd.Load(); c != nil {
		if s.unstock(now, c) {
			return s.AllowAt(now, 1)
		}
		s.rejectFrom(c.own(), c)
	} else if n := s.rejected.Load(); !s.rejected.CompareAndSwap(n, n+1) {
		s.rejectOne()
	}
	s.lacks(now)
	return false
}

// lacks is called when an event was refused for lack of tokens.
func (s *share) lacks(now Instant) {
	if s.low.Load() != neverLow {
		s.runsLow(now)
	}
}

// allowUnlimited counts an event that no bucket limits.
func (s *share) allowUnlimited(now Instant) bool {
	ok := !s.drops()
	if ok {
		s.allowed.Add(1)
	} else {
		s.rejected.Add(1)
	}
	if low := s.low.Load(); low == straggling || !ok && low != neverLow {
		s.runsLow(now)
	}
	return ok
}

// passAll lets everything through.
const passAll = math.MaxUint64

// drops tosses the coin of rpc.FloorDrop. Its chance is a hash of how many
// events there were, so that the same events meet the same fate.
func (s *share) drops() bool {
	pass := s.pass.Load()
	if pass == passAll {
		return false
	}
	return mixed(uint64(s.allowed.Load()+s.rejected.Load())+s.salt) >= pass
}

// reserve takes n tokens and counts them.
func (s *share) reserve(now Instant, n int, longest time.Duration) (wait time.Duration, ok bool) {
	if largest := s.largest.Load(); int64(n) > largest {
		s.largest.CompareAndSwap(largest, int64(n)) // somebody else's may win
	}
	s.rejoin(now, n)
	wait, ok = s.bucket.reserve(now, int64(n), longest)
	if ok && s.pass.Load() != passAll && s.drops() {
		ok = false // its tokens were of an unlimited bucket
	}
	if ok {
		s.allowed.Add(int64(min(n, maxCost)))
	} else {
		s.reject(n)
	}
	if low := s.low.Load(); low == straggling || low != neverLow && s.bucket.tokens(now) < s.bucket.tokensOf(low) {
		s.runsLow(now)
	}
	return wait, ok
}

func (s *share) ReserveAt(now Instant, n int, longest time.Duration) Reservation {
	wait, ok := s.reserve(now, n, longest)
	if !ok {
		return &ticket{}
	}
	return &ticket{from: s, n: n, limit: s.bucket.limit(), taken: now, act: now.Add(wait)}
}

// reject counts n rejected; a cost beyond reason counts as the largest.
func (s *share) reject(n int) { s.rejected.Add(int64(min(max(n, 0), maxCost))) }

func (s *share) ChargeAt(now Instant, n int) {
	n = min(max(n, 0), maxCost)
	s.rejoin(now, n)
	s.bucket.add(now, -float64(n))
	s.allowed.Add(int64(n))
	if s.low.Load() == straggling {
		s.runsLow(now)
	}
}

// maxCost keeps the counters from overflowing.
const maxCost = 1 << 40

// CapAt caps both levels: the bucket now, and spare when it is next settled.
func (s *share) CapAt(now Instant, tokens float64) {
	s.emptied(now)
	s.bucket.cap(now, tokens)
	for {
		old := s.most.Load()
		if math.Float64frombits(old) <= tokens || s.most.CompareAndSwap(old, math.Float64bits(tokens)) {
			return
		}
	}
}

func (s *share) Level(now Instant) Level {
	burst, tokens := s.bucket.burst(), s.bucket.tokens(now)+float64(s.pocketed())
	return Level{Limit: s.bucket.limit(), Burst: burst, Tokens: min(tokens, burst)}
}

func (s *share) debt(now Instant) time.Duration { return s.bucket.delay(now) }

func (s *share) refund(now Instant, tokens float64, n int) {
	s.unstock(now, s.crowd.Load()) // it may be another time than now
	s.bucket.add(now, tokens)
	s.allowed.Add(-int64(min(n, maxCost)))
}

// filled is what spare would have if nothing had been used since it was settled.
func (s *share) filled(now Instant) float64 {
	return s.spare.tokens + float64(s.spare.limit)*float64(max(now.Sub(s.spare.at), 0))*1e-9
}

// settle charges spare with what was used since the last time.
func (s *share) settle(now Instant) {
	filled, allowed := s.filled(now), s.allowed.Load()
	used := float64(max(allowed-s.settled, 0))
	s.settled = allowed
	most := inf
	if s.most.Load() != noCap { // a swap waits for everything before it
		most = math.Float64frombits(s.most.Swap(noCap))
	}
	if s.spare.tokens != inf { // else it takes over from the bucket, which has been charged
		if filled > s.spare.burst {
			filled = s.spare.burst
		}
		if filled > most {
			filled = most
		}
		if filled -= used; filled < 0 {
			filled = 0
		}
		s.spare.tokens = filled
	}
	s.spare.at = now
}

// noCap is the bits of infinity: nobody capped spare.
var noCap = math.Float64bits(math.Inf(1))

// valid tells whether the grant should rule.
func (s *share) valid(now Instant) bool { return s.remote && s.grant.given && s.grant.until > now }

// steer puts in force what should rule now: the grant while it is valid, else
// the fallback. Tokens stay with the level that they belong to; a first grant
// starts with what the fallback has left.
func (s *share) steer(now Instant, hosts int) {
	if s.slots != nil {
		s.fit(now, hosts)
		return
	}
	s.disperse(now)
	s.settle(now)
	rules, rests := s.fallbackLevel(hosts), s.grantLevel(hosts)
	valid := s.valid(now)
	if valid {
		rules, rests = rests, rules
	}
	switch {
	case valid != s.granted:
		kept := s.spare.tokens
		before := s.bucket.replace(now, newPace(rules.limit, rules.burst), func(old float64) float64 {
			if math.IsInf(kept, 1) || old < 0 {
				return min(old, kept) // debt goes along: somebody waits for it
			}
			return kept
		})
		s.granted = valid
		s.spare.tokens = max(before, 0)
	case rules != s.applied:
		s.bucket.setPace(now, newPace(rules.limit, rules.burst))
	}
	s.applied = rules
	if fallen := s.remote && !s.granted; fallen != s.fallen.Load() {
		s.fallen.Store(fallen)
	}
	if s.auto != nil {
		s.auto.steer(hosts)
	}
	pass := uint64(passAll)
	if valid && s.grant.floor == rpc.FloorDrop {
		pass = uint64(min(s.grant.weight*(1<<64), 1<<64-1<<11))
	}
	if pass != s.pass.Load() {
		s.pass.Store(pass)
	}
	if s.grant.given {
		s.spare = spare{rests.limit, rests.burst, min(s.spare.tokens, rests.burst), now}
	}
}

// forget drops the grant, as when another algorithm takes over.
func (s *share) forget(now Instant, hosts int) {
	s.grant.until = now
	s.steer(now, hosts)
	s.grant = grant{}
	s.spare = unknown(now)
}

// unknown is the spare of a share that never had a grant.
func unknown(now Instant) spare {
	return spare{burst: math.Inf(1), tokens: math.Inf(1), at: now}
}

// idle tells whether nothing is lost by forgetting the share now.
func (s *share) idle(now Instant) bool {
	if _, stated := s.statement(); stated {
		return false
	}
	if s.auto != nil && s.auto.owed.Load() != 0 {
		return false
	}
	if s.wanting && s.mean > 0 {
		return false // the decider is to know that it wants nothing
	}
	if s.slots != nil {
		return s.slots.census().idle()
	}
	used := float64(s.allowed.Load() - s.settled)
	return s.bucket.idle(now) && (s.filled(now)-used >= s.spare.burst || s.spare.limit == 0)
}

// count reads the counters. Refunds, and tokens that were drawn and not used,
// may take them below what was reported.
func (s *share) count(now Instant) counts {
	s.disperse(now)
	return counts{s.allowed.Load(), s.rejected.Load(), now}
}

// total is the cost of all that was asked for.
func (c counts) total() int64 { return c.allowed + c.rejected }

// since is what was counted after c; never negative.
func (c counts) since(earlier counts) (allowed, rejected int64, elapsed time.Duration) {
	return max(c.allowed-earlier.allowed, 0), max(c.rejected-earlier.rejected, 0), c.at.Sub(earlier.at)
}
