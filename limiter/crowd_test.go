// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/rpc"
)

// crowded is a share whose processors are in each other's way, of a key of its
// own.
func crowded(limit rate.Limit, burst float64, processors int) (*share, *crowd) {
	rule := alone(limit, burst)
	s := newShare(0, "k", Even, &rule, 1, math.Inf(1))
	c := &crowd{pockets: make([]pocket, processors)}
	s.crowd.Store(c)
	return s, c
}

// One after another, whoever decides, whatever and whenever: the answers are
// those of one bucket.
func TestACrowdAnswersAsItsBucketWould(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 0))
		between := func(lo, hi float64) float64 { return lo * math.Pow(hi/lo, r.Float64()) }
		limit, burst := rate.Limit(between(10, 1e8)), math.Floor(between(300, 5000))
		s, c := crowded(limit, burst, 2+r.IntN(4))
		var one bucket
		one.init(newPace(limit, burst))
		now, allowed, unused := Instant(0), int64(0), func() {}
		count := func(what string, ok, want bool, n int) {
			if ok != want {
				t.Fatalf("seed %d at %d: %s says %v, one bucket %v", seed, now, what, ok, want)
			}
			if ok {
				allowed += int64(n)
			}
		}
		for range 40 {
			if s.crowd.Load() == nil {
				c = &crowd{pockets: make([]pocket, len(c.pockets))}
				s.crowd.Store(c)
			}
			some := int(between(2, burst/2))
			switch r.IntN(20) {
			case 0:
				s.count(now)
			case 1:
				_, want := one.reserve(now, int64(some), 0)
				count("AllowN", s.AllowAt(now, some), want, some)
			case 2:
				wait, want := one.reserve(now, int64(some), time.Second)
				got := s.ReserveAt(now, some, time.Second)
				count("ReserveN", got.OK(), want, some)
				if want && got.DelayFrom(now.Time()) != wait {
					t.Fatalf("seed %d: a wait of %v, one bucket says %v", seed, got.DelayFrom(now.Time()), wait)
				}
			case 3:
				s.ChargeAt(now, some/8)
				one.add(now, -float64(some/8))
				allowed += int64(some / 8)
			case 4:
				s.CapAt(now, burst-float64(some/8))
				one.cap(now, burst-float64(some/8))
			case 5:
				want := one.decide(now, int64(some), 0, 0)
				if got := s.decide(now, some, 0); got != want {
					t.Fatalf("seed %d: decided %+v, one bucket says %+v", seed, got, want)
				}
				count("Decide", want.ok(), want.ok(), some)
			case 6:
				taken, r := now, s.ReserveAt(now, some, 0)
				_, want := one.reserve(now, int64(some), 0)
				count("TryN", r.OK(), want, some)
				if want {
					unused = func() {
						r.Used(false)
						one.add(taken, float64(some))
						allowed -= int64(some)
					}
				}
			case 7:
				unused()
				unused = func() {}
			case 8, 9: // from one token to twice the burst
				now = now.Add(time.Duration(between(1, 2*burst) / float64(limit) * 1e9))
			case 10, 11: // until it is about full
				few := handful * float64(len(c.pockets)) * (2*r.Float64() - 1)
				now = now.Add(time.Duration(max(burst-one.tokens(now)-few, 0) / float64(limit) * 1e9))
			default:
				p := &c.pockets[r.IntN(len(c.pockets))]
				for range some {
					ok, known := s.allowFrom(p, c, now)
					if !known {
						ok = s.AllowAt(now, 1)
					}
					count("Allow", ok, one.allow(now), 1)
					if s.crowd.Load() == nil {
						break
					}
				}
			}
			for i := range c.pockets {
				if n := c.pockets[i].tokens.Load(); n < 0 || n > handful {
					t.Fatalf("seed %d: %d tokens in a pocket", seed, n)
				}
			}
			if got, want := s.Level(now).Tokens, one.tokens(now); math.Abs(got-want) > 1e-6 {
				t.Fatalf("seed %d: %v tokens left, want %v", seed, got, want)
			}
		}
		if got := s.count(now).allowed; got != allowed {
			t.Fatalf("seed %d: %d allowed, counted %d", seed, allowed, got)
		}
	}
}

// What happens at one moment is exact: each token is given once, and each
// event is counted once, whatever else goes on meanwhile.
func TestACrowdGivesEachTokenOnce(t *testing.T) {
	const burst, workers, events = 100_000, 8, 20_000
	s, _ := crowded(1, burst, runtime.GOMAXPROCS(0))
	var allowed, rejected atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			n := 0
			for range events {
				if s.AllowAt(0, 1) {
					n++
				}
			}
			allowed.Add(int64(n))
			rejected.Add(int64(events - n))
		})
	}
	for done := false; !done; {
		s.gather()
		s.count(0)
		s.bucket.setPace(0, newPace(1, burst))
		s.gather()
		s.Level(0)
		done = allowed.Load()+rejected.Load() == workers*events
		runtime.Gosched()
	}
	wg.Wait()
	c, left := s.count(0), s.Level(0).Tokens
	if got := allowed.Load(); got+int64(left) != burst {
		t.Errorf("%d allowed and %v tokens left, of %d", got, left, burst)
	}
	if c.allowed != allowed.Load() || c.rejected != rejected.Load() {
		t.Errorf("counted %+v, want %d and %d", c, allowed.Load(), rejected.Load())
	}
}

func TestACrowdNeverExceedsLimitTimesTimePlusBurst(t *testing.T) {
	for _, limit := range []rate.Limit{1000, 7_654_321, 900_000_000} {
		const burst = 5000
		s, _ := crowded(limit, burst, runtime.GOMAXPROCS(0))
		inParallel(t, limit, burst, 97, func(now Instant) bool {
			s.gather()
			return s.AllowAt(now, 1)
		}, func(Instant) {})
	}
}

// Processors that decide about one key at once form a crowd, whatever the
// answers.
func TestCrowdsForm(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("one processor is no crowd")
	}
	for name, rule := range map[string]dynamicconfig.Rule{"allowed": alone(1e9, 1e9), "refused": alone(1e-9, 1)} {
		s := newShare(0, "k", Even, &rule, 1, math.Inf(1))
		s.AllowAt(0, 1)
		var stop atomic.Bool
		var asked atomic.Int64
		var wg sync.WaitGroup
		for range runtime.GOMAXPROCS(0) {
			wg.Go(func() {
				n := int64(0)
				for ; !stop.Load(); n++ {
					s.AllowAt(Now(), 1)
				}
				asked.Add(n)
			})
		}
		waittest.Until(t, "a crowd of what is "+name, func() bool { return s.crowd.Load() != nil })
		stop.Store(true)
		wg.Wait()
		if n := s.count(Now()).total(); s.crowd.Load() != nil || n != asked.Load()+1 {
			t.Errorf("%s: %d asked for, %d counted", name, asked.Load()+1, n)
		}
	}
}

// Who drew while the crowd dispersed puts back what it drew.
func TestNothingStaysInThePocketsOfACrowdThatHasDispersed(t *testing.T) {
	s, c := crowded(1, 10_000, 2)
	take(s, 0, 1000) // for a bucket that brims nobody draws
	s.disperse(0)
	if ok, _ := s.allowFrom(&c.pockets[1], c, 0); !ok {
		t.Fatal("nothing was drawn")
	}
	if got := c.pockets[1].tokens.Load(); got != 0 {
		t.Errorf("%d tokens in a pocket that nobody looks into", got)
	}
	if got := s.Level(0).Tokens; got != 10_000-1001 || s.count(0).allowed != 1001 {
		t.Errorf("%v tokens left, %d allowed", got, s.count(0).allowed)
	}
}

// Whatever rules from now on, pockets give nothing of what ruled before.
func TestACrowdDispersesWhenWhatRulesChanges(t *testing.T) {
	stock := func(t *testing.T, s *share, now Instant) {
		t.Helper()
		take(s, now, 1000)
		c := &crowd{pockets: make([]pocket, 2)}
		s.crowd.Store(c)
		if s.allowFrom(&c.pockets[0], c, now); s.pocketed() == 0 {
			t.Fatalf("nothing was drawn of %+v", s.Level(now))
		}
	}
	stocked := func(t *testing.T) (*Group, *share) {
		t.Helper()
		rule := weighted(10_000)
		rule.Fallback = dynamicconfig.FallbackClosed
		g := NewGroup(snapshot(t, rule), 1, WithEager(rule.Algorithm))
		g.For("k").AllowAt(0, 1)
		s := g.For("k").step(0).(*share)
		for _, b := range g.Report(1) {
			if err := g.Apply(1, b, nil, &rpc.Grants{Weight: []float64{1}, Burst: []float64{10_000}, Used: []float64{0}, Lease: []time.Duration{time.Second}, Tokens: []float64{10_000}}); err != nil {
				t.Fatal(err)
			}
		}
		stock(t, s, 0)
		return g, s
	}
	t.Run("the grant ends", func(t *testing.T) {
		g, s := stocked(t)
		g.Report(2 * second)
		if s.AllowAt(2*second, 1) || s.pocketed() != 0 {
			t.Errorf("the fallback is closed, and a pocket has %d tokens", s.pocketed())
		}
	})
	t.Run("the grant is forgotten", func(t *testing.T) {
		_, s := stocked(t)
		if s.forget(1, 1); s.pocketed() != 0 {
			t.Errorf("a pocket has %d tokens of a grant that is forgotten", s.pocketed())
		}
	})
	t.Run("a grant takes tokens back", func(t *testing.T) {
		g, s := stocked(t)
		for _, b := range g.Report(second * 9 / 10) {
			stock(t, s, second*9/10)
			if err := g.Apply(second*9/10, b, nil, &rpc.Grants{Weight: []float64{1}, Burst: []float64{10_000}, Used: []float64{0}, Lease: []time.Duration{time.Second}, Tokens: []float64{0}}); err != nil {
				t.Fatal(err)
			}
		}
		if s.pocketed() != 0 || s.AllowAt(second*9/10, 1) {
			t.Errorf("nothing is left, and a pocket has %d tokens", s.pocketed())
		}
	})
}

// A key that runs low asks for more, whoever draws the tokens.
func TestACrowdThatRunsLowAsks(t *testing.T) {
	g := NewGroup(snapshot(t, weighted(10_000)), 1, WithEager("request-weighted"))
	s := g.For("k").step(0).(*share)
	take(s, 0, 1000)
	s.low.Store(s.bucket.quanta(9500))
	c := &crowd{pockets: make([]pocket, 2)}
	s.crowd.Store(c)
	before := g.NextEarly()
	if ok, _ := s.allowFrom(&c.pockets[0], c, second/100); !ok || g.NextEarly() >= before {
		t.Errorf("early report at %v, before the draw at %v", g.NextEarly(), before)
	}
}

// So does one that has run dry, whoever is refused.
func TestACrowdThatIsDryAsks(t *testing.T) {
	g := NewGroup(snapshot(t, weighted(10_000)), 1, WithEager("request-weighted"))
	s := g.For("k").step(0).(*share)
	s.low.Store(neverLow)
	take(s, 0, 10_000)
	s.low.Store(1)
	c := &crowd{pockets: make([]pocket, 2)}
	s.crowd.Store(c)
	before := g.NextEarly()
	if ok, known := s.allowFrom(&c.pockets[0], c, 1); ok || !known || g.NextEarly() >= before {
		t.Errorf("early report at %v, before the rejection at %v", g.NextEarly(), before)
	}
}

// A decision that reads half of a pace and half of the next begins again.
func TestAChangeOfPaceRefusesNobody(t *testing.T) {
	rule := alone(1e9, 1e9)
	s := newShare(0, "k", Even, &rule, 1, math.Inf(1))
	var stop atomic.Bool
	var refused atomic.Int64
	var wg sync.WaitGroup
	for range max(2, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for !stop.Load() {
				if !s.AllowAt(second, 1) {
					refused.Add(1)
				}
			}
		})
	}
	paces := []pace{newPace(1e9, 1e7), newPace(1, 1e7), newPace(1e5, 1e7)} // not two: a place would keep its own
	for i := range 300_000 {
		now := second + Instant(i)
		s.disperse(now)
		s.bucket.replace(now, paces[i%len(paces)], func(float64) float64 { return 1e7 })
	}
	stop.Store(true)
	wg.Wait()
	if n := refused.Load(); n > 0 {
		t.Errorf("%d refused, though there always were tokens", n)
	}
}

// Who caps while somebody counts hides nothing that is over.
func TestACapMovesNoCounts(t *testing.T) {
	rule := alone(1e-9, 1)
	s := newShare(0, "k", Even, &rule, 1, math.Inf(1))
	s.AllowAt(0, 1)
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() {
			s.CapAt(0, 0)
		}
	})
	for i := range int64(20_000) {
		s.crowd.CompareAndSwap(nil, &crowd{pockets: make([]pocket, 2)})
		s.AllowAt(0, 1)
		if got := s.count(0).total(); got != i+2 {
			t.Errorf("%d counted of %d", got, i+2)
			break
		}
	}
	stop.Store(true)
	wg.Wait()
}

// Who drew while somebody capped puts back what it drew.
func TestACapEmptiesPocketsForGood(t *testing.T) {
	s, c := crowded(1, 10_000, 2)
	take(s, 0, 1000)
	if ok, _ := s.allowFrom(&c.pockets[0], c, 0); !ok || s.pocketed() == 0 {
		t.Fatal("nothing was drawn")
	}
	s.CapAt(0, 5)
	if got := s.Level(0).Tokens; got != 5 || s.pocketed() != 0 || s.crowd.Load() != c {
		t.Errorf("%v tokens left, %d of them in pockets", got, s.pocketed())
	}
	for range 6 {
		s.AllowAt(0, 1)
	}
	if n := s.count(0); n.allowed != 1006 || n.rejected != 1 {
		t.Errorf("counted %+v", n)
	}
}
