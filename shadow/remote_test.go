// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

func TestNobodyWaitsForARemoteShadow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, 0, 5)
		p := NewPair(0, newBucket(t, 10, 10), elsewhere{b}, oldShadowNew, spawn)
		began, now := time.Now(), stage.Now()
		for range 4 {
			allow(p, now, 1)
		}
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 {
			p.Take(ctx, stage.Request{Now: now, N: 1})
		}
		cancel() // the caller goes, and the shadow is asked all the same
		if c := p.Counts(); time.Since(began) > 0 || c != (stage.Divergence{}) {
			t.Errorf("after %v: %+v", time.Since(began), c)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if c := p.Counts(); c != (stage.Divergence{Both: 5, OnlyOld: 2}) {
			t.Errorf("of 7: %+v", c)
		}
	})
}

func TestARemoteShadowThatWouldBeLaterDisagrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t, 1, 5)
		o := newBucket(t, 10, 1)
		p := NewPair(0, o, elsewhere{b}, oldShadowNew, spawn)
		o.Cap(stage.Now(), 0)
		b.Cap(stage.Now().Add(time.Hour), -1) // also after the second that it takes
		v, _ := p.Take(t.Context(), stage.Request{Now: stage.Now(), N: 1, Longest: time.Minute})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if c := p.Counts(); !v.OK() || c != (stage.Divergence{OnlyOld: 1}) || b.tokens != -1 {
			t.Errorf("%+v, %+v; %v tokens are left elsewhere", v, c, b.tokens)
		}
	})
}

func TestASettlementWaitsForTheAnswer(t *testing.T) {
	for _, after := range []time.Duration{0, 500 * time.Millisecond, time.Second, 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			o, n := newBucket(t, 0, 5), newBucket(t, 0, 5)
			p := NewPair(0, o, elsewhere{n}, oldShadowNew, spawn)
			_, receipt := p.Take(t.Context(), stage.Request{Now: stage.Now(), N: 3})
			time.Sleep(after)
			p.SetMode(stage.Now(), old) // no matter who is asked by now
			p.Settle(stage.Now(), receipt, 1)
			if o.tokens != 4 {
				t.Errorf("after %v: the primary has %v", after, o.tokens)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if n.tokens != 4 || n.settled != 1 {
				t.Errorf("after %v: the shadow has %v, settled %d", after, n.tokens, n.settled)
			}
		})
	}
}

// Each measurement is settled once, whether the caller settles it before, while
// or after the answer arrives. The bucket complains if it is settled twice.
func TestSettlementsRaceWithAnswers(t *testing.T) {
	const rounds, callers = 300, 4
	o, n := newBucket(t, 0, 1e9), newBucket(t, 0, 1e9)
	var running sync.WaitGroup
	p := NewPair(0, o, prompt{n}, oldShadowNew, func(f func()) bool {
		running.Go(f)
		return true
	})
	var wait sync.WaitGroup
	for range callers {
		wait.Go(func() {
			for range rounds {
				_, receipt := p.Take(t.Context(), stage.Request{N: 3})
				p.Settle(0, receipt, 1)
			}
		})
	}
	wait.Wait()
	running.Wait()
	const used = rounds * callers
	if n.settled != used || o.settled != used || n.tokens != 1e9-used || len(n.open) > 0 {
		t.Errorf("settled %d and %d of %d; used %v", o.settled, n.settled, used, 1e9-n.tokens)
	}
	if c := p.Counts(); c != (stage.Divergence{Both: 3 * used}) {
		t.Errorf("%+v", c)
	}
}

func TestAMeasurementIsSkippedWhenTooMuchRuns(t *testing.T) {
	for _, background := range []func(func()) bool{nil, func(func()) bool { return false }} {
		o, n := newBucket(t, 0, 5), newBucket(t, 0, 5)
		p := NewPair(0, o, prompt{n}, oldShadowNew, background)
		v, receipt := p.Take(t.Context(), stage.Request{N: 2})
		p.Settle(0, receipt, 1)
		if c := p.Counts(); !v.OK() || c != (stage.Divergence{Skipped: 2}) || n.calls() != 0 || o.tokens != 4 {
			t.Errorf("%+v, %+v; the shadow was asked for %d, and the primary has %v", v, c, n.calls(), o.tokens)
		}
		// A charge waits for nothing, so it is never skipped.
		p.Take(t.Context(), stage.Request{N: 2, Kind: stage.Charge})
		if n.charged != 2 {
			t.Errorf("charged %d", n.charged)
		}
	}
}

// The simulator runs at once what others run in the background.
func TestABackgroundThatRunsAtOnce(t *testing.T) {
	o, n := newBucket(t, 0, 5), newBucket(t, 0, 5)
	p := NewPair(0, o, prompt{n}, oldShadowNew, func(f func()) bool { f(); return true })
	_, receipt := p.Take(t.Context(), stage.Request{N: 2})
	p.Settle(0, receipt, 0)
	if o.tokens != 5 || n.tokens != 5 || p.Counts() != (stage.Divergence{Both: 2}) {
		t.Errorf("left are %v and %v, %+v", o.tokens, n.tokens, p.Counts())
	}
}

// A pair waits for the answer of a remote primary, and settles what a local shadow took beside it
// like any other event.
func TestARemotePrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, n := newBucket(t, 0, 10), newBucket(t, 0, 5)
		p := NewPair(0, o, elsewhere{n}, newShadowOld, spawn)
		began := time.Now()
		v, receipt := p.Take(t.Context(), stage.Request{Now: stage.Now(), N: 5})
		refused, _ := p.Take(t.Context(), stage.Request{Now: stage.Now(), N: 5})
		if !v.OK() || refused.OK() || time.Since(began) != 2*time.Second || p.Counts() != (stage.Divergence{Both: 5, OnlyOld: 5}) {
			t.Errorf("%+v, %+v after %v; %+v", v, refused, time.Since(began), p.Counts())
		}
		p.Settle(stage.Now(), receipt, 1)
		if o.tokens != 4 || n.tokens != 4 {
			t.Errorf("left are %v and %v", o.tokens, n.tokens)
		}
	})
}

// changing is remote at times, like a key of `auto`.
type changing struct {
	*bucket
	remote atomic.Bool
}

func (c *changing) Allow(ctx context.Context, now stage.Instant) stage.Reason {
	return stage.AllowByTake(ctx, now, c.Take)
}

func (c *changing) Take(ctx context.Context, r stage.Request) (stage.Verdict, stage.Receipt) {
	if c.remote.Load() {
		return elsewhere{c.bucket}.Take(ctx, r)
	}
	return c.bucket.Take(ctx, r)
}

func (c *changing) Level(now stage.Instant) stage.Level {
	level := c.bucket.Level(now)
	level.Remote = c.remote.Load()
	return level
}

func TestNobodyWaitsForAShadowThatBecomesRemote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &changing{bucket: newBucket(t, 0, 5)}
		var asked int
		p := NewPair(0, newBucket(t, 0, 10), n, oldShadowNew, func(f func()) bool { asked++; return spawn(f) })
		began := time.Now()
		for i, remote := range []bool{false, true, true, false, false} {
			n.remote.Store(remote)
			allow(p, stage.Now(), 1)
			if time.Since(began) > 0 {
				t.Fatalf("event %d: a caller waited", i)
			}
			synctest.Wait()
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		allow(p, stage.Now(), 1) // by now it is known to be local again
		if c := p.Counts(); asked != 3 || c != (stage.Divergence{Both: 5, OnlyOld: 1}) {
			t.Errorf("asked %d times in the background; %+v", asked, c)
		}
	})
}

// A pair that asks a remote stage again charges it with the events that it was not asked for, as
// far as they are not too long ago.
func TestARemoteStageIsChargedWithWhatItMissed(t *testing.T) {
	const ms = stage.Instant(time.Millisecond)
	n := newBucket(t, 10, 100)
	p := NewPair(0, newBucket(t, 1e6, 1e6), prompt{n}, old, func(f func()) bool { f(); return true })
	var now stage.Instant
	for i, step := range []struct {
		after          stage.Instant
		mode           dynamicconfig.Mode
		asked, charged int64 // before the change of mode, and by it
	}{
		{0, oldShadowNew, 0, 6},
		{0, newShadowOld, 5, 0},
		{0, onlyNew, 5, 0},
		{1000 * ms, old, 5, 0},
		{1000 * ms, onlyNew, 0, 6}, // and not what it was asked within the last 10 s
		{3600_000 * ms, old, 5, 0},
		{12_000 * ms, onlyNew, 0, 0}, // which is longer than 10 s ago
		{0, disabled, 5, 0},
		{3600_000 * ms, onlyNew, 0, 0}, // and nothing was limited
	} {
		n.tokens = 100 // so that nothing is refused
		n.asked, n.charged = 0, 0
		allow(p, now, 1)
		_, receipt := p.Take(t.Context(), stage.Request{Now: now, N: 4})
		p.Settle(now, receipt, 4)
		p.Take(t.Context(), stage.Request{Now: now, N: 1, Kind: stage.Charge})
		asked, charged := n.asked, n.charged
		if (asked > 0) != (charged == 1) {
			t.Errorf("step %d: asked for %d and charged %d", i, asked, charged)
		}
		now += step.after
		p.SetMode(now, step.mode)
		if asked != step.asked || n.charged-charged != step.charged {
			t.Errorf("step %d, to %v: asked for %d, and charged %d; want %d and %d", i, step.mode, asked, n.charged-charged, step.asked, step.charged)
		}
	}
}

// A remote stage knows each token that this host took, once: those that it was asked for, and
// those that it missed because of the mode, or because too much ran. What was given back by
// then, it is not charged with.
func TestARemoteStageKnowsEachTokenOnce(t *testing.T) {
	type event struct {
		cost, actual int64
		receipt      stage.Receipt
		asked, known bool
	}
	rapid.Check(t, func(r *rapid.T) {
		const most = 1e9 // of buckets that never refuse
		busy, mode := false, rapid.SampledFrom(modes[1:]).Draw(r, "mode")
		n := newBucket(t, 0, most)
		p := NewPair(0, newBucket(t, 0, most), prompt{n}, mode, func(f func()) bool {
			if !busy {
				f()
			}
			return !busy
		})
		var events []*event
		var now stage.Instant
		r.Repeat(map[string]func(*rapid.T){
			"take": func(r *rapid.T) {
				now += stage.Instant(rapid.Int64Range(0, 1e10).Draw(r, "pause"))
				busy = rapid.Bool().Draw(r, "busy")
				e := &event{cost: rapid.Int64Range(1, 9).Draw(r, "cost")}
				e.actual = e.cost
				_, e.receipt = p.Take(t.Context(), stage.Request{Now: now, N: e.cost, Kind: kindOf(rapid.Bool().Draw(r, "final"))})
				e.asked = mode != old && (mode != oldShadowNew || !busy)
				e.known = e.asked
				events = append(events, e)
			},
			"settle": func(r *rapid.T) {
				if len(events) == 0 {
					return
				}
				e := events[rapid.IntRange(0, len(events)-1).Draw(r, "which")]
				if e.receipt == (stage.Receipt{}) {
					return
				}
				actual := rapid.Int64Range(0, e.cost).Draw(r, "actual")
				p.Settle(now, e.receipt, actual)
				if e.receipt = (stage.Receipt{}); e.asked || !e.known {
					e.actual = actual
				}
			},
			"mode": func(r *rapid.T) {
				mode = rapid.SampledFrom(modes[1:]).Draw(r, "mode")
				p.SetMode(now, mode)
				for _, e := range events {
					e.known = e.known || mode != old
				}
			},
			"": func(r *rapid.T) {
				used := int64(0)
				for _, e := range events {
					if e.known {
						used += e.actual
					}
				}
				if got := most - n.has(now); got != float64(used) {
					r.Fatalf("%v: %v tokens are taken there, want %d", mode, got, used)
				}
			},
		})
	})
}

// A remote stage cannot be capped, and gives no second burst all the same.
func TestAJumpToARemoteStageGivesNoSecondBurst(t *testing.T) {
	const burst = 10
	o, n := newBucket(t, 1, burst), newBucket(t, 1, burst)
	p := NewPair(0, o, prompt{n}, old, spawn)
	count := func() (allowed int) {
		for range 2 * burst {
			if allow(p, 0, 1) {
				allowed++
			}
		}
		return allowed
	}
	if got := count(); got != burst {
		t.Fatalf("the burst was %d", got)
	}
	p.SetMode(0, onlyNew)
	if got := count(); got != 0 {
		t.Errorf("the remote stage let %d more through", got)
	}
	o.tokens = burst // as if somebody had given it back
	p.SetMode(0, old)
	if got := count(); got != 0 {
		t.Errorf("on the way back, %d more passed", got)
	}
}

// A debt of those who wait goes along to a remote stage, whenever they began to wait: else they
// and a full bucket would pass together.
func TestARemoteStageLacksWhatCallersWaitFor(t *testing.T) {
	for name, modes := range map[string][]dynamicconfig.Mode{
		"at once":              {onlyNew},
		"while it is measured": {oldShadowNew, newShadowOld},
	} {
		o, n := newBucket(t, 1, 10), newBucket(t, 1, 10)
		p := NewPair(0, o, prompt{n}, old, func(f func()) bool { f(); return true })
		for range 4 {
			if v, _ := p.Take(t.Context(), stage.Request{N: 10, Longest: time.Hour}); !v.OK() {
				t.Fatal("the wait is too long")
			}
		}
		now := 25 * second // in which the bucket has been full twice, but for the debt
		for _, mode := range modes {
			p.SetMode(now, mode)
			if a, b := o.has(now), n.has(now); a != -5 || b != -5 {
				t.Errorf("%s, %v: the remote stage has %v tokens, and the other one %v; want -5", name, mode, b, a)
			}
		}
	}
}

// A remote stage that refused events as the shadow, which the other stage allowed, gives no second
// burst once it answers. The pair charges the remote stage until it lacks as much as the other one,
// and charges nothing that other hosts took.
func TestARemoteStageThatRefusedGivesNoSecondBurst(t *testing.T) {
	at := func(f func()) bool { f(); return true }
	for name, tc := range map[string]struct {
		others int64 // tokens that other hosts took
		costs  []int64
		back   int64 // given back, of the last event
		want   float64
	}{
		"one event of all":        {1, []int64{20}, 0, 0},
		"a part is known":         {1, []int64{8, 12}, 0, 0},
		"what is given back":      {1, []int64{20}, 15, 15},
		"nothing was refused":     {5, []int64{8}, 0, 7},
		"others took more":        {16, []int64{8}, 0, 4},
		"nothing passed, nothing": {1, nil, 0, 19},
	} {
		o, n := newBucket(t, 0, 20), newBucket(t, 0, 20)
		n.tokens -= float64(tc.others)
		p := NewPair(0, o, prompt{n}, oldShadowNew, at)
		var receipt stage.Receipt
		var last int64
		for _, last = range tc.costs {
			_, receipt = p.Take(t.Context(), stage.Request{N: last})
		}
		if tc.back > 0 {
			p.Settle(0, receipt, last-tc.back)
		}
		for range 2 {
			p.SetMode(0, newShadowOld)
			if n.tokens != tc.want {
				t.Errorf("%s: the remote stage has %v tokens, and the other one %v; want %v", name, n.tokens, o.tokens, tc.want)
			}
		}
	}
}

// becomes is a stage that becomes remote.
type becomes struct {
	*bucket
	remote bool
}

func (b *becomes) Level(now stage.Instant) stage.Level {
	level := b.bucket.Level(now)
	level.Remote = b.remote
	return level
}

func TestAJumpToAStageThatHasBecomeRemoteGivesNoSecondBurst(t *testing.T) {
	for name, modes := range map[string][]dynamicconfig.Mode{
		"at once":                           {onlyNew},
		"after a config that kept the mode": {old, onlyNew},
	} {
		o, n := newBucket(t, 1, 10), &becomes{bucket: newBucket(t, 1, 10)}
		p := NewPair(0, o, n, old, spawn)
		if !allow(p, 0, 7) {
			t.Fatal("it is refused")
		}
		n.remote = true
		for _, mode := range modes {
			p.SetMode(0, mode)
		}
		if n.charged != 7 {
			t.Errorf("%s: charged with %d, want 7", name, n.charged)
		}
	}
}

func TestHugeCostsDoNotOverflow(t *testing.T) {
	b := newBucket(t, 1, 5)
	p := NewPair(0, newBucket(t, 1, 5), elsewhere{b}, dynamicconfig.ModeOld, spawn)
	for _, n := range []int64{math.MaxInt64, 5} {
		p.Take(t.Context(), stage.Request{N: n, Kind: stage.Charge})
	}
	if p.SetMode(0, dynamicconfig.ModeNew); b.tokens >= 0 {
		t.Errorf("the remote bucket has %v tokens left of 5, and this host used more", b.tokens)
	}
	p = NewPair(0, newBucket(t, 1, 5), newBucket(t, 1, 5), oldShadowNew, spawn)
	for range 2 {
		p.Take(t.Context(), stage.Request{N: math.MaxInt64})
	}
	if c := p.Counts(); c.Both+c.Neither <= 0 {
		t.Errorf("%+v", c)
	}
}
