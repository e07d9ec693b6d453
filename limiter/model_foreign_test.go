// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// TestModelOfForeign is TestModel for a pair of a Bucket and somebody's
// *rate.Limiter. Its laws are that the side that answers decides as the
// textbook's bucket does, that no step but time and a refund adds tokens, and
// that a change of mode adds none.
func TestModelOfForeign(t *testing.T) {
	inBubbles(t, func(rt *rapid.T) machine {
		m := &foreignModel{rt: rt, mode: drawMode(rt), now: stage.Now()}
		limit, burst := pick[rate.Limit](rt, "limit", 10, 1, 0.5), pick(rt, "burst", 10, 1, 3)
		m.ref = full(inf, inf)
		old, new := limiter.NewBucket(limit, burst), limiter.FromRate(rate.NewLimiter(limit, pick(rt, "other burst", 10, 1, 20)))
		m.pair = shadow.NewPair(0, old.Stage(), new.Stage(), m.mode, nil)
		m.limiter = limiter.FromStage(m.pair)
		m.ref.limit = 0
		m.sync()
		return m
	})
}

// foreignModel is the state machine of a pair.
type foreignModel struct {
	rt      *rapid.T
	pair    *shadow.Pair
	limiter *limiter.Limiter
	mode    dynamicconfig.Mode
	ref     bucketRef // of the side that answers
	now     stage.Instant
	open    []foreignTaken
}

type foreignTaken struct {
	n        int64
	estimate *limiter.Estimate
	reserved *limiter.Reservation
}

func (m *foreignModel) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"allow": m.take, "take": m.take, "reserve": m.take, "settle": m.settle, "charge": m.charge, "time": m.time, "mode": m.change,
	}
}

// step lets some time pass.
func (m *foreignModel) step() {
	time.Sleep(time.Nanosecond)
	m.ref.fill(stage.Now().Sub(m.now).Seconds())
	m.now = stage.Now()
}

// sync checks that there is no more than the reference has.
func (m *foreignModel) sync() {
	level := m.limiter.Stage().Level(m.now)
	limit := float64(level.Limit)
	if level.Limit == rate.Inf {
		limit = inf
	}
	m.ref.set(limit, level.Burst)
	if level.Tokens > m.ref.tokens+eps {
		m.rt.Fatalf("%v: %+v; the reference has %+v", m.mode, level, m.ref)
	}
	m.ref.tokens = level.Tokens
}

func (m *foreignModel) take(rt *rapid.T) {
	m.step()
	n, how := max(drawCost(rt), 1), pick(rt, "how", "Decide", "Take", "ReserveN")
	o, longest, wait := foreignTaken{n: n}, pick(rt, "longest", 0, time.Second, stage.Forever), time.Duration(0)
	var ok bool
	switch how {
	case "Decide":
		d := m.limiter.Decide(context.Background(), int(n), longest)
		ok, wait = d.OK, d.Wait
	case "Take":
		o.estimate = m.limiter.Take(context.Background(), int(n), longest)
		ok, wait = o.estimate.OK(), o.estimate.Decision().Wait
	default:
		longest = stage.Forever
		o.reserved = m.limiter.ReserveN(time.Now(), int(n))
		ok, wait = o.reserved.OK(), o.reserved.Delay()
	}
	most := longest.Seconds()
	if longest == stage.Forever {
		most = inf
	}
	d := m.ref.decide(float64(n), most, 0)
	if !d.unsure && (ok != (d.reason == stage.Granted) || ok && math.Abs(wait.Seconds()-d.wait) > 1e-3) {
		rt.Fatalf("%v: %s of %d: %v after %v; the reference says %+v of %+v", m.mode, how, n, ok, wait, d, m.ref)
	}
	if ok {
		m.ref.add(-float64(n))
		if how != "Decide" {
			m.open = append(m.open, o)
		}
	}
	m.sync()
}

func (m *foreignModel) settle(rt *rapid.T) {
	if len(m.open) == 0 {
		rt.Skip("nothing is taken")
	}
	m.step()
	i := rapid.IntRange(0, len(m.open)-1).Draw(rt, "which")
	o := m.open[i]
	m.open = slices.Delete(m.open, i, i+1)
	actual := int64(0)
	if o.estimate != nil {
		actual = pick(rt, "actual", 0, o.n/2, o.n, o.n+3)
		o.estimate.Settle(int(actual))
	} else {
		o.reserved.Cancel()
	}
	m.ref.add(float64(max(o.n-actual, 0)))
	m.sync()
}

func (m *foreignModel) charge(rt *rapid.T) {
	m.step()
	n := pick(rt, "n", 1, 5, 30)
	m.limiter.Charge(n)
	m.ref.charge(float64(n), m.ref.burst)
	m.sync()
}

func (m *foreignModel) time(rt *rapid.T) {
	time.Sleep(pick(rt, "how long", 100*time.Millisecond, time.Second, time.Minute))
	m.step()
	m.sync()
}

func (m *foreignModel) change(rt *rapid.T) {
	m.step()
	m.mode = drawMode(rt)
	m.pair.SetMode(m.now, m.mode)
	m.sync()
}

func (m *foreignModel) finish() {}
func (m *foreignModel) end()    {}

// TestModelOfExtremes calls everything with numbers and times at the ends of
// their ranges. Nothing panics, and what comes back is a number.
func TestModelOfExtremes(t *testing.T) {
	inBubbles(t, func(rt *rapid.T) machine { return &extremes{newModel(rt), nil} })
}

type extremes struct {
	*model
	reserved []*limiter.Reservation
}

func drawExtreme(rt *rapid.T, name string) int64 {
	return rapid.OneOf(rapid.SampledFrom([]int64{
		0, 1, -1, 2, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, math.MinInt64 + 1, math.MaxInt32, math.MinInt32, 1 << 40, 1<<40 + 1, 1 << 53, 1 << 61, 1 << 62, -1 << 62,
	}), rapid.Int64()).Draw(rt, name)
}

func (m *extremes) actions() map[string]func(*rapid.T) {
	s := m.sides[0]
	l := func(rt *rapid.T) *limiter.Limiter { return s.group.For(pick(rt, "key", "k:a", "k:b", "", "x")) }
	instant := func(rt *rapid.T) stage.Instant { return stage.Instant(drawExtreme(rt, "instant")) }
	return map[string]func(*rapid.T){
		"take": func(rt *rapid.T) {
			l := l(rt).Stage()
			r := stage.Request{
				Now: instant(rt), N: drawExtreme(rt, "n"), Longest: time.Duration(drawExtreme(rt, "longest")), Kind: rapid.SampledFrom([]stage.Kind{stage.Take, stage.Final, stage.Charge}).Draw(rt, "kind"),
			}
			v, receipt := l.Take(context.Background(), r)
			if math.IsNaN(v.Left) || v.Wait < 0 || v.RetryAfter < 0 || receipt.N < 0 {
				rt.Fatalf("%+v: %+v, %+v", r, v, receipt)
			}
			l.Settle(instant(rt), receipt, drawExtreme(rt, "actual"))
		},
		"methods": func(rt *rapid.T) {
			l, n, at := l(rt), int(drawExtreme(rt, "n")), instant(rt).Time()
			l.AllowN(at, n)
			m.reserved = append(m.reserved, l.ReserveN(at, n))
			l.Take(context.Background(), n, time.Duration(drawExtreme(rt, "longest"))).Settle(int(drawExtreme(rt, "actual")))
			l.Decide(context.Background(), n, time.Duration(drawExtreme(rt, "longest")))
			l.Charge(n)
			l.SetDemand(pick(rt, "demand", -1, 0, 1e300, inf, math.NaN()))
			_ = l.WaitN(expired, n)
		},
		"cancel": func(rt *rapid.T) {
			for _, r := range m.reserved {
				at := instant(rt).Time()
				if r.DelayFrom(at) < 0 {
					rt.Fatalf("a delay of %v", r.DelayFrom(at))
				}
				r.CancelAt(at)
			}
		},
		"level": func(rt *rapid.T) {
			if level := l(rt).Stage().Level(instant(rt)); math.IsNaN(level.Tokens) || math.IsNaN(level.Burst) || math.IsNaN(float64(level.Limit)) {
				rt.Fatalf("%+v", level)
			}
		},
		"report": func(rt *rapid.T) {
			at := instant(rt)
			for _, b := range append(s.manual.Report(at), s.manual.Early(at)...) {
				if err := b.Usage.Check(); err != nil {
					rt.Fatal(err)
				}
				m.sent = append(m.sent, &sent{batches: [2]*driver.Batch{b}})
			}
		},
		"answer": func(rt *rapid.T) {
			for _, sent := range m.sent {
				if b := sent.batches[0]; rapid.Bool().Draw(rt, "fails") {
					s.manual.Fail(instant(rt), b, nil)
				} else if err := s.manual.Apply(instant(rt), b, nil, grantOf(b.Usage.Len(), pick(rt, "weight", 0.5, 0, 1), pick(rt, "granted burst", 5, 0, 1e300), 24*time.Hour)); err != nil {
					rt.Fatal(err)
				}
			}
			m.sent = nil
		},
		"configure": func(rt *rapid.T) {
			m.rule = m.drawRule(rt)
			s.manual.Configure(instant(rt), m.snapshot())
		},
		"hosts":  func(rt *rapid.T) { s.manual.SetHosts(instant(rt), int(drawExtreme(rt, "hosts"))) },
		"remote": m.remote,
	}
}

func (m *extremes) finish() {}

var expired = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
