// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/waittest"
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
	rapid.Check(t, func(t *rapid.T) {
		limit := rate.Limit(math.Pow(10, rapid.Float64Range(0, 8).Draw(t, "log10 limit")))
		burst := math.Floor(math.Pow(10, rapid.Float64Range(2, 6).Draw(t, "log10 burst")))
		processors := rapid.IntRange(2, 8).Draw(t, "processors")
		s, c := crowded(limit, burst, processors)
		var one bucket
		one.init(newPace(limit, burst))
		now, allowed := Instant(0), int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if s.crowd.Load() == nil {
				c = &crowd{pockets: make([]pocket, processors)}
				s.crowd.Store(c)
			}
			some := rapid.IntRange(2, int(burst)).Draw(t, "n")
			switch rapid.IntRange(0, 15).Draw(t, "step") {
			case 0:
				s.count(now)
			case 1:
				ok := s.AllowAt(now, some)
				if _, want := one.reserve(now, int64(some), 0); ok != want {
					t.Fatalf("%v of %d, one bucket says %v", ok, some, want)
				}
				if ok {
					allowed += int64(some)
				}
			case 2:
				s.ChargeAt(now, some)
				one.add(now, -float64(some))
				allowed += int64(some)
			case 3:
				s.CapAt(now, float64(some))
				one.cap(now, float64(some))
			case 4:
				limit = limit*0.75 + 1
				s.disperse(now) // as all do that change what rules
				s.bucket.setPace(now, newPace(limit, burst))
				one.setPace(now, newPace(limit, burst))
			case 5, 6, 7:
				now = now.Add(time.Duration(math.Pow(10, rapid.Float64Range(0, 10).Draw(t, "log10 ns"))))
			default:
				p := rapid.IntRange(0, processors-1).Draw(t, "processor")
				for range rapid.IntRange(1, 3*handful).Draw(t, "events") {
					ok := s.allowFrom(&c.pockets[p], c, now) || s.AllowAt(now, 1)
					if want := one.allows(now); ok != want {
						t.Fatalf("%v, one bucket says %v", ok, want)
					}
					if ok {
						allowed++
					}
					if s.crowd.Load() == nil {
						break
					}
				}
			}
		}
		if got, want := s.Level(now).Tokens, one.tokens(now); math.Abs(got-want) > 1e-6 {
			t.Fatalf("%v tokens left, want %v", got, want)
		}
		if got := s.count(now).allowed; got != allowed {
			t.Fatalf("%d allowed, counted %d", allowed, got)
		}
	})
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
		var clock, admitted atomic.Int64
		var wg sync.WaitGroup
		const step, steps = 97, 400_000
		for range max(4, runtime.GOMAXPROCS(0)) {
			wg.Go(func() {
				for {
					now := clock.Add(step)
					if now > steps*step {
						return
					}
					if s.AllowAt(Instant(now), 1) {
						admitted.Add(1)
					}
					s.gather()
				}
			})
		}
		wg.Wait()
		most := float64(limit)*float64(steps*step)/1e9 + burst
		if got := float64(admitted.Load()); got > most {
			t.Errorf("limit %v: admitted %v, more than limit·t + burst = %v", limit, got, most)
		}
	}
}

// Processors that decide about one key at once form a crowd.
func TestCrowdsForm(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("one processor is no crowd")
	}
	rule := alone(1e9, 1e9)
	s := newShare(0, "k", Even, &rule, 1, math.Inf(1))
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for !stop.Load() {
				s.AllowAt(Now(), 1)
			}
		})
	}
	waittest.Until(t, "a crowd", func() bool { return s.crowd.Load() != nil })
	stop.Store(true)
	wg.Wait()
	if s.count(Now()); s.crowd.Load() != nil {
		t.Error("who counts finds tokens in pockets")
	}
}
