// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

// eps is what sums of floats and the rounding of rates may differ by, in tokens.
const eps = 1e-3

var inf = math.Inf(1)

// bucketRef is a token bucket as in a textbook. Its limit may be infinite.
type bucketRef struct{ limit, burst, tokens float64 }

// full is a full bucketRef.
func full(limit, burst float64) bucketRef {
	b := bucketRef{limit: math.Inf(1)}
	b.set(limit, burst)
	return b
}

func (b *bucketRef) fill(seconds float64) {
	if !math.IsInf(b.limit, 1) {
		b.tokens = min(b.tokens+b.limit*seconds, b.burst)
	}
}

// set changes the level. Tokens stay, but what was unlimited is full.
func (b *bucketRef) set(limit, burst float64) {
	if math.IsInf(b.limit, 1) {
		b.tokens = inf
	}
	if b.limit, b.burst = limit, burst; math.IsInf(limit, 1) {
		b.burst, b.tokens = inf, inf
	}
	b.tokens = min(b.tokens, b.burst)
}

// add gives n tokens, or takes them if n is negative.
func (b *bucketRef) add(n float64) { b.tokens = min(b.tokens+n, b.burst) }

// charge takes n tokens, into a debt of at most a burst and so much more.
func (b *bucketRef) charge(n, more float64) {
	b.tokens = min(b.tokens, max(b.tokens-n, -b.burst-more))
}

// partRef is what a host holds of a key under an algorithm: what the fallback
// gives, and what the grant gives.
type partRef struct {
	fallback, grant bucketRef
	granted         bool // the grant is in force
	known           bool // there has been a grant
	taken           float64
	charged         float64 // of taken, until the last report: the inactive bucket counts the rest as of the next
	back            float64 // given back; the inactive bucket is not charged with as much
	notLent         float64 // the bucket in force may begin with as many tokens more, which an owner had not lent

	weight, grantBurst float64 // of the newest grant
	lease              time.Duration
}

func (p *partRef) inForce() *bucketRef {
	if p.granted {
		return &p.grant
	}
	return &p.fallback
}

func (p *partRef) inactive() *bucketRef {
	if p.granted {
		return &p.fallback
	}
	return &p.grant
}

func (p *partRef) fill(seconds float64) {
	p.fallback.fill(seconds)
	p.grant.fill(seconds)
}

// take takes n tokens. The inactive bucket goes into no debt by that.
func (p *partRef) take(n float64) {
	p.taken += n
	p.inForce().add(-n)
	back := min(p.back, n)
	p.back -= back
	p.inactive().tokens = max(p.inactive().tokens-(n-back), min(p.inactive().tokens, 0))
}

// charge is take for what is spent already.
func (p *partRef) charge(n float64, rule *dynamicconfig.Rule) {
	b := *p.inForce()
	p.take(n)
	if !math.IsInf(b.limit, 1) {
		before := b.tokens
		b.charge(n, b.limit*max(rule.MaxDebt, rule.MaxWait, 0).Seconds()+math.Floor(rule.Costliest()))
		*p.inForce() = b
		p.taken -= n - (before - b.tokens)
	}
}

// borrow gives n tokens that the owner has lent to the bucket in force, which becomes
// deeper if it cannot hold them, up to most.
func (p *partRef) borrow(n, most float64) {
	b := p.inForce()
	if held := max(b.tokens, 0) + n; held > b.burst {
		b.burst = min(held, most)
	}
	b.add(n)
}

// give gives back what was taken.
func (p *partRef) give(n float64) {
	p.taken -= n
	p.inForce().add(n)
	p.inactive().add(n)
	p.back += n
}

// limitTo caps both buckets. The inactive one does not go into debt.
func (p *partRef) limitTo(tokens float64) {
	p.inForce().tokens = min(p.inForce().tokens, tokens)
	p.inactive().tokens = min(p.inactive().tokens, max(tokens, 0))
}

// change has the other bucket decide. Debt goes along, and takes no longer to pay.
// A first grant begins with what the fallback has.
func (p *partRef) change() {
	before := p.inForce().tokens
	p.back = 0
	if !p.granted && !p.known {
		p.grant.tokens = min(before, p.grant.burst)
	}
	was := p.inForce().limit
	p.granted = !p.granted
	if now := p.inForce(); before < 0 && !math.IsInf(now.limit, 1) {
		if now.limit < was {
			before *= now.limit / was
		} else {
			p.inactive().tokens = 0
		}
		now.tokens = min(before, now.tokens)
	}
}

// follow is what there is of tokens after a change of rules. At a lower limit, a deep
// debt takes no longer to pay.
func follow(tokens float64, before, after *dynamicconfig.Rule) float64 {
	if tokens < -after.MostDebt() && 0 < after.Limit && after.Limit < before.Limit {
		return min(tokens*float64(after.Limit/before.Limit), -after.MostDebt())
	}
	return tokens
}

// decision is what a bucket answers.
type decision struct {
	reason      stage.Reason
	wait, retry float64 // seconds; retry is -1 where it is not checked
	unsure      bool    // rounding decides
	atMost      bool    // the bucket may have less than the reference
}

// decide decides about n tokens as the terms say. All times are in seconds.
func (b *bucketRef) decide(n, longest, debt float64) decision {
	if math.IsInf(b.limit, 1) {
		return decision{}
	}
	duration := func(tokens float64) float64 {
		switch {
		case tokens <= eps/2:
			return 0
		case b.limit == 0:
			return inf
		}
		return tokens / b.limit
	}
	if debt <= 0 {
		d := decision{wait: duration(n - b.tokens)}
		d.unsure = math.Abs(n-b.tokens-longest*b.limit) < 2*eps || math.IsInf(longest, 1) && math.Abs(n-b.burst) < eps
		switch {
		case n > b.burst:
			d.reason = stage.TooCostly
			d.unsure = n <= b.burst+eps || b.burst < 1
		case d.wait > longest || math.IsInf(d.wait, 1):
			d.reason, d.retry = stage.Limited, d.wait-longest
		}
		return d
	}
	owed := n - b.tokens
	d := decision{wait: duration(-b.tokens), retry: -1}
	if d.wait > longest || math.IsInf(d.wait, 1) || owed > debt*b.limit {
		d.reason = stage.Limited
	}
	slack := 2*eps + max(owed, 0)/32
	d.unsure = math.Abs(d.wait-longest)*b.limit < 2*eps || math.Abs(owed-debt*b.limit) < slack
	return d
}

// usageRef is what a key used, and what was reported about it.
type usageRef struct {
	used     int64 // all that was allowed and may be reported
	must     int64 // of that, what has to be reported
	refunded int64
	rows     map[rowAt]*rowRef
	chains   []*chainRef
	unsure   bool // what was reported is not known
}

// rowAt is where the period of a row begins or ends.
type rowAt struct {
	algorithm string
	at        stage.Instant
}

// chainRef is what one holder of a key's count has reported.
type chainRef struct {
	answered stage.Instant // the end of the newest row that was answered
	total    int64         // allowed until then
	newest   stage.Instant // the end of the newest row
}

// rowRef is a row that was reported: what its chain had allowed at its end.
type rowRef struct {
	chain *chainRef
	end   stage.Instant
	total int64
}

// report notes a row about the period from start to end. It continues the row
// that ended at start.
func (u *usageRef) report(algorithm string, start, end stage.Instant, allowed int64) *rowRef {
	before := u.rows[rowAt{algorithm, start}]
	if before == nil || before.chain.newest == end { // two that are retired may have begun at once
		before = &rowRef{chain: &chainRef{answered: math.MinInt64, newest: math.MinInt64}}
		u.chains = append(u.chains, before.chain)
		u.rows[rowAt{algorithm, start}] = before
	}
	before.chain.newest = end
	row := &rowRef{chain: before.chain, end: end, total: before.total + allowed}
	u.rows[rowAt{algorithm, end}] = row
	return row
}

// rename has what was counted under one algorithm be reported under another.
func (u *usageRef) rename(from, to string) {
	for at, row := range maps.Clone(u.rows) {
		if at.algorithm == from {
			u.rows[rowAt{to, at.at}] = row
		}
	}
}

// answer notes that a row was answered, and returns how much that adds to what
// is reported.
func (r *rowRef) answer() (n int64) {
	if r.end > r.chain.answered {
		n = r.total - r.chain.total
		r.chain.answered, r.chain.total = r.end, r.total
	}
	return n
}

// reported is what was reported and answered, each event once.
func (u *usageRef) reported() (n int64) {
	for _, c := range u.chains {
		n += c.total
	}
	return n
}

// remoteRef is a stage.Remote with one bucket per key, which fails as it is
// told to.
type remoteRef struct {
	fault   fault
	lends   float64 // of what a host can hold beside each take
	buckets map[string]*remoteBucket
	during  func() // runs once while a take is under way
	behind  bool   // what is asked is asked in the background
	wrong   string // what was asked against the contract
}

type remoteBucket struct {
	bucketRef
	at    stage.Instant
	takes int // tokens that were asked for, so often, beside ahead
	calls int
	last  stage.Outcome // of the last take
	lent  float64       // with it
	ahead int           // loans that were asked for beside no event, so often
	loan  float64       // the last of these
	net   float64       // what was charged and not returned
	seen  map[uint64]stage.Operation
}

// fault is how a remoteRef fails.
type fault uint8

const (
	works  fault = iota
	down         // nothing is done
	loses        // what is asked is done, and the answer is lost
	busy         // nothing is done, and the remote is well
	raves        // what is asked is done, and the answer makes no sense
	panics       // nothing is done
	faults
)

// Do implements stage.Remote.
func (r *remoteRef) Do(_ context.Context, op stage.Operation) (o stage.Outcome, err error) {
	b := r.bucket(op.Key)
	ahead := r.behind && op.Kind == stage.TakeTokens && op.N == 0 && op.More > 0
	if !ahead {
		b.calls++
	}
	switch {
	case ahead:
		b.ahead++
		b.loan = 0
	case op.Kind == stage.TakeTokens:
		b.takes++
		b.lent = 0
		if f := r.during; f != nil {
			r.during = nil
			f()
		}
	case op.More != 0:
		r.wrong = "it borrows beside what is no take"
	}
	switch r.fault {
	case down:
		return o, errors.New("down")
	case busy:
		return o, stage.ErrBusy
	case panics:
		panic("a defect of the remote")
	}
	now := stage.Now()
	b.fill(now.Sub(b.at).Seconds())
	b.at = now
	delete(b.seen, op.Forget)
	if op.Kind == stage.TakeTokens || math.IsInf(b.limit, 1) { // else what comes at once may come in any order
		b.set(float64(op.Rule.Limit), op.Rule.Burst)
	}
	if o = b.do(op); op.Kind == stage.TakeTokens {
		if o.OK && op.More >= 1 {
			o.Lent = r.lends * op.More
		}
		if lent := min(o.Lent, op.More); ahead {
			b.loan = lent
		} else {
			b.lent, b.last = lent, o
		}
		if op.ID != 0 {
			r.wrong = "a take has an ID"
		}
	} else if before, again := b.seen[op.ID]; op.ID == 0 || again && (before.Kind != op.Kind || before.N != op.N) {
		r.wrong = "an ID stands for two operations"
	} else if !again {
		b.seen[op.ID] = op
		switch op.Kind {
		case stage.ReturnTokens:
			op.N = -op.N
		case stage.FillTokens:
			b.burst = op.Rule.Burst
			b.tokens, op.N = max(b.tokens, b.burst), 0
		}
		b.net += op.N
		b.tokens -= op.N
		if o.Left = b.tokens; math.IsInf(o.Left, 0) {
			o.Left = op.Rule.Burst
		}
	}
	switch r.fault {
	case loses:
		return stage.Outcome{}, errors.New("timeout")
	case raves:
		return stage.Outcome{OK: true, Left: math.NaN()}, nil
	}
	return o, nil
}

// background runs f in the background.
func (r *remoteRef) background(f func()) {
	before := r.behind
	r.behind = true
	defer func() { r.behind = before }()
	f()
}

func (b *remoteBucket) do(op stage.Operation) stage.Outcome {
	if op.Kind != stage.TakeTokens {
		return stage.Outcome{OK: true, Left: b.tokens}
	}
	d := b.decide(op.N, op.Longest.Seconds(), max(op.Rule.MaxDebt, 0).Seconds())
	if d.reason != stage.Granted {
		return stage.Outcome{Left: b.tokens}
	}
	b.add(-op.N)
	return stage.Outcome{OK: true, Wait: seconds(d.wait), Left: b.tokens}
}

func (r *remoteRef) bucket(key string) *remoteBucket {
	b := r.buckets[key]
	if b == nil {
		b = &remoteBucket{bucketRef: full(inf, inf), at: stage.Now(), seen: make(map[uint64]stage.Operation)}
		r.buckets[key] = b
	}
	return b
}

// seconds is s as a Duration, rounded up.
func seconds(s float64) time.Duration { return time.Duration(math.Ceil(s * 1e9)) }
