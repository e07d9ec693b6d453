// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
)

// Each limiter with the methods of a *rate.Limiter decides as one does: random calls to both give the
// same answers, delays, waits and tokens. The test leaves out the differences that docs/embedding.md
// lists: costs below 0, earlier times, and waits that never end.
func TestEachLimiterDecidesAsARateLimiterDoes(t *testing.T) {
	for name, open := range likeRate {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(400) {
				synctest.Test(t, func(t *testing.T) {
					s := &rateSequence{rand: rand.New(rand.NewPCG(seed, 7)), name: name}
					s.run(open)
					if s.failed != "" {
						t.Fatalf("seed %d: %s\n%s", seed, s.failed, strings.Join(s.log, "\n"))
					}
				})
			}
		})
	}
}

// settable is a Limiter, and what changes its limit.
type settable struct {
	*limiter.Limiter
	setLimit func(rate.Limit)
	setBurst func(int)
}

var likeRate = map[string]func(limit rate.Limit, burst int) settable{
	"NewBucket": func(limit rate.Limit, burst int) settable {
		b := limiter.NewBucket(limit, burst)
		return settable{b.Limiter(), b.SetLimit, b.SetBurst}
	},
	"FromRate": func(limit rate.Limit, burst int) settable {
		l := rate.NewLimiter(limit, burst)
		return settable{limiter.FromRate(l), l.SetLimit, l.SetBurst}
	},
	"Group": func(limit rate.Limit, burst int) settable {
		snapshot := func() *dynamicconfig.Snapshot {
			r := dynamicconfig.Rule{Key: "k", Limit: limit, Algorithm: "even", Burst: float64(burst)}
			s, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{r}}.Snapshot()
			if err != nil {
				panic(err)
			}
			return s
		}
		g := limiter.NewGroup(snapshot(), 1)
		set := func() { g.Configure(snapshot()) }
		return settable{
			g.For("k"),
			func(l rate.Limit) { limit = l; set() },
			func(b int) { burst = b; set() },
		}
	},
}

// rateSequence is one sequence of calls.
type rateSequence struct {
	rand   *rand.Rand
	name   string
	ours   settable
	theirs *rate.Limiter
	limit  rate.Limit
	burst  int
	held   []*bothReserved
	drift  float64 // of the tokens: each change of rate, and each cancel, rounds

	log    []string
	failed string
	ended  bool // because rounding decides, or because the two differ as documented
}

// bothReserved is one reservation at both limiters.
type bothReserved struct {
	ours      *limiter.Reservation
	theirs    *rate.Reservation
	n         int
	acts      time.Time
	canceled  bool
	disturbed bool // by a cancel or another limit: x/time/rate may give back too much or too little
}

func (s *rateSequence) note(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

func (s *rateSequence) fail(format string, args ...any) {
	if s.failed == "" && !s.ended {
		s.failed = fmt.Sprintf(format, args...)
	}
}

func (s *rateSequence) run(open func(rate.Limit, int) settable) {
	s.limit, s.burst = s.drawLimit(), s.drawBurst()
	s.ours, s.theirs = open(s.limit, s.burst), rate.NewLimiter(s.limit, s.burst)
	s.note("limit %v burst %d", s.limit, s.burst)
	for range 40 {
		if s.compare(); s.failed != "" || s.ended {
			return
		}
		switch s.rand.IntN(13) {
		case 0, 1:
			d := draw(s.rand, s.unit()/8, s.unit()/2, s.unit(), 3*s.unit(), 100*s.unit(), time.Hour, 1)
			s.note("sleep %v", d)
			time.Sleep(d)
		case 2, 3:
			s.allow(s.drawCost())
		case 4, 5, 6:
			s.reserve(s.drawCost())
		case 7, 8:
			s.cancel()
		case 9:
			if s.rand.IntN(3) == 0 {
				s.set(s.drawLimit(), s.burst)
			}
		case 10:
			if s.rand.IntN(3) == 0 {
				s.set(s.limit, s.drawBurst())
			}
		default:
			s.wait(s.drawCost())
		}
	}
}

func draw[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func (s *rateSequence) drawLimit() rate.Limit {
	if s.name == "Group" { // a rule has a limit, and no burst if that is 0
		return draw[rate.Limit](s.rand, 0.5, 1, 2, 4, 8, 10, 100, 1000, 1e6)
	}
	return draw[rate.Limit](s.rand, 0, 0.5, 1, 2, 4, 10, 100, 1000, 1e6, rate.Inf)
}

func (s *rateSequence) drawBurst() int {
	if s.name == "Group" {
		return draw(s.rand, 1, 2, 3, 5, 10, 100, 1000)
	}
	return draw(s.rand, 0, 1, 2, 3, 5, 10, 100, 1000)
}

func (s *rateSequence) drawCost() int {
	switch s.rand.IntN(12) {
	case 0:
		return 0
	case 1:
		return s.burst
	case 2:
		return s.burst + 1
	case 3:
		return draw(s.rand, math.MaxInt, math.MaxInt-1, math.MaxInt32)
	}
	return 1 + s.rand.IntN(max(s.burst, 1))
}

// unit is about how long a token takes.
func (s *rateSequence) unit() time.Duration {
	return time.Duration(float64(time.Second) / max(min(float64(s.limit), 1e6), 0.5))
}

// close is how far the tokens of the two may be apart.
func (s *rateSequence) close() float64 {
	return 1e-5 + s.drift + min(float64(s.limit), 1e6)*5e-9
}

// near is close as a time.
func (s *rateSequence) near() time.Duration {
	return 20 + time.Duration(1e9*s.close()/max(float64(s.limit), 1e-3))
}

// decided reports whether rounding cannot change how n tokens are decided about.
func (s *rateSequence) decided(n int) bool {
	tokens := s.theirs.Tokens()
	return math.Abs(tokens-float64(n)) > s.close() && (n > 0 || math.Abs(tokens) > s.close())
}

func (s *rateSequence) compare() {
	a, b := s.ours.Tokens(), s.theirs.Tokens()
	if s.ours.Limit() != s.theirs.Limit() || s.ours.Burst() != s.theirs.Burst() {
		s.fail("limit %v and burst %d, want %v and %d", s.ours.Limit(), s.ours.Burst(), s.theirs.Limit(), s.theirs.Burst())
	}
	if s.limit < rate.Inf && math.Abs(a-b) > s.close() {
		s.fail("%v tokens, want %v", a, b)
	}
}

func (s *rateSequence) allow(n int) {
	decided := s.decided(n)
	a, b := s.ours.AllowN(time.Now(), n), s.theirs.AllowN(time.Now(), n)
	s.note("AllowN(%d) = %v, %v", n, a, b)
	if s.ended = a != b && !decided; a != b {
		s.fail("AllowN(%d) = %v, want %v", n, a, b)
	}
}

func (s *rateSequence) reserve(n int) {
	now, decided := time.Now(), s.decided(n)
	r := &bothReserved{ours: s.ours.ReserveN(now, n), theirs: s.theirs.ReserveN(now, n), n: n}
	a, b := r.ours.DelayFrom(now), r.theirs.DelayFrom(now)
	s.note("ReserveN(%d) = %v after %v, %v after %v", n, r.ours.OK(), a, r.theirs.OK(), b)
	if s.ended = s.limit == 0 && (b == rate.InfDuration && r.theirs.OK() || !decided); s.ended {
		return // ours is not OK: it could never act
	}
	if r.ours.OK() != r.theirs.OK() || (a-b).Abs() > s.near() {
		s.fail("ReserveN(%d) = %v after %v, want %v after %v", n, r.ours.OK(), a, r.theirs.OK(), b)
	}
	if r.ours.OK() {
		r.acts = now.Add(b)
		s.held = append(s.held, r)
	}
}

func (s *rateSequence) cancel() {
	if len(s.held) == 0 {
		return
	}
	r := draw(s.rand, s.held...)
	if time.Until(r.acts).Abs() < s.near() || s.name == "FromRate" && s.burst < 10 {
		return // FromRate takes what x/time/rate gives back too much in parts of a burst, and not in thousands
	}
	a, b := s.ours.Tokens(), s.theirs.Tokens()
	r.ours.Cancel()
	r.theirs.Cancel()
	a, b = s.ours.Tokens()-a, s.theirs.Tokens()-b
	s.note("Cancel of %d that acts in %v, canceled before: %t: %v tokens back, %v", r.n, time.Until(r.acts), r.canceled, a, b)
	switch {
	case s.limit == rate.Inf:
	case r.canceled && math.Abs(a) > s.close():
		s.fail("a second Cancel gives %v back", a)
	case a < -s.close() || a > float64(r.n)+s.close():
		s.fail("Cancel gives %v back of %d", a, r.n)
	case !r.canceled && !r.disturbed && (a <= b-1 || a > b+s.close()): // whole tokens
		s.fail("Cancel gives %v back, want %v", a, b)
	}
	r.canceled = true
	s.disturb()
	s.level()
}

// disturb says that x/time/rate may give back too much, or too little, of what it has reserved until now.
func (s *rateSequence) disturb() {
	for _, r := range s.held {
		r.disturbed = true
	}
	s.drift += 1e-6 + min(float64(s.limit), 1e6)*5e-9
}

// level gives theirs as many tokens as ours has.
func (s *rateSequence) level() {
	more := s.theirs.Tokens() - s.ours.Tokens()
	n := int(math.Round(more))
	if s.limit == rate.Inf {
		return
	}
	if s.ended = math.Abs(more-float64(n)) > s.close() || n > 0 && s.burst == 0; s.ended {
		return // a part of a token
	}
	for n != 0 {
		part := min(n, s.burst) // below 0, it adds tokens
		s.theirs.ReserveN(time.Now(), part)
		n -= part
	}
}

func (s *rateSequence) set(limit rate.Limit, burst int) {
	if s.ended = s.name == "Group" && s.ours.Tokens() < -float64(2*s.burst); s.ended {
		return // a debt so deep becomes less
	}
	s.disturb()
	if s.note("limit %v burst %d", limit, burst); limit != s.limit {
		s.ours.setLimit(limit)
		s.theirs.SetLimit(limit)
	} else {
		s.ours.setBurst(burst)
		s.theirs.SetBurst(burst)
	}
	s.limit, s.burst = limit, burst
	time.Sleep(time.Nanosecond) // without a limit, x/time/rate is full only after some time
}

func (s *rateSequence) wait(n int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	d := draw(s.rand, 0, s.unit()/3, s.unit()*5/3, 100*s.unit())
	switch how := s.rand.IntN(4); how {
	case 0:
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
		s.note("a deadline in %v", d)
	case 1:
		if d > 0 {
			time.AfterFunc(d, cancel)
		} else {
			cancel()
		}
		s.note("a cancel in %v", d)
	default:
		if d = math.MaxInt64; s.limit == 0 {
			return // x/time/rate waits for ever
		}
	}
	began, decided := time.Now(), s.decided(n)
	needs := time.Duration((float64(n) - s.theirs.Tokens()) / float64(s.limit) * 1e9)
	type result struct {
		err error
		at  time.Duration
	}
	var results [2]chan result
	for i, wait := range []func(context.Context, int) error{s.ours.WaitN, s.theirs.WaitN} {
		results[i] = make(chan result, 1)
		go func() { err := wait(ctx, n); results[i] <- result{err, time.Since(began)} }()
	}
	a, b := <-results[0], <-results[1]
	s.note("WaitN(%d): %v after %v, %v after %v", n, a.err, a.at, b.err, b.at)
	if (a.err == nil) != (b.err == nil) || (a.at-b.at).Abs() > s.near() {
		s.ended = !decided || (needs-d).Abs() < s.near() || s.limit == 0 && b.at > 0 && errors.Is(a.err, limiter.ErrNever)
		s.fail("WaitN(%d): %v after %v, want %v after %v", n, a.err, a.at, b.err, b.at)
	}
	if s.disturb(); a.err != nil && b.err != nil {
		s.level() // they may give back different parts
	}
}
