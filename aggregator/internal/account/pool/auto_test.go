// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/exactbucket"
)

// autoHost uses what it holds, or asks when it holds nothing.
type autoHost struct {
	elasticHost
	id   uint32
	lost bool // the next answer does not arrive
}

func (h *autoHost) use(k *auto, now time.Duration, limit algorithm.Limit, n float64) (got float64) {
	if h.granted {
		return h.elasticHost.use(now, n)
	}
	n = math.Min(n, limit.Burst)
	b := k.Bucket(now, exactbucket.Rule{Rate: limit.Rate, Burst: limit.Burst})
	if n > b.Level(now) {
		n = math.Max(math.Floor(b.Level(now)), 0)
	}
	if b.Take(now, n, 0).OK {
		got = n
	}
	k.Settle(now)
	return got
}

func (h *autoHost) report(k *auto, now time.Duration, limit algorithm.Limit, wants float64) account.Grant {
	h.advance(now)
	has := 0.0
	if h.granted {
		has = math.Min(h.rate/limit.Rate, 1)
	}
	g, ok := k.Report(now, limit, h.id, &account.Report{Allowed: h.allowed, Elapsed: max(now-h.reported, time.Millisecond), Wants: wants, Has: has})
	if !ok || h.lost {
		return g
	}
	h.allowed, h.reported = 0, now
	h.tokens, h.rate, h.burst, h.granted = g.Tokens, g.Weight*limit.Rate, g.Burst, g.Burst > 0
	return g
}

// uses are what was used when, in order.
type uses []struct {
	at time.Duration
	n  float64
}

func (u *uses) add(at time.Duration, n float64) {
	*u = append(*u, struct {
		at time.Duration
		n  float64
	}{at, n})
}

// beyond is how many more than so many were used in any window: than rate·t
// and a constant, which is the result if it is negative.
func (u uses) beyond(rate float64) (most float64) {
	sum := 0.0 // of a window that ends now, at its worst
	for i, one := range u {
		if i > 0 {
			sum = math.Max(sum-rate*(one.at-u[i-1].at).Seconds(), 0)
		}
		sum += one.n
		most = math.Max(most, sum)
	}
	return most
}

// autoKnown is a key under Auto whose owner has learned what there is.
func autoKnown(limit algorithm.Limit) *auto {
	k, _ := made(algorithm.NameAuto).(*auto)
	k.Report(-time.Minute, limit, 1<<20, &account.Report{Elapsed: time.Second})
	k.Expire(-time.Second, func(uint32) {})
	return k
}

func TestAutoBeginsAsTheFirstOnesSay(t *testing.T) {
	k, _ := made(algorithm.NameAuto).(*auto)
	high := algorithm.Limit{Rate: 1e6, Burst: 1e6}
	k.Report(0, high, 1, &account.Report{Elapsed: time.Second, Wants: 100})
	if g, ok := k.Report(usual.Learn, high, 1, &account.Report{Elapsed: time.Second, Wants: 100}); !ok || g.Weight == 0 {
		t.Errorf("one host of a high limit gets %+v, %v", g, ok)
	}
	low := algorithm.Limit{Rate: 5, Burst: 10}
	k, _ = made(algorithm.NameAuto).(*auto)
	if b := k.Bucket(0, exactbucket.Rule{Rate: low.Rate, Burst: low.Burst}); !b.Take(0, 10, 0).OK || b.Take(0, 1, 0).OK {
		t.Error("who asks first does not find a full bucket")
	}
	k.Settle(0)
	for i := range 8 {
		k.Report(0, low, uint32(i), &account.Report{Elapsed: time.Second, Wants: 1})
	}
	for i := range 8 {
		if g, ok := k.Report(interval, low, uint32(i), &account.Report{Elapsed: time.Second, Wants: 1}); !ok || g != (account.Grant{}) {
			t.Errorf("one of eight hosts of 5/s gets %+v, %v", g, ok)
		}
	}
	if got := k.Bucket(interval, exactbucket.Rule{Rate: low.Rate, Burst: low.Burst}).Level(interval); got != 10 {
		t.Errorf("%v tokens after 3 s of 5/s, in a burst of 10", got)
	}
	// A single host that asks, because the cluster is large, does not do so for
	// longer than others have to say that they use the key too.
	k, _ = made(algorithm.NameAuto).(*auto)
	k.Bucket(0, exactbucket.Rule{Rate: 100, Burst: 100}).Take(0, 100, 0)
	k.Settle(0)
	k.Report(time.Second, algorithm.Limit{Rate: 100, Burst: 100}, 1, &account.Report{Elapsed: time.Second, Wants: 50})
	g, ok := k.Report(interval, algorithm.Limit{Rate: 100, Burst: 100}, 1, &account.Report{Elapsed: time.Second, Wants: 50})
	if !ok || !near(g.Weight*100, 55) {
		t.Errorf("after an interval it gets %+v, %v", g, ok)
	}
}

// A new owner that is asked, or told what is left, and then hears what hosts
// hold, splits the key as soon as it has learned.
func TestAutoStaysSplitUnderANewOwner(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 100}
	k, _ := made(algorithm.NameAuto).(*auto)
	k.Bucket(0, exactbucket.Rule{Rate: limit.Rate, Burst: limit.Burst}).Lower(0, 5)
	k.Settle(0)
	for i := range 4 {
		k.Report(time.Millisecond, limit, uint32(i), &account.Report{Elapsed: time.Second, Wants: 20, Has: 0.2})
	}
	if left := took(k, usual.Learn-1, limit, 0); left > 0 {
		t.Errorf("%v tokens come in while hosts are not known yet", left)
	}
	for i := range 4 {
		if g, ok := k.Report(usual.Learn, limit, uint32(i), &account.Report{Elapsed: time.Second, Wants: 20, Has: 0.2}); !ok || g.Weight < 0.15 {
			t.Errorf("host %d gets %+v, %v", i, g, ok)
		}
	}
}

// Hosts that come and go make a key switch no more often than every ten
// intervals, and neither does a limit that moves a little.
func TestAutoIsCalm(t *testing.T) {
	limit := algorithm.Limit{Rate: 2, Burst: 10}
	k := autoKnown(limit)
	now, switches, state := time.Duration(0), 0, k.state
	const span = 100 * interval
	for ; now < span; now += interval / 2 {
		limit.Rate = 5.5 - limit.Rate // 2 and 3.5
		hosts := 1
		if now/interval%4 >= 2 {
			hosts = 6 // of which each has too few events
		}
		for i := range hosts {
			k.Report(now, limit, uint32(i), &account.Report{Elapsed: time.Second, Wants: 5})
		}
		k.Expire(now, func(uint32) {})
		if k.state != state && (k.state == split || state == split) {
			switches++
		}
		state = k.state
	}
	if most := int(span / interval / calm); switches > most || switches < 2 {
		t.Errorf("%d switches in %v, of at most %d", switches, span, most)
	}
	before := state
	limit.Rate *= map[bool]float64{true: 100, false: 0.01}[state != split]
	for i := range 6 {
		k.Report(now, limit, uint32(i), &account.Report{Elapsed: time.Second, Wants: 5})
	}
	if (before == split) == (k.state == split) {
		t.Errorf("state %d after %d, when the limit became %v/s", k.state, before, limit.Rate)
	}
}

// Tokens that hosts hold when the limit becomes too low for them are out until they say
// that it is gone, and an answer that is lost says nothing.
func TestAutoClosesWhenNobodyHoldsAnythingAnyMore(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 100}
	k := autoKnown(limit)
	hosts := make([]autoHost, 4)
	for i := range hosts {
		hosts[i].id = uint32(i)
		hosts[i].report(k, time.Duration(i)*time.Millisecond, limit, 30)
	}
	if k.state != split {
		t.Fatal("it is not split")
	}
	limit = algorithm.Limit{Rate: 2, Burst: 4}
	for i := range hosts {
		h := &hosts[i]
		h.advance(time.Second)
		h.rate, h.tokens = h.rate/50, 0
	}
	hosts[3].lost = true
	for i := range hosts {
		if g := hosts[i].report(k, time.Second, limit, 30); g != (account.Grant{}) {
			t.Errorf("host %d gets %+v", i, g)
		}
	}
	for i := range hosts {
		if k.state != closing {
			t.Fatalf("state %d while host %d may hold something", k.state, i)
		}
		hosts[i].report(k, time.Second+10*time.Millisecond, limit, 30)
	}
	if hosts[3].lost = false; k.state != closing {
		t.Fatal("closed although an answer was lost twice")
	}
	hosts[3].report(k, time.Second+20*time.Millisecond, limit, 30)
	hosts[3].report(k, time.Second+30*time.Millisecond, limit, 30)
	if k.state != whole || k.out() {
		t.Errorf("state %d with %v of the limit and %v tokens out", k.state, k.parts.Value(), k.lent)
	}
}

func TestAutoClosesWithoutThoseWhoAreSilent(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 100}
	k := autoKnown(limit)
	dead, alive := autoHost{id: 1}, autoHost{id: 2}
	dead.report(k, 0, limit, 30)
	alive.report(k, 0, limit, 30)
	limit = algorithm.Limit{Rate: 1, Burst: 1}
	now := time.Second
	for ; now < 2*interval; now += time.Second {
		k.Expire(now, func(uint32) {})
		alive.report(k, now, limit, 30)
		if want := now < time.Duration(silence*float64(interval)); (k.state == closing) != want {
			t.Errorf("at %v: state %d", now, k.state)
		}
	}
}

// took is what k's account has left after n tokens were taken, in any case.
func took(k *auto, now time.Duration, limit algorithm.Limit, n float64) (left float64) {
	b := k.Bucket(now, exactbucket.Rule{Rate: limit.Rate, Burst: limit.Burst})
	b.Charge(now, n, math.Inf(-1))
	k.Settle(now)
	return k.bucket.Level(now)
}

func TestAutoHasOneAccount(t *testing.T) {
	low, high := algorithm.Limit{Rate: 1, Burst: 100}, algorithm.Limit{Rate: 100, Burst: 100}
	k := autoKnown(low)
	h := autoHost{id: 1}
	for _, at := range []time.Duration{0, time.Millisecond} { // and now it says that it holds nothing
		for i := range 4 {
			k.Report(at, low, uint32(i+2), &account.Report{Elapsed: time.Second, Wants: 1})
		}
		h.report(k, at, low, 1)
	}
	if k.state != whole {
		t.Fatalf("state %d", k.state)
	}
	now := 102 * time.Second
	h.report(k, now-time.Second, low, 1)
	if left := took(k, now, low, 0); left != 100 {
		t.Fatalf("%v left of a burst of 100", left)
	}
	h.allowed = 30 // by its fallback
	h.report(k, now, low, 1)
	if left := took(k, now, low, 50); !near(left, 20) {
		t.Errorf("%v left of 100 when 30 are reported and 50 taken", left)
	}
	h.report(k, now, high, 80) // the limit is high enough from now on
	if k.state != split || h.rate < 80 || h.tokens > 20 {
		t.Fatalf("state %d, the host has %v/s and %v tokens", k.state, h.rate, h.tokens)
	}
	// Who has no grant is paid out of what nobody holds, which fills with the
	// rest of the limit.
	before := took(k, now, high, 0)
	if after := took(k, now+time.Second, high, 0); !near(after-before, 100-h.rate) {
		t.Errorf("%v come in while a host has %v/s of 100", after-before, h.rate)
	}
	b := k.Bucket(now+time.Second, exactbucket.Rule{Rate: high.Rate, Burst: high.Burst})
	if v := b.Take(now+time.Second, b.Level(now+time.Second)+1, 0); v.OK || !near(v.Retry.Seconds(), 1/(100-h.rate)) {
		t.Errorf("to ask again: %+v, while a host has %v/s of 100", v, h.rate)
	}
	k.Settle(now + time.Second)
	// Nobody is paid for what a host held that turns out to be gone.
	now += time.Second
	took(k, now, high, took(k, now, high, 0)) // all of it
	rate, gone := h.rate, 2*interval
	k.Expire(now+gone, func(uint32) {})
	if left, want := took(k, now+gone, high, 0), (100-rate)*gone.Seconds(); left > want+1 {
		t.Errorf("%v come in before it is known that a host is gone which had %v/s; want %v", left, rate, want)
	}
	// Nobody is forgiven what was taken.
	now += gone
	debt := -took(k, now, high, 1000)
	h.report(k, now, high, 80)
	if left := took(k, now, high, 0); -left < debt {
		t.Errorf("a debt of %v is one of %v after a report", debt, -left)
	}
}

// Hosts that do the worst that they are let do, and a limit and demands that
// make the key switch again and again. No window may hold more than the limit,
// the burst and Overshoot; and none in which the key stays whole, more than the
// limit and the burst.
func TestAutoOvershootIsBounded(t *testing.T) {
	runs, switches := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		limit := algorithm.Limit{Rate: rapid.Float64Range(0.5, 6).Draw(t, "rate")}
		limit.Burst = math.Max(limit.Rate*rapid.Float64Range(0.2, 3).Draw(t, "burst, seconds"), 1)
		n := rapid.IntRange(1, 12).Draw(t, "hosts")
		k := autoKnown(limit)
		hosts := make([]autoHost, n)
		for i := range hosts { // all known, with nothing, before the clock starts
			hosts[i].id = uint32(i)
			hosts[i].report(k, 0, limit, 0)
		}
		k.until = 0
		now, state := time.Duration(0), k.state
		var all, inWhole uses
		wants := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 5*limit.Rate), rapid.Just(1e12))
		for range rapid.IntRange(100, 400).Draw(t, "steps") {
			now += time.Duration(rapid.Int64Range(0, int64(400*time.Millisecond)).Draw(t, "pause"))
			h := &hosts[rapid.IntRange(0, n-1).Draw(t, "host")]
			// Without the calm, there is a switch whenever it may be.
			k.until = 0
			if rapid.Bool().Draw(t, "uses") {
				got := h.use(k, now, limit, rapid.SampledFrom([]float64{1, limit.Burst / 4, 1e9}).Draw(t, "amount"))
				all.add(now, got)
				inWhole.add(now, got)
			} else {
				h.lost = k.state != split && rapid.IntRange(0, 3).Draw(t, "lost") == 0
				h.report(k, now, limit, wants.Draw(t, "wants"))
			}
			for i := range hosts {
				if now-hosts[i].reported >= interval {
					hosts[i].lost = false
					hosts[i].report(k, now, limit, wants.Draw(t, "wants"))
				}
			}
			if k.state != state {
				state = k.state
				switches++
				inWhole = nil
			}
			if state != whole {
				inWhole = nil
			} else if got := inWhole.beyond(limit.Rate); got > limit.Burst+1e-6 {
				t.Fatalf("%v more than the limit while the key is whole, of a burst of %v", got, limit.Burst)
			}
		}
		if got, most := all.beyond(limit.Rate), limit.Burst+(algorithm.Elastic{}).Overshoot(limit, n, interval); got > most+1e-6 {
			t.Fatalf("%v more than the limit, of at most %v", got, most)
		}
	})
	if switches < runs/4 {
		t.Errorf("%d switches in %d runs: the test tests nothing", switches, runs)
	}
}

// Hosts want all they can get, and a limit that goes up and down makes the key
// switch: from whole to split and back. All in all they get one burst.
func TestASwitchGivesNoSecondBurst(t *testing.T) {
	low, high := algorithm.Limit{Rate: 3, Burst: 60}, algorithm.Limit{Rate: 60, Burst: 60}
	const n, rounds = 8, 6
	k := autoKnown(low)
	hosts := make([]autoHost, n)
	for i := range hosts {
		hosts[i].id = uint32(i)
	}
	var all uses
	sum, allowed := 0.0, 0.0 // of use, and of what the limits allow
	const tick = 10 * time.Millisecond
	now, limit, seen := time.Duration(0), low, map[autoState]int{}
	for round := range rounds {
		before := limit
		if limit = low; round%2 == 1 {
			limit = high
		}
		for i := range hosts { // they know at once
			hosts[i].advance(now)
			hosts[i].rate *= limit.Rate / before.Rate
		}
		for end := now + 40*time.Second; now < end; now += tick {
			allowed += limit.Rate * tick.Seconds()
			for i := range hosts {
				h := &hosts[i]
				sum += h.use(k, now, limit, 1e9)
				if (now/tick)%100 == time.Duration(i) { // once a second
					h.report(k, now, limit, 1e3)
				}
			}
			all.add(now, sum-allowed)
		}
		seen[k.state]++
	}
	most := 0.0
	for _, one := range all {
		most = math.Max(most, one.n)
	}
	t.Logf("at most %.2f more than the limit, which is a burst of %v and %.2f", most, low.Burst, most-low.Burst)
	if seen[whole] != rounds/2 || seen[split] != rounds/2 {
		t.Errorf("states at the end of rounds: %v", seen)
	}
	if most > low.Burst+high.Burst/10 {
		t.Errorf("%v more than the limit, of a burst of %v", most, low.Burst)
	}
	if last := all[len(all)-1].n; last < 0.9*high.Burst {
		t.Errorf("%v are missing in the end", high.Burst-last)
	}
}

// A key that is split all the time gets what it gets under Elastic.
func TestAutoIsElasticWhereTheLimitIsHigh(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := algorithm.Limit{Rate: 1000, Burst: 2000}
		auto, elastic := made(algorithm.NameAuto), made(algorithm.NameElastic)
		now := time.Duration(0)
		for range 100 {
			now += time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "pause"))
			host := uint32(rapid.IntRange(0, 9).Draw(t, "host"))
			r := account.Report{
				Allowed: rapid.Float64Range(0, 500).Draw(t, "allowed"), Elapsed: time.Second,
				Wants: rapid.Float64Range(0, 500).Draw(t, "wants"), Has: rapid.Float64Range(0, 1).Draw(t, "has"),
			}
			a, okA := auto.Report(now, limit, host, &r)
			e, okE := elastic.Report(now, limit, host, &r)
			if okA != okE || math.Abs(a.Weight-e.Weight) > 1e-6 || math.Abs(a.Tokens-e.Tokens) > 1e-3 || math.Abs(a.Burst-e.Burst) > 1e-3 {
				t.Fatalf("at %v: %+v, %v, and under Elastic %+v, %v", now, a, okA, e, okE)
			}
		}
	})
}

func TestAutoIsSane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1e15), rapid.Float64Range(0, 1), rapid.Float64Range(0, 100))
		k, _ := made(algorithm.NameAuto).(*auto)
		now := time.Duration(0)
		for range 100 {
			limit := algorithm.Limit{Rate: amount.Draw(t, "rate"), Burst: amount.Draw(t, "burst")}
			now += time.Duration(rapid.Int64Range(-int64(time.Second), int64(5*time.Second)).Draw(t, "pause"))
			k.Expire(now, func(uint32) {})
			if rapid.Bool().Draw(t, "takes") {
				b := k.Bucket(now, exactbucket.Rule{Rate: limit.Rate, Burst: limit.Burst, MaxDebt: time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "debt"))})
				b.Take(now, amount.Draw(t, "n"), -1)
				k.Settle(now)
			} else {
				g, ok := k.Report(now, limit, uint32(rapid.IntRange(0, 5).Draw(t, "host")), &account.Report{
					Allowed: amount.Draw(t, "allowed"), Rejected: amount.Draw(t, "rejected"),
					Elapsed: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "elapsed")),
					Wants:   amount.Draw(t, "wants"), Has: rapid.Float64Range(0, 1).Draw(t, "has"),
				})
				if ok && !(g.Weight >= 0 && g.Weight <= 1 && g.Burst >= 0 && g.Burst <= math.MaxFloat64 && g.Tokens >= 0 && g.Tokens <= math.Max(limit.Burst, 1)) {
					t.Fatalf("limit %+v: %+v", limit, g)
				}
			}
			if level := k.pool; math.IsNaN(level) || level > limit.Burst+1e-3 {
				t.Fatalf("%v tokens of a burst of %v", level, limit.Burst)
			}
			users := 0
			for i := range k.rows.All {
				if k.rows.At(i).wants > 0 {
					users++
				}
			}
			if users != int(k.users) {
				t.Fatalf("%d hosts are counted, and %d have a demand", k.users, users)
			}
		}
	})
}
