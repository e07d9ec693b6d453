// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

func TestModes(t *testing.T) {
	for _, tt := range []struct {
		mode             dynamicconfig.Mode
		allowed          int // of ten; the old one has 3 and the new one 5
		oldAsks, newAsks int64
		counts           stage.Divergence
		level            float64 // burst
	}{
		{disabled, 10, 0, 0, stage.Divergence{}, math.Inf(1)},
		{old, 3, 10, 0, stage.Divergence{}, 3},
		{oldShadowNew, 3, 10, 10, stage.Divergence{Both: 3, OnlyNew: 2, Neither: 5}, 3},
		{newShadowOld, 5, 10, 10, stage.Divergence{Both: 3, OnlyNew: 2, Neither: 5}, 5},
		{onlyNew, 5, 0, 10, stage.Divergence{}, 5},
		{99, 10, 0, 0, stage.Divergence{}, math.Inf(1)}, // no such mode: disabled
	} {
		for name, pair := range map[string]func(o, n *bucket) *Pair{
			"from the start": func(o, n *bucket) *Pair { return NewPair(0, o, n, tt.mode, noBackground) },
			"set later": func(o, n *bucket) *Pair {
				p := NewPair(0, o, n, disabled, noBackground)
				p.SetMode(0, tt.mode)
				return p
			},
		} {
			o, n := newBucket(t, 0, 3), newBucket(t, 0, 5)
			p, got := pair(o, n), 0
			for range 10 {
				if allow(p, 0, 1) {
					got++
				}
			}
			if got != tt.allowed || o.calls() != tt.oldAsks || n.calls() != tt.newAsks {
				t.Errorf("%v %s: allowed %d, asked old %d, new %d", tt.mode, name, got, o.calls(), n.calls())
			}
			if c := p.Counts(); c != tt.counts {
				t.Errorf("%v %s: %+v, want %+v", tt.mode, name, c, tt.counts)
			}
			if burst := p.Level(0).Burst; burst != tt.level {
				t.Errorf("%v %s: burst %v, want %v", tt.mode, name, burst, tt.level)
			}
			if want := map[bool]dynamicconfig.Mode{true: disabled, false: tt.mode}[tt.mode > onlyNew]; p.Mode() != want {
				t.Errorf("%v %s: mode is %v", tt.mode, name, p.Mode())
			}
		}
	}
}

func TestDisabledLetsEverythingThrough(t *testing.T) {
	o, n := newBucket(t, 0, 0), newBucket(t, 0, 0)
	p := NewPair(0, o, n, disabled, noBackground)
	for _, r := range []stage.Request{{N: 1e9}, {N: 1e9, Kind: stage.Charge}, {N: 7, Kind: stage.Final}} {
		v, receipt := p.Take(t.Context(), r)
		if v != (stage.Verdict{Left: math.Inf(1)}) || receipt != (stage.Receipt{}) {
			t.Errorf("%+v: %+v, %+v", r, v, receipt)
		}
		p.Settle(0, receipt, 1e9)
	}
	if l := p.Level(0); l != (stage.Level{Limit: rate.Inf, Burst: math.Inf(1), Tokens: math.Inf(1)}) {
		t.Errorf("the level is %+v", l)
	}
	if o.calls()+n.calls() != 0 || p.Counts() != (stage.Divergence{}) {
		t.Errorf("disabled counts: %d, %d, %+v", o.calls(), n.calls(), p.Counts())
	}
}

func TestCountsTellWhoAllowed(t *testing.T) {
	for _, mode := range []dynamicconfig.Mode{oldShadowNew, newShadowOld} {
		p := NewPair(0, newBucket(t, 0, 10), newBucket(t, 0, 7), mode, noBackground)
		for _, n := range []int64{6, 4, 1, 5, 0} {
			allow(p, 0, n) // 6 both, 4 only old, 1 only new, 5 neither
		}
		if c, want := p.Counts(), (stage.Divergence{Both: 6, OnlyOld: 4, OnlyNew: 1, Neither: 5}); c != want {
			t.Errorf("%v: %+v, want %+v", mode, c, want)
		}
	}
}

func TestChargesAndCapsGoToBoth(t *testing.T) {
	for _, tt := range []struct {
		mode             dynamicconfig.Mode
		oldPays, newPays int64
	}{{disabled, 0, 0}, {old, 7, 0}, {oldShadowNew, 7, 7}, {newShadowOld, 7, 7}, {onlyNew, 0, 7}} {
		o, n := newBucket(t, 0, 5), newBucket(t, 0, 5)
		p := NewPair(0, o, n, tt.mode, noBackground)
		v, receipt := p.Take(t.Context(), stage.Request{N: 7, Kind: stage.Charge})
		if !v.OK() || receipt != (stage.Receipt{}) || o.charged != tt.oldPays || n.charged != tt.newPays || p.Counts() != (stage.Divergence{}) {
			t.Errorf("%v: a charge of 7 cost the old %d, the new %d, and counts %+v", tt.mode, o.charged, n.charged, p.Counts())
		}
		p.Cap(0, 2)
		if !near(o.has(0), min(2, 5-float64(tt.oldPays))) || !near(n.has(0), min(2, 5-float64(tt.newPays))) {
			t.Errorf("%v: capped at 2: %v and %v", tt.mode, o.has(0), n.has(0))
		}
	}
}

// The primary has 5 tokens or none, and so has the shadow. Two are asked for.
func TestWhatIsSettled(t *testing.T) {
	const has, never = 5, -1
	for _, tt := range []struct {
		name                    string
		primaryHas, shadowHas   int
		actual                  int64
		primaryLeft, shadowLeft float64
		counts                  stage.Divergence // in the mode old-shadow-new
	}{
		{"it cost as much", has, has, 2, 3, 3, stage.Divergence{Both: 2}},
		{"never settled", has, has, never, 3, 3, stage.Divergence{Both: 2}},
		{"it cost nothing", has, has, 0, 5, 5, stage.Divergence{Both: 2}},
		{"it cost more", has, has, 9, -4, -4, stage.Divergence{Both: 2}},
		{"primary refused, settled", 0, has, 0, 0, 3, stage.Divergence{OnlyNew: 2}},
		{"primary refused, never settled", 0, has, never, 0, 3, stage.Divergence{OnlyNew: 2}},
		{"shadow refused", has, 0, 2, 3, 0, stage.Divergence{OnlyOld: 2}},
		{"shadow refused, it cost nothing", has, 0, 0, 5, 0, stage.Divergence{OnlyOld: 2}},
		{"both refused", 0, 0, 0, 0, 0, stage.Divergence{Neither: 2}},
	} {
		for _, mode := range []dynamicconfig.Mode{oldShadowNew, newShadowOld} {
			primary, shadow := newBucket(t, 0, tt.primaryHas), newBucket(t, 0, tt.shadowHas)
			p, counts := NewPair(0, primary, shadow, mode, noBackground), tt.counts
			if mode == newShadowOld {
				p = NewPair(0, shadow, primary, mode, noBackground)
				counts.OnlyOld, counts.OnlyNew = counts.OnlyNew, counts.OnlyOld
			}
			v, receipt := p.Take(t.Context(), stage.Request{N: 2})
			if v != primary.answer || v.OK() != (tt.primaryHas > 0) {
				t.Errorf("%s: %+v, and the primary said %+v", tt.name, v, primary.answer)
			}
			if want := map[bool]int64{true: 2}[v.OK()]; receipt.N != want || !v.OK() && receipt != (stage.Receipt{}) {
				t.Errorf("%s: the receipt is %+v", tt.name, receipt)
			}
			p.SetMode(0, old) // no matter who answers by now
			p.SetMode(0, mode)
			if tt.actual != never {
				p.Settle(0, receipt, tt.actual)
			}
			if a, b := primary.has(0), shadow.has(0); mode == oldShadowNew && (!near(a, tt.primaryLeft) || !near(b, tt.shadowLeft)) {
				t.Errorf("%s: left are %v and %v, want %v and %v", tt.name, a, b, tt.primaryLeft, tt.shadowLeft)
			}
			if open := len(primary.open) + len(shadow.open); open > 0 && tt.actual != never {
				t.Errorf("%s, %v: %d receipts are open", tt.name, mode, open)
			}
			if c := p.Counts(); c != counts {
				t.Errorf("%s, %v: %+v, want %+v", tt.name, mode, c, counts)
			}
		}
	}
}

func TestAReceiptIsSettledWhereItWasIssued(t *testing.T) {
	o, n := newBucket(t, 0, 5), newBucket(t, 0, 5)
	p := NewPair(0, o, n, old, noBackground)
	_, receipt := p.Take(t.Context(), stage.Request{N: 4})
	p.SetMode(0, onlyNew)
	p.Settle(0, receipt, 0)
	if o.has(0) != 5 || n.has(0) != 1 || n.settled != 0 {
		t.Errorf("left are %v and %v; the new one settled %d", o.has(0), n.has(0), n.settled)
	}
}

// A shadow agrees if the event happens no later. Both have no tokens, 10/s
// come into the old one, and one token is asked for.
func TestAShadowThatWouldBeLaterDisagrees(t *testing.T) {
	for _, tt := range []struct {
		name     string
		newRate  rate.Limit
		longest  time.Duration
		newLeft  float64
		counts   stage.Divergence
		rejected int64 // by the new one
	}{
		{"as fast", 10, time.Second, -1, stage.Divergence{Both: 1}, 0},
		{"faster", 20, time.Second, -1, stage.Divergence{Both: 1}, 0},
		{"hardly slower", 9.95, time.Second, -1, stage.Divergence{Both: 1}, 0},
		{"slower", 9.8, time.Second, 0, stage.Divergence{OnlyOld: 1}, 1},
		{"both are too slow", 5, 90 * time.Millisecond, 0, stage.Divergence{Neither: 1}, 1},
		{"the old one is too slow", 20, 90 * time.Millisecond, -1, stage.Divergence{OnlyNew: 1}, 0},
		{"as long as it takes", 5, stage.Forever, 0, stage.Divergence{OnlyOld: 1}, 1},
	} {
		o, n := newBucket(t, 10, 1), newBucket(t, tt.newRate, 1)
		p := NewPair(0, o, n, oldShadowNew, noBackground)
		p.Cap(0, 0)
		v, receipt := p.Take(t.Context(), stage.Request{N: 1, Longest: tt.longest})
		if v.OK() != (tt.longest >= 100*time.Millisecond) || v.OK() && v.Wait != 100*time.Millisecond {
			t.Errorf("%s: %+v", tt.name, v)
		}
		if !near(n.has(0), tt.newLeft) || n.rejected != tt.rejected || p.Counts() != tt.counts {
			t.Errorf("%s: the new one has %v left and rejected %d; %+v", tt.name, n.has(0), n.rejected, p.Counts())
		}
		p.Settle(0, receipt, 0)
		if v.OK() && (!near(o.has(0), 0) || !near(n.has(0), 0)) {
			t.Errorf("%s: cancelled, and left are %v and %v", tt.name, o.has(0), n.has(0))
		}
	}
}

func TestAWaitThatNeverEndsDoesNotOverflow(t *testing.T) {
	primary := fixed{verdict: stage.Verdict{Wait: stage.Forever}}
	asked := fixed{request: new(stage.Request)}
	NewPair(0, primary, asked, oldShadowNew, noBackground).Take(t.Context(), stage.Request{N: 1, Longest: stage.Forever})
	if asked.request.Longest != stage.Forever {
		t.Errorf("the shadow may wait %v", asked.request.Longest)
	}
}

// fixed is a stage that always says the same.
type fixed struct {
	verdict stage.Verdict
	receipt stage.Receipt
	level   stage.Level
	request *stage.Request // if not nil, the last one
}

func (f fixed) Take(_ context.Context, r stage.Request) (stage.Verdict, stage.Receipt) {
	if f.request != nil {
		*f.request = r
	}
	return f.verdict, f.receipt
}

func (f fixed) Allow(ctx context.Context, now stage.Instant) stage.Reason {
	return stage.AllowByTake(ctx, now, f.Take)
}

func (f fixed) Settle(stage.Instant, stage.Receipt, int64) {}

func (f fixed) Cap(stage.Instant, float64) {}

func (fixed) Open() (open bool, changed []<-chan struct{}) { return false, nil }

func (f fixed) Level(stage.Instant) stage.Level { return f.level }

func TestACallerThatHasGoneCountsAsNothing(t *testing.T) {
	shadow := newBucket(t, 0, 5)
	p := NewPair(0, fixed{verdict: canceled(), level: stage.Level{Remote: true}}, shadow, oldShadowNew, noBackground)
	v, receipt := p.Take(t.Context(), stage.Request{N: 1})
	if v.Reason != stage.Canceled || receipt != (stage.Receipt{}) || shadow.calls() != 0 || p.Counts() != (stage.Divergence{}) {
		t.Errorf("%+v, the shadow was asked for %d; %+v", v, shadow.calls(), p.Counts())
	}
}

func TestFinalGoesOnToBothStages(t *testing.T) {
	for _, tt := range []struct{ final, refused, want bool }{{false, false, false}, {true, false, true}, {false, true, true}} {
		var primary, shadow fixed
		primary.request, shadow.request = new(stage.Request), new(stage.Request)
		if tt.refused {
			primary.verdict.Reason = stage.Limited
		}
		p := NewPair(0, primary, NewPair(0, newBucket(t, 1, 1), shadow, onlyNew, noBackground), oldShadowNew, noBackground)
		p.Take(t.Context(), stage.Request{N: 1, Kind: kindOf(tt.final)})
		if (primary.request.Kind == stage.Final) != tt.final || (shadow.request.Kind == stage.Final) != tt.want {
			t.Errorf("%+v: final to the primary is %v, to the shadow %v", tt, (primary.request.Kind == stage.Final), (shadow.request.Kind == stage.Final))
		}
	}
}

func TestAPairOfPairs(t *testing.T) {
	a, b, c, d := newBucket(t, 0, 5), newBucket(t, 0, 5), newBucket(t, 0, 5), newBucket(t, 0, 5)
	p := NewPair(0, NewPair(0, a, b, oldShadowNew, noBackground), NewPair(0, c, d, newShadowOld, noBackground), oldShadowNew, noBackground)
	_, receipt := p.Take(t.Context(), stage.Request{N: 4})
	p.Settle(0, receipt, 1)
	for i, s := range []*bucket{a, b, c, d} {
		if s.has(0) != 4 || len(s.open) != 0 {
			t.Errorf("stage %d has %v", i, s.has(0))
		}
	}
}

// A stage that is in debt ends; the one that begins is in debt as well.
func TestADebtGoesAlong(t *testing.T) {
	o, n := newBucket(t, 1, 10), newBucket(t, 1, 10)
	p := NewPair(0, o, n, oldShadowNew, noBackground)
	o.Take(t.Context(), stage.Request{N: 12, Kind: stage.Charge})
	p.SetMode(0, onlyNew)
	if n.has(0) != -2 || allow(p, 2*second, 1) || !allow(p, 3*second, 1) {
		t.Errorf("the new one began with %v", n.has(0))
	}
}

// Whenever the mode changes, the stage that answers has no more tokens than
// the one before it: all that is ever allowed is the burst of the first one
// and what flowed into the one that answered.
func TestSwitchingGivesNoSecondBurst(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		limits := [2]float64{float64(rapid.IntRange(0, 100).Draw(r, "old limit")), float64(rapid.IntRange(0, 100).Draw(r, "new limit"))}
		o := newBucket(t, rate.Limit(limits[0]), rapid.IntRange(0, 50).Draw(r, "old burst"))
		n := newBucket(t, rate.Limit(limits[1]), rapid.IntRange(0, 50).Draw(r, "new burst"))
		mode := rapid.SampledFrom(modes[1:]).Draw(r, "mode")
		now := stage.Instant(rapid.Int64Range(-1e18, 1e18).Draw(r, "start"))
		p := NewPair(0, o, n, mode, noBackground)
		most := p.Level(now).Burst
		var allowed int64
		var open []stage.Receipt
		for range rapid.IntRange(1, 200).Draw(r, "steps") {
			pause := stage.Instant(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 1e8), rapid.Int64Range(0, 3e9)).Draw(r, "pause"))
			now += pause
			most += limits[roles[mode].primary] * time.Duration(pause).Seconds()
			switch rapid.IntRange(0, 4).Draw(r, "what") {
			case 0:
				mode = rapid.SampledFrom(modes[1:]).Draw(r, "mode")
				p.SetMode(now, mode)
			case 1:
				if len(open) > 0 {
					actual := rapid.Int64Range(0, open[0].N).Draw(r, "actual")
					p.Settle(now, open[0], actual)
					allowed += actual - open[0].N
					open = open[1:]
				}
			default:
				cost := rapid.SampledFrom([]int64{1, 1, 1, 0, 2, 7, 60}).Draw(r, "cost")
				v, receipt := p.Take(t.Context(), stage.Request{Now: now, N: cost, Kind: kindOf(rapid.Bool().Draw(r, "final"))})
				if v.OK() {
					allowed += cost
				}
				if receipt.N > 0 {
					open = append(open, receipt)
				}
			}
			if float64(allowed) > most+1e-6 {
				r.Fatalf("allowed %d, and there was only %v", allowed, most)
			}
		}
	})
}

// Modes, requests and settlements come as they like, one of the stages may be
// remote, and its answers may be late or skipped. The buckets complain if a
// receipt is settled twice, or for another number of tokens.
func TestAPairKeepsTheContract(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var waiting []func()
		background := func(f func()) bool {
			if len(waiting) == 3 {
				return false
			}
			waiting = append(waiting, f)
			return true
		}
		o, n := newBucket(t, rate.Limit(rapid.IntRange(0, 10).Draw(r, "old limit")), 20), newBucket(t, 5, rapid.IntRange(0, 30).Draw(r, "new burst"))
		sides := [2]stage.Stage{o, n}
		remote := rapid.IntRange(-1, 1).Draw(r, "remote")
		if remote >= 0 {
			sides[remote] = prompt{[]*bucket{o, n}[remote]}
		}
		mode := rapid.SampledFrom(modes).Draw(r, "mode")
		p := NewPair(0, sides[0], sides[1], mode, background)
		var open []stage.Receipt
		var now stage.Instant
		var want stage.Divergence
		for range rapid.IntRange(1, 100).Draw(r, "steps") {
			now += stage.Instant(rapid.Int64Range(0, 1e9).Draw(r, "pause"))
			switch rapid.IntRange(0, 6).Draw(r, "what") {
			case 0:
				mode = rapid.SampledFrom(modes).Draw(r, "mode")
				p.SetMode(now, mode)
			case 1, 2:
				if len(open) > 0 {
					i := rapid.IntRange(0, len(open)-1).Draw(r, "which")
					p.Settle(now, open[i], rapid.Int64Range(0, 2*open[i].N).Draw(r, "actual"))
					open = slices.Delete(open, i, i+1)
				}
			case 3:
				if len(waiting) > 0 {
					f := waiting[0]
					waiting = waiting[1:]
					f()
				}
			default:
				request := stage.Request{
					Now: now, N: rapid.Int64Range(0, 12).Draw(r, "n"),
					Longest: time.Duration(rapid.Int64Range(0, 2e9).Draw(r, "longest")),
					Kind:    rapid.SampledFrom([]stage.Kind{stage.Take, stage.Take, stage.Final, stage.Charge}).Draw(r, "kind"),
				}
				room := len(waiting) < 3
				v, receipt := p.Take(t.Context(), request)
				in := roles[mode]
				switch {
				case in.primary == none:
					if v.Reason != stage.Granted {
						r.Fatalf("disabled, and %+v", v)
					}
				case v != []*bucket{o, n}[in.primary].answer:
					r.Fatalf("the primary said %+v, and the pair %+v", []*bucket{o, n}[in.primary].answer, v)
				}
				if receipt != (stage.Receipt{}) && (request.Kind == stage.Final || !v.OK() || receipt.N > request.N) {
					r.Fatalf("%+v: %+v, %+v", request, v, receipt)
				}
				if receipt != (stage.Receipt{}) {
					open = append(open, receipt)
				}
				if in.shadow != none && request.Kind < stage.Charge {
					switch {
					case int(in.shadow) == remote && !room:
						want.Skipped += request.N
					case int(in.shadow) == remote: // now, instead of when it is there
						f := waiting[len(waiting)-1]
						waiting[len(waiting)-1] = func() {
							f()
							var ok [2]bool
							ok[in.primary], ok[in.shadow] = v.OK(), []*bucket{o, n}[in.shadow].answer.OK()
							count(&want, ok[0], ok[1], request.N)
						}
					default:
						ok := [2]bool{o.answer.OK(), n.answer.OK()}
						count(&want, ok[0], ok[1], request.N)
					}
				}
			}
			if c := p.Counts(); c != want {
				r.Fatalf("counts %+v, want %+v", c, want)
			}
		}
		for _, f := range waiting {
			f()
		}
		for _, receipt := range open {
			p.Settle(now, receipt, 0)
		}
		if len(o.open)+len(n.open) > 0 {
			r.Fatalf("all is settled, but %v and %v are open", o.open, n.open)
		}
	})
}

// prompt is a remote bucket whose answer takes no time, but waits to be run.
type prompt struct{ *bucket }

func (p prompt) Level(now stage.Instant) stage.Level {
	return elsewhere(p).Level(now)
}

func (p prompt) Cap(stage.Instant, float64) {}

// The stage that begins to answer is capped before anybody can ask it, and
// again for what was taken from the other meanwhile.
func TestTokensAreLoweredBeforeAndAfterTheSwitch(t *testing.T) {
	o, n := newBucket(t, 0, 5), newBucket(t, 0, 5)
	p := NewPair(0, o, n, old, noBackground)
	var seen []dynamicconfig.Mode
	n.capped = func() {
		seen = append(seen, p.Mode())
		if len(seen) == 1 {
			allow(p, 0, 2)
		}
	}
	p.SetMode(0, onlyNew)
	if !slices.Equal(seen, []dynamicconfig.Mode{old, onlyNew}) || !near(n.has(0), 3) {
		t.Errorf("lowered in the modes %v, to %v tokens; want old and new, to 3", seen, n.has(0))
	}
}

func TestSwitchingDoesNotStarve(t *testing.T) {
	p := NewPair(0, newBucket(t, 100, 10), newBucket(t, 100, 10), old, noBackground)
	allowed := 0
	for i := range 10_000 { // ms
		now := stage.Instant(i) * second / 1000
		p.SetMode(now, modes[1+i%4])
		if allow(p, now, 1) {
			allowed++
		}
	}
	if allowed < 1000 || allowed > 1010 {
		t.Errorf("allowed %d in 10 s of 100/s", allowed)
	}
}

func TestSwitchingWhileManyCall(t *testing.T) {
	const burst, callers, switches = 20_000, 4, 200
	p := NewPair(0, newBucket(t, 0, burst), newBucket(t, 0, burst), old, noBackground)
	var allowed atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range burst {
				if allow(p, 0, 1) {
					allowed.Add(1)
				}
				if v, receipt := p.Take(t.Context(), stage.Request{N: 1}); v.OK() {
					p.Settle(0, receipt, 1)
					allowed.Add(1)
				}
			}
		})
	}
	meanwhile := int64(0) // calls that ran while the mode changed, at most
	for i := range switches {
		before := allowed.Load()
		p.SetMode(0, modes[1+i%4])
		meanwhile += allowed.Load() - before + callers
		p.Counts()
	}
	wg.Wait()
	// The last to answer may have been left with less than there was.
	if total := allowed.Load(); total > burst+meanwhile || total < burst-meanwhile {
		t.Errorf("allowed %d of %d, while %d calls ran beside a change", total, burst, meanwhile)
	}
}

func TestEveryCallIsCountedOnce(t *testing.T) {
	p := NewPair(0, newBucket(t, 0, 1000), newBucket(t, 0, 3000), oldShadowNew, noBackground)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				allow(p, 0, 1)
				p.SetMode(0, oldShadowNew) // changes nothing
			}
		})
	}
	wg.Wait()
	c := p.Counts()
	if c.Both+c.OnlyOld != 1000 || c.Both+c.OnlyNew != 3000 || c.Both+c.OnlyOld+c.OnlyNew+c.Neither != 4000 {
		t.Errorf("%+v of 4000; the old had 1000 and the new 3000", c)
	}
}

func kindOf(final bool) stage.Kind {
	if final {
		return stage.Final
	}
	return stage.Take
}

// Two Pairs that differ only in how they are asked for one token.
func TestAllowIsTakeOfOneToken(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		type made struct {
			*Pair
			sides [2]*becomes
			later []func()
		}
		remote := [2]bool{rapid.Bool().Draw(r, "old is remote"), rapid.Bool().Draw(r, "new is remote")}
		full := rapid.Bool().Draw(r, "the background is full")
		limit, burst := rapid.Float64Range(0, 5).Draw(r, "limit"), rapid.IntRange(0, 5).Draw(r, "burst")
		build := func() *made {
			m := new(made)
			for i := range m.sides {
				m.sides[i] = &becomes{bucket: newBucket(t, rate.Limit(limit), burst+i), remote: remote[i]}
			}
			m.Pair = NewPair(0, m.sides[0], m.sides[1], old, func(f func()) bool {
				if !full {
					m.later = append(m.later, f)
				}
				return !full
			})
			return m
		}
		a, b := build(), build()
		both := func(do func(*made)) { do(a); do(b) }
		now := stage.Instant(0)
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			now += stage.Instant(rapid.Int64Range(0, 5e8).Draw(r, "pause"))
			switch rapid.IntRange(0, 5).Draw(r, "what") {
			case 0:
				mode := rapid.SampledFrom([]dynamicconfig.Mode{disabled, old, oldShadowNew, newShadowOld, onlyNew}).Draw(r, "mode")
				both(func(m *made) { m.SetMode(now, mode) })
			case 1:
				side, is := rapid.IntRange(0, 1).Draw(r, "side"), rapid.Bool().Draw(r, "is remote")
				both(func(m *made) { m.sides[side].remote = is })
			case 2:
				both(func(m *made) {
					for _, f := range m.later {
						f()
					}
					m.later = nil
				})
			default:
				v, _ := b.Take(t.Context(), stage.Request{Now: now, N: 1, Kind: stage.Final})
				if got := a.Allow(t.Context(), now); got != v.Reason {
					t.Fatalf("Allow says %v, Take %v", got, v.Reason)
				}
			}
			for i := range a.sides {
				if a, b := a.sides[i], b.sides[i]; a.tokens != b.tokens || a.asked != b.asked || a.charged != b.charged {
					t.Fatalf("side %d: %v tokens left of Allow's, %v of Take's; asked for %d and %d, charged %d and %d", i, a.tokens, b.tokens, a.asked, b.asked, a.charged, b.charged)
				}
			}
			if a.Counts() != b.Counts() {
				t.Fatalf("Allow counts %+v, Take %+v", a.Counts(), b.Counts())
			}
		}
	})
}
