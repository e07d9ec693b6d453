// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
)

const second = limiter.Instant(time.Second)

const (
	disabled     = dynamicconfig.ModeDisabled
	old          = dynamicconfig.ModeOld
	oldShadowNew = dynamicconfig.ModeOldShadowNew
	newShadowOld = dynamicconfig.ModeNewShadowOld
	onlyNew      = dynamicconfig.ModeNew
)

var modes = []dynamicconfig.Mode{disabled, old, oldShadowNew, newShadowOld, onlyNew}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// spy is a Stepper that remembers what it was asked and how it answered.
type spy struct {
	limiter.Stepper
	asked, charged, rejected int
	last                     bool
	capped                   func()
}

// bucket is a spy on a Bucket that does not refill unless limit says so.
func bucket(limit rate.Limit, burst int) *spy { return &spy{Stepper: limiter.NewBucket(limit, burst)} }

func (s *spy) AllowAt(now limiter.Instant, n int) bool {
	return s.answered(n, s.Stepper.AllowAt(now, n))
}

func (s *spy) ReserveAt(now limiter.Instant, n int, longest time.Duration) limiter.Reservation {
	r := s.Stepper.ReserveAt(now, n, longest)
	s.answered(n, r.OK())
	return r
}

func (s *spy) ChargeAt(now limiter.Instant, n int) {
	s.charged += n
	s.Stepper.ChargeAt(now, n)
}

func (s *spy) CapAt(now limiter.Instant, tokens float64) {
	if s.capped != nil {
		s.capped()
	}
	s.Stepper.CapAt(now, tokens)
}

func (s *spy) answered(n int, ok bool) bool {
	s.asked, s.last = s.asked+n, ok
	if !ok {
		s.rejected += n
	}
	return ok
}

func (s *spy) tokens(now limiter.Instant) float64 { return s.Level(now).Tokens }

func TestModes(t *testing.T) {
	for _, tt := range []struct {
		mode             dynamicconfig.Mode
		allowed          int // of ten; the old one has 3 and the new one 5
		oldAsks, newAsks int
		counts           Counts
		level            float64 // burst
	}{
		{disabled, 10, 0, 0, Counts{}, math.Inf(1)},
		{old, 3, 10, 0, Counts{}, 3},
		{oldShadowNew, 3, 10, 10, Counts{Both: 3, OnlyNew: 2, Neither: 5}, 3},
		{newShadowOld, 5, 10, 10, Counts{Both: 3, OnlyNew: 2, Neither: 5}, 5},
		{onlyNew, 5, 0, 10, Counts{}, 5},
		{99, 10, 0, 0, Counts{}, math.Inf(1)}, // no such mode: disabled
	} {
		for name, l := range map[string]func(o, n *spy) *Limiter{
			"from the start": func(o, n *spy) *Limiter { return FromSteps(o, n, tt.mode) },
			"set later": func(o, n *spy) *Limiter {
				l := FromSteps(o, n, disabled)
				l.SetMode(0, tt.mode)
				return l
			},
		} {
			o, n := bucket(0, 3), bucket(0, 5)
			l := l(o, n)
			got := 0
			for range 10 {
				if l.AllowAt(0, 1) {
					got++
				}
			}
			if got != tt.allowed || o.asked != tt.oldAsks || n.asked != tt.newAsks {
				t.Errorf("%v %s: allowed %d, asked old %d, new %d", tt.mode, name, got, o.asked, n.asked)
			}
			if c := l.Counts(); c != tt.counts {
				t.Errorf("%v %s: %+v, want %+v", tt.mode, name, c, tt.counts)
			}
			if burst := l.Level(0).Burst; burst != tt.level {
				t.Errorf("%v %s: burst %v, want %v", tt.mode, name, burst, tt.level)
			}
			if l.AllowAt(0, -1) {
				t.Errorf("%v %s: a negative cost is allowed", tt.mode, name)
			}
			if c := l.Counts(); c != tt.counts {
				t.Errorf("%v %s: a negative cost counts: %+v", tt.mode, name, c)
			}
			if want := map[bool]dynamicconfig.Mode{true: disabled, false: tt.mode}[tt.mode > onlyNew]; l.Mode() != want {
				t.Errorf("%v %s: mode is %v", tt.mode, name, l.Mode())
			}
		}
	}
}

func TestCountsTellWhoAllowed(t *testing.T) {
	for _, mode := range []dynamicconfig.Mode{oldShadowNew, newShadowOld} {
		l := FromSteps(bucket(0, 10), bucket(0, 7), mode)
		for _, n := range []int{6, 4, 1, 5, 0} {
			l.AllowAt(0, n) // 6 both, 4 only old, 1 only new, 5 neither
		}
		if c, want := l.Counts(), (Counts{Both: 6, OnlyOld: 4, OnlyNew: 1, Neither: 5}); c != want {
			t.Errorf("%v: %+v, want %+v", mode, c, want)
		}
	}
}

func TestChargesAndCapsGoToBoth(t *testing.T) {
	for _, tt := range []struct {
		mode             dynamicconfig.Mode
		oldPays, newPays int
	}{{disabled, 0, 0}, {old, 7, 0}, {oldShadowNew, 7, 7}, {newShadowOld, 7, 7}, {onlyNew, 0, 7}} {
		o, n := bucket(0, 5), bucket(0, 5)
		l := FromSteps(o, n, tt.mode)
		l.ChargeAt(0, 7)
		if o.charged != tt.oldPays || n.charged != tt.newPays {
			t.Errorf("%v: a charge of 7 cost the old %d, the new %d", tt.mode, o.charged, n.charged)
		}
		l.CapAt(0, 2)
		if !near(o.tokens(0), min(2, 5-float64(tt.oldPays))) || !near(n.tokens(0), min(2, 5-float64(tt.newPays))) {
			t.Errorf("%v: capped at 2: %v and %v", tt.mode, o.tokens(0), n.tokens(0))
		}
	}
}

// Whenever the mode changes, whoever answers has no more tokens than who did:
// all that is ever allowed is the first one's burst and what flowed into the
// one that answered.
func TestSwitchingGivesNoSecondBurst(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		limits := map[bool]float64{true: float64(rapid.IntRange(0, 100).Draw(r, "old limit")), false: float64(rapid.IntRange(0, 100).Draw(r, "new limit"))}
		o := bucket(rate.Limit(limits[true]), rapid.IntRange(0, 50).Draw(r, "old burst"))
		n := bucket(rate.Limit(limits[false]), rapid.IntRange(0, 50).Draw(r, "new burst"))
		mode := rapid.SampledFrom(modes[1:]).Draw(r, "mode")
		now := limiter.Instant(rapid.Int64Range(-1e18, 1e18).Draw(r, "start"))
		l := FromSteps(o, n, mode)
		most := l.Level(now).Burst
		allowed := 0
		var want Counts
		for range rapid.IntRange(1, 200).Draw(r, "steps") {
			pause := limiter.Instant(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 1e8), rapid.Int64Range(0, 3e9)).Draw(r, "pause"))
			now += pause
			most += limits[mode == old || mode == oldShadowNew] * time.Duration(pause).Seconds()
			if rapid.IntRange(0, 3).Draw(r, "what") == 0 {
				mode = rapid.SampledFrom(modes[1:]).Draw(r, "mode")
				l.SetMode(now, mode)
			}
			cost := rapid.SampledFrom([]int{1, 1, 1, 0, 2, 7, 60}).Draw(r, "cost")
			asked := [2]int{o.asked, n.asked}
			if got := l.AllowAt(now, cost); got {
				allowed += cost
			}
			switch mode {
			case old:
				asked[0] += cost
			case onlyNew:
				asked[1] += cost
			default:
				want.count(o.last, n.last, int64(cost))
				asked[0], asked[1] = asked[0]+cost, asked[1]+cost
			}
			if asked != [2]int{o.asked, n.asked} {
				r.Fatalf("%v: asked for %v so far, want %v", mode, [2]int{o.asked, n.asked}, asked)
			}
			if float64(allowed) > most+1e-6 {
				r.Fatalf("allowed %d, and there was only %v", allowed, most)
			}
			if c := l.Counts(); c != want {
				r.Fatalf("counts %+v, want %+v", c, want)
			}
		}
	})
}

// count is what a pair of answers does to c.
func (c *Counts) count(old, new bool, n int64) {
	switch {
	case old && new:
		c.Both += n
	case old:
		c.OnlyOld += n
	case new:
		c.OnlyNew += n
	default:
		c.Neither += n
	}
}

// The one that begins to answer is made poorer before anybody can ask it, and
// again for what was taken from the other meanwhile.
func TestTokensAreLoweredBeforeAndAfterTheSwitch(t *testing.T) {
	o, n := bucket(0, 5), bucket(0, 5)
	l := FromSteps(o, n, old)
	var seen []dynamicconfig.Mode
	n.capped = func() {
		seen = append(seen, l.Mode())
		if len(seen) == 1 {
			l.AllowAt(0, 2)
		}
	}
	l.SetMode(0, onlyNew)
	if !slices.Equal(seen, []dynamicconfig.Mode{old, onlyNew}) || !near(n.tokens(0), 3) {
		t.Errorf("lowered in the modes %v, to %v tokens; want old and new, to 3", seen, n.tokens(0))
	}
}

func TestSwitchingDoesNotStarve(t *testing.T) {
	l := New(limiter.NewBucket(100, 10), limiter.NewBucket(100, 10), old)
	allowed := 0
	for i := range 10_000 { // ms
		now := limiter.Instant(i) * second / 1000
		l.SetMode(now, modes[1+i%4])
		if l.AllowAt(now, 1) {
			allowed++
		}
	}
	if allowed < 1000 || allowed > 1010 {
		t.Errorf("allowed %d in 10 s of 100/s", allowed)
	}
}

func TestSwitchingWhileManyCall(t *testing.T) {
	const burst, callers, switches = 20_000, 4, 200
	o, n := limiter.NewBucket(0, burst), limiter.NewBucket(0, burst) // without time
	l := New(o, n, old)
	var allowed [callers]int
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for range burst {
				if l.Allow() {
					allowed[i]++
				}
				if r := l.Try(); r.OK() {
					r.Used(true)
					allowed[i]++
				}
			}
		})
	}
	for i := range switches {
		l.SetMode(limiter.Now(), modes[1+i%4])
		l.Counts()
	}
	wg.Wait()
	total := 0
	for _, n := range allowed {
		total += n
	}
	// The last to answer may have been left with less than there was.
	if total > burst+switches*callers || total < burst-switches*callers {
		t.Errorf("allowed %d of %d", total, burst)
	}
	c := l.Counts()
	if sum := c.Both + c.OnlyOld + c.OnlyNew + c.Neither; sum > 2*callers*burst {
		t.Errorf("counted %d of %d", sum, 2*callers*burst)
	}
}

func TestEveryCallIsCountedOnce(t *testing.T) {
	l := New(limiter.NewBucket(0, 1000), limiter.NewBucket(0, 3000), oldShadowNew)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				l.Allow()
				l.SetMode(limiter.Now(), oldShadowNew) // changes nothing
			}
		})
	}
	wg.Wait()
	c := l.Counts()
	if c.Both+c.OnlyOld != 1000 || c.Both+c.OnlyNew != 3000 || c.Both+c.OnlyOld+c.OnlyNew+c.Neither != 4000 {
		t.Errorf("%+v of 4000; the old had 1000 and the new 3000", c)
	}
}
