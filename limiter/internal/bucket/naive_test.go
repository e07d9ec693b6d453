// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"fmt"
	"math"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter/stage"
)

// naive is a Bucket in plain floats: what it had at an instant, and how fast
// that changes, in either direction of time.
type naive struct {
	limit, burst      float64
	tokens            float64
	at                stage.Instant
	allowed, rejected int64

	latest stage.Instant // of all that was done, but for single events that were refused
	seen   stage.Instant // of all that was done and asked
	lag    time.Duration // how far the Bucket may be behind latest
	unit   float64       // tokens in a quantum
	err    float64       // tokens by which the Bucket may be off
}

// newNaive returns the twin of a full Bucket.
func newNaive(b *Bucket) *naive {
	n := &naive{at: math.MinInt64, latest: math.MinInt64, seen: math.MinInt64, err: 1e-7}
	n.pace(b)
	n.tokens = n.burst
	return n
}

// pace takes over b's, whose token is a whole number of quanta.
func (n *naive) pace(b *Bucket) {
	n.limit, n.burst = float64(b.Pace().Limit()), b.Pace().Burst()
	if _, p := b.read(); !p.Unlimited() {
		n.unit = 1 / float64(p.quanta())
		n.lag = max(n.lag, time.Duration(p.depth/slack>>p.left())+1)
	}
}

func (n *naive) limited() bool { return n.limit < float64(rate.Inf) }

// see returns the tokens at t.
func (n *naive) see(t stage.Instant) float64 {
	if !n.limited() {
		return math.Inf(1)
	}
	if n.at == math.MinInt64 {
		return n.burst
	}
	return min(n.burst, n.tokens+n.limit*t.Sub(n.at).Seconds())
}

func (n *naive) set(t stage.Instant, tokens float64) {
	if n.tokens, n.at = tokens, t; !n.limited() {
		return
	}
	n.err += 4*n.unit + 1e-15*math.Abs(tokens)
	n.noted(t)
}

func (n *naive) noted(t stage.Instant) { n.latest = max(n.latest, t) }

// request is one that may borrow.
type request struct {
	stage.Request
	Debt time.Duration
}

// needs returns how many tokens are missing for r, of have, and how long the
// caller would wait.
func (n *naive) needs(r request, have float64) (missing float64, wait time.Duration) {
	waits := float64(r.N) - have // tokens to wait for
	if r.Debt > 0 {
		waits = -have
	}
	if wait = naiveDuration(waits / n.limit); waits <= 0 {
		wait = 0
	}
	missing = waits - n.limit*naiveSeconds(r.Longest)
	switch {
	case r.Debt > 0:
		missing = max(missing, float64(r.N)-have-n.limit*naiveSeconds(r.Debt))
	case float64(r.N) > n.burst:
		missing = max(missing, float64(r.N)-n.burst)
	}
	return missing, wait
}

func naiveSeconds(d time.Duration) float64 {
	if d == stage.Forever {
		return 1e300
	}
	return d.Seconds()
}

func naiveDuration(seconds float64) time.Duration {
	if !(seconds < 1e9) {
		return stage.Forever
	}
	return time.Duration(seconds * 1e9)
}

// decide checks a verdict, and takes what it took.
func (n *naive) decide(b *Bucket, r request, v stage.Verdict) error {
	ok := v.OK()
	if !n.limited() {
		n.count(ok, r.N)
		if !ok || v.Wait != 0 {
			return fmt.Errorf("unlimited, and %+v", v)
		}
		return nil
	}
	// The later view has more tokens, but the caller does not wait by it.
	own, wait := n.needs(r, n.see(r.Now))
	now, latest := request{stage.Request{N: r.N, Longest: r.Longest}, r.Debt}, n.seen
	if r.Now < latest {
		now.Longest = max(now.Longest-latest.Sub(r.Now), 0)
	} else {
		latest = r.Now
	}
	late, lateWait := n.needs(now, n.see(latest))
	early, _ := n.needs(now, n.see(max(r.Now, n.latest.Add(-n.lag))))
	if lateWait > 0 {
		lateWait += latest.Sub(r.Now)
	}
	least, most := min(own, late), min(own, early)
	have, lateHave := n.see(r.Now), n.see(latest)
	tolerance := n.err
	if r.Debt > 0 {
		tolerance += 2 * n.unit * max(float64(r.N)-n.see(r.Now), 0)
	}
	switch {
	case ok && least > tolerance:
		return fmt.Errorf("allowed with %v tokens too few", least)
	case !ok && most < -tolerance:
		return fmt.Errorf("refused with %v tokens to spare", -most)
	case ok:
		before := n.latest
		if n.set(r.Now, have-float64(r.N)); own > -n.err {
			// As of latest, or up to lag before: a full Bucket loses what comes later.
			late := naive{limit: n.limit, burst: n.burst, tokens: lateHave - float64(r.N), at: latest}
			least, most := late.see(r.Now), n.see(r.Now)
			if have := tokensAt(b, r.Now); have-least < n.limit*(latest.Sub(before)+n.lag).Seconds()+n.err || math.Abs(have-most) < n.err {
				n.tokens = max(have, least)
			}
		}
		tolerance := 2 + n.err/n.limit*1e9
		if n.limit > 0 && (float64(v.Wait-max(wait, lateWait)) > tolerance || float64(min(wait, lateWait)-v.Wait) > tolerance) {
			return fmt.Errorf("waits %v, want %v or %v", v.Wait, wait, lateWait)
		}
	default:
		n.noted(r.Now)
	}
	n.count(ok, r.N)
	return nil
}

// tokensAt is b.Tokens at a time that may be older than the latest decision.
func tokensAt(b *Bucket, t stage.Instant) float64 {
	full, p := b.read()
	tokens := p.tokens(p.taken(full, t))
	if c := b.caches.Load(); c != nil {
		cached, _ := c.sum()
		tokens += float64(cached)
	}
	return min(tokens, p.Burst())
}

func (n *naive) count(ok bool, cost int64) {
	if ok {
		n.allowed += cost
	} else {
		n.rejected += cost
	}
}

// drawPace draws any pace, or one of a Bucket that is worth caching.
func drawPace(t *rapid.T, contended bool) Pace {
	if contended {
		limit := rapid.SampledFrom([]rate.Limit{1e3, 1e5, 1e6, 7e6, 1e8, 1.25e9}).Draw(t, "high limit")
		return NewPace(limit, rapid.SampledFrom([]float64{700, 1000, 3000}).Draw(t, "large burst"))
	}
	limit := rapid.OneOf(
		rapid.SampledFrom([]float64{0, 1, 8, 100, 1000, 1e6, 1.25e9, 1e12, math.Inf(1)}),
		rapid.Custom(func(t *rapid.T) float64 { return math.Pow(10, rapid.Float64Range(-2, 10).Draw(t, "log10")) }),
	).Draw(t, "limit")
	burst := rapid.OneOf(
		rapid.Custom(func(t *rapid.T) float64 { return float64(rapid.IntRange(0, 5000).Draw(t, "whole")) }),
		rapid.Float64Range(0, 300),
	).Draw(t, "burst")
	return NewPace(rate.Limit(limit), burst)
}

// A Bucket, with caches or without, answers and counts as a naive one does, in
// whatever order the callers' clock readings come.
func TestABucketIsANaiveBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Bucket
		processors := rapid.SampledFrom([]int{0, 2, 3}).Draw(t, "processors")
		contended := processors > 0
		b.Init(drawPace(t, contended))
		n := newNaive(&b)
		now := stage.Instant(rapid.Int64Range(-1e15, 1e15).Draw(t, "start"))
		var all *caches
		left := func(t *rapid.T) int64 { // about as much as there is
			return max(int64(min(n.see(now), 1e4))+rapid.Int64Range(-2, 2).Draw(t, "more"), 0)
		}
		cost := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 6000))
		wait := rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, 700 * time.Millisecond, time.Minute, stage.Forever})
		take := func(t *rapid.T, r request) {
			v, low := b.Take(r.Request, r.Debt)
			if v.Reason == stage.TooCostly {
				if !low {
					t.Fatalf("%+v is too costly, and the bucket is not low", r)
				}
				b.Rejected(r.N, v.Left)
			}
			if err := n.decide(&b, r, v); err != nil {
				t.Fatalf("%+v: %v; got %+v, have %+v", r, err, v, *n)
			}
			if v.OK() {
				return
			}
			if impossible := r.Debt <= 0 && float64(r.N) > n.burst && n.burst >= 1; impossible != (v.Reason == stage.TooCostly) && n.limited() {
				t.Fatalf("%+v of a burst of %v: %+v", r, n.burst, v)
			}
			if v.RetryAfter > 0 {
				later := r
				later.Now = max(r.Now, n.seen).Add(v.RetryAfter)
				if missing, _ := n.needs(later, n.see(later.Now)); missing > n.err+2*n.unit*math.Abs(float64(r.N)-n.see(r.Now)) {
					t.Fatalf("%+v: retry after %v, when %v tokens are missing", r, v.RetryAfter, missing)
				}
			}
		}
		actions := map[string]func(*rapid.T){
			"time passes": func(t *rapid.T) {
				tokens := rapid.Float64Range(0, 2*n.burst+3).Draw(t, "tokens")
				now = now.Add(naiveGap(tokens, n.limit))
			},
			"time passes until the bucket is about full": func(t *rapid.T) {
				if !n.limited() {
					t.Skip()
				}
				short := n.burst - n.see(max(now, n.latest)) + batch*rapid.Float64Range(-3, 3).Draw(t, "batches")
				now = max(now, n.latest).Add(naiveGap(max(short, 0), n.limit))
			},
			"time goes back": func(t *rapid.T) {
				if n.limited() && n.see(n.seen) >= n.burst {
					return // what has overflowed may be lost for an older reading too
				}
				tokens := rapid.Float64Range(0, n.burst/2).Draw(t, "tokens")
				now = now.Add(-naiveGap(tokens, n.limit))
			},
			"allow": func(t *rapid.T) {
				events := rapid.OneOf(rapid.IntRange(1, 3), rapid.IntRange(30, 300)).Draw(t, "events")
				first := rapid.IntRange(0, 3).Draw(t, "processor")
				for i := range events {
					r, ok := request{Request: stage.Request{Now: now, N: 1}}, false
					known := false
					if all != nil && b.caches.Load() == all {
						own := &all.each[(first+i/7)%len(all.each)]
						ok, _, known = all.allow(now, own)
					}
					if !known {
						ok, _ = b.Allow(now)
					}
					v := stage.Verdict{}
					if !ok {
						v.Reason = stage.Limited
					}
					latest := n.latest
					if err := n.decide(&b, r, v); err != nil {
						t.Fatalf("Allow at %d: %v, have %+v", now, err, *n)
					}
					if !ok {
						n.latest = latest
					}
				}
			},
			"take": func(t *rapid.T) {
				take(t, request{stage.Request{Now: now, N: cost.Draw(t, "n"), Longest: wait.Draw(t, "longest"), Kind: rapid.SampledFrom([]stage.Kind{stage.Take, stage.Final}).Draw(t, "kind")}, 0})
			},
			"take what is left": func(t *rapid.T) { take(t, request{stage.Request{Now: now, N: left(t)}, 0}) },
			"borrow": func(t *rapid.T) {
				take(t, request{stage.Request{Now: now, N: cost.Draw(t, "n"), Longest: wait.Draw(t, "longest")}, max(wait.Draw(t, "debt"), 1)})
			},
			"charge": func(t *rapid.T) {
				c := cost.Draw(t, "n")
				extra := rapid.SampledFrom([]float64{0, 1, 100, math.Inf(1)}).Draw(t, "extra")
				at := b.asOf(now)
				b.Charge(now, c, 0, extra)
				before := n.see(at)
				n.set(at, min(before, max(before-float64(c), -n.burst-extra)))
				n.allowed += c
			},
			"refund": func(t *rapid.T) {
				c := cost.Draw(t, "n")
				at := b.asOf(now)
				b.Refund(now, c)
				n.set(at, min(n.see(at)+float64(c), n.burst))
				n.allowed -= c
			},
			"add": func(t *rapid.T) {
				tokens := rapid.Float64Range(-500, 500).Draw(t, "tokens")
				b.Drop(now)
				at := b.asOf(now)
				b.Add(now, tokens)
				n.set(at, min(n.see(at)+tokens, n.burst))
			},
			"cap": func(t *rapid.T) {
				tokens := rapid.Float64Range(-10, 5000).Draw(t, "tokens")
				at := b.asOf(now)
				b.Cap(now, tokens)
				n.set(at, min(n.see(at), tokens))
			},
			"pace": func(t *rapid.T) {
				b.Drop(now)
				at := b.asOf(now)
				b.SetPace(now, drawPace(t, contended))
				tokens := n.see(at)
				n.pace(&b)
				n.set(at, min(tokens, n.burst))
				n.noted(at)
			},
			"count only": func(t *rapid.T) {
				c, allowed := cost.Draw(t, "n"), rapid.Bool().Draw(t, "allowed")
				b.Record(c, allowed)
				n.count(allowed, c)
			},
			"uncount": func(t *rapid.T) {
				c, allowed := cost.Draw(t, "n"), rapid.Bool().Draw(t, "allowed")
				b.Record(-c, allowed)
				n.count(allowed, -c)
			},
			"drop": func(*rapid.T) { b.Drop(now) },
			"": func(t *rapid.T) {
				if contended && b.caches.Load() == nil {
					all = newCaches(&b, processors)
					b.caches.Store(all)
				}
				n.seen = max(n.seen, now)
				if got, want := b.Tokens(n.seen), n.see(n.seen); math.Abs(got-want) > n.err {
					t.Fatalf("%v tokens at %d, want %v ± %v of %+v", got, n.seen, want, n.err, *n)
				}
				if rapid.IntRange(0, 9).Draw(t, "look") > 0 {
					return
				}
				if got, want := b.Count(now), (Usage{n.allowed, n.rejected}); got != want {
					t.Fatalf("counted %+v, want %+v", got, want)
				}
			},
		}
		for range 5 {
			t.Repeat(actions)
		}
	})
}

// naiveGap is how long so many tokens take.
func naiveGap(tokens, limit float64) time.Duration {
	if limit == 0 || limit == math.Inf(1) {
		limit = 10
	}
	return time.Duration(min(tokens/limit*1e9, 1e13))
}
