// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/uber-go/tally/v4"
	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/shadow"
)

// TestModelOfAllow drives two Groups alike, but one is asked with Allow where the other is asked
// with AllowN for one token. Whatever changes meanwhile, both answer, count, trace and report the same.
func TestModelOfAllow(t *testing.T) {
	inBubbles(t, func(rt *rapid.T) machine { return newAllowModel(rt) })
}

// allowModel is the state machine. The first of each pair is asked with Allow.
type allowModel struct {
	rt      *rapid.T
	family  []string
	migrate bool
	hosts   int
	scopes  [2]tally.TestScope
	groups  [2]*limiter.Group
	held    [2]map[string]*limiter.Limiter
	remotes [2]*remoteRef
	sent    [2][]*driver.Batch
	open    [2][]*limiter.Reservation
	pairs   [2]*shadow.Pair // of two keys
}

var allowKeys = []string{"k1", "k2", "k3"}

func newAllowModel(rt *rapid.T) *allowModel {
	m := &allowModel{rt: rt, hosts: pick(rt, "hosts", 1, 2, 40)}
	m.family = pick(rt, "family", []string{"even", "request-weighted", "elastic", "drop-ratio"}, []string{"redis", "auto", "even", "elastic"})
	m.migrate = rapid.Bool().Draw(rt, "migrates")
	listens := pick(rt, "listens", false, false, true)
	lends := pick(rt, "lends", 1.0, 0.3, 0)
	s := m.draw(rt)
	for i := range m.groups {
		r := &remoteRef{lends: lends, buckets: make(map[string]*remoteBucket)}
		m.scopes[i], m.remotes[i], m.held[i] = tally.NewTestScope("", nil), r, make(map[string]*limiter.Limiter)
		options := []limiter.Option{
			driver.WithSeed(1), limiter.WithMigration(shadow.Migrator()), limiter.WithScope(m.scopes[i]),
			limiter.WithRemote("redis", r), limiter.WithRemote("auto", r), driver.WithBackground(r.background),
		}
		if listens {
			options = append(options, limiter.WithListener(func([]limiter.Event) {}))
		}
		m.groups[i] = limiter.NewGroup(s, m.hosts, options...)
		background := func(f func()) bool { r.background(f); return true }
		m.pairs[i] = shadow.NewPair(stage.Now(), m.groups[i].For("k1").Stage(), m.groups[i].For("k2").Stage(), dynamicconfig.ModeOldShadowNew, background)
	}
	return m
}

func (m *allowModel) draw(rt *rapid.T) *dynamicconfig.Snapshot {
	r := dynamicconfig.Rule{
		Key: "k*", Limit: pick[rate.Limit](rt, "limit", 10, 2, 0.5, 0), IdleAfter: 3 * time.Second,
		Shared: pick(rt, "shared", false, false, true), MaxKeys: pick(rt, "max_keys", 100, 1, 2),
		Fallback: pick(rt, "fallback", dynamicconfig.FallbackEven, dynamicconfig.FallbackOpen, dynamicconfig.FallbackClosed, dynamicconfig.FallbackSafe),
		Burst:    pick(rt, "burst", 3.0, 1, 10),
	}
	if pick(rt, "terms", false, false, true) {
		r.MaxWait = pick(rt, "max_wait", time.Duration(0), dynamicconfig.None, 2*time.Second)
		r.MaxDebt = pick(rt, "max_debt", time.Duration(0), 5*time.Second)
		r.Enforce = pick(rt, "enforce", 0.0, dynamicconfig.Soft, 0.5)
	}
	if r.Fallback == dynamicconfig.FallbackSafe {
		r.SafeCapacity = 2
	}
	if r.Limit == 0 {
		r.Burst = 0
	}
	r.Algorithm = pick(rt, "algorithm", m.family...)
	if m.migrate {
		r.Migration = &dynamicconfig.Migration{From: m.family[0], To: m.family[1], Mode: drawMode(rt)}
		r.Algorithm = ""
	}
	if pick(rt, "gone", false, false, false, true) {
		r.Key = "j*"
	}
	var over dynamicconfig.Override
	switch pick(rt, "override", "", "", "", "bypass", "half") {
	case "bypass":
		over.Bypass = true
	case "half":
		over.Factor = 0.5
	}
	return snapshotOf(rt, r, over)
}

func (m *allowModel) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"allow": m.allow, "allow again": m.allow, "allow more": m.allow, "reserve": m.reserve, "cancel": m.cancel, "charge": m.charge,
		"time": m.time, "report": m.report, "early": m.early, "answer": m.answer, "answer again": m.answer, "configure": m.configure,
		"mode": m.mode, "reset": m.reset, "hosts": m.setHosts, "remote": m.remote, "trace": m.trace, "": m.check,
	}
}

// both calls f with each side at one Instant.
func (m *allowModel) both(f func(i int, g *limiter.Group)) {
	for i, g := range m.groups {
		f(i, g)
	}
}

// limiter is the Limiter of a key: one that is held since earlier, or a new one.
func (m *allowModel) limiter(i int, key string, held bool) *limiter.Limiter {
	l := m.held[i][key]
	if l == nil || !held {
		l = m.groups[i].For(key)
		m.held[i][key] = l
	}
	return l
}

func (m *allowModel) allow(rt *rapid.T) {
	key, held := pick(rt, "key", allowKeys...), rapid.Bool().Draw(rt, "held")
	as, late := pick(rt, "as", "limiter", "stage", "pair"), pick(rt, "late", false, false, true)
	for range pick(rt, "times", 1, 1, 4) {
		time.Sleep(time.Nanosecond)
		now := stage.Now()
		if late && as != "limiter" {
			now = now.Add(-100 * time.Millisecond)
		}
		var ok [2]stage.Reason
		m.both(func(i int, _ *limiter.Group) {
			l := m.limiter(i, key, held)
			if as == "limiter" {
				ok[i] = stage.Limited
				if i == 0 && l.Allow() || i == 1 && l.AllowN(time.Now(), 1) {
					ok[i] = stage.Granted
				}
				return
			}
			s := l.Stage()
			if as == "pair" {
				s = limiter.FromStage(m.pairs[i]).Stage()
			}
			if i == 0 {
				ok[i] = s.Allow(context.Background(), now)
			} else {
				v, _ := s.Take(context.Background(), stage.Request{Now: now, N: 1, Kind: stage.Final})
				ok[i] = v.Reason
			}
		})
		if ok[0] != ok[1] {
			rt.Fatalf("Allow says %v, AllowN %v", ok[0], ok[1])
		}
	}
}

func (m *allowModel) reserve(rt *rapid.T) {
	key, n := pick(rt, "key", allowKeys...), rapid.IntRange(1, 4).Draw(rt, "n")
	time.Sleep(time.Nanosecond)
	m.both(func(i int, _ *limiter.Group) {
		m.open[i] = append(m.open[i], m.limiter(i, key, true).ReserveN(time.Now(), n))
	})
}

func (m *allowModel) cancel(rt *rapid.T) {
	if len(m.open[0]) == 0 {
		return
	}
	at := rapid.IntRange(0, len(m.open[0])-1).Draw(rt, "which")
	m.both(func(i int, _ *limiter.Group) {
		m.open[i][at].Cancel()
		m.open[i] = slices.Delete(m.open[i], at, at+1)
	})
}

func (m *allowModel) charge(rt *rapid.T) {
	key, n := pick(rt, "key", allowKeys...), rapid.IntRange(1, 6).Draw(rt, "n")
	m.both(func(i int, _ *limiter.Group) { m.limiter(i, key, true).Charge(n) })
}

func (m *allowModel) time(rt *rapid.T) {
	time.Sleep(pick(rt, "passed", 10*time.Millisecond, 300*time.Millisecond, time.Second, 5*time.Second))
}

func (m *allowModel) report(*rapid.T) {
	time.Sleep(time.Second)
	m.both(func(i int, g *limiter.Group) { m.sent[i] = append(m.sent[i], driver.Of(g).Report(stage.Now())...) })
}

func (m *allowModel) early(rt *rapid.T) {
	if driver.Of(m.groups[0]).NextEarly() != driver.Of(m.groups[1]).NextEarly() {
		rt.Fatal("early reports are due at different times")
	}
	m.both(func(i int, g *limiter.Group) { m.sent[i] = append(m.sent[i], driver.Of(g).Early(stage.Now())...) })
}

func (m *allowModel) answer(rt *rapid.T) {
	weight, lease := pick(rt, "weight", 0.5, 0.1, 1), pick(rt, "lease", 2*time.Second, 20*time.Second)
	floor, answered := pick(rt, "floor", usage.Floor(0), usage.FloorDrop), pick(rt, "answered", true, true, false)
	lends, tokens := rapid.Bool().Draw(rt, "tokens"), pick(rt, "lent", 1.0, 0, 3)
	if len(m.sent[0]) != len(m.sent[1]) {
		rt.Fatalf("%d and %d reports", len(m.sent[0]), len(m.sent[1]))
	}
	for at := range m.sent[0] {
		a, b := rowsOf(m.sent[0][at]), rowsOf(m.sent[1][at])
		if !reflect.DeepEqual(a, b) {
			rt.Fatalf("reports differ:\n%v\n%v", a, b)
		}
	}
	m.both(func(i int, g *limiter.Group) {
		d := driver.Of(g)
		for _, b := range m.sent[i] {
			grants := &usage.Grants{Floor: floor}
			for range b.Usage.Len() {
				grants.Weight, grants.Burst = append(grants.Weight, weight), append(grants.Burst, 10*weight)
				grants.Used, grants.Lease = append(grants.Used, 3), append(grants.Lease, lease)
				if lends && floor == 0 {
					grants.Tokens = append(grants.Tokens, tokens)
				}
			}
			if !answered {
				d.Fail(stage.Now(), b, nil)
			} else if err := d.Apply(stage.Now(), b, nil, grants); err != nil {
				rt.Fatal(err)
			}
			d.Done(b)
		}
		m.sent[i] = nil
	})
}

// rowsOf is what a report says of each key.
func rowsOf(b *driver.Batch) map[string]string {
	rows := make(map[string]string)
	u := &b.Usage
	for i := range u.Len() {
		row := fmt.Sprint(u.Algorithm, u.Allowed[i], u.Rejected[i], u.Elapsed[i], u.Weight[i])
		if u.Wants != nil {
			row += fmt.Sprint(" ", u.Wants[i])
		}
		if u.Cost != nil {
			row += fmt.Sprint(" ", u.Cost[i])
		}
		rows[u.Keys[i]] = row
	}
	return rows
}

func (m *allowModel) configure(rt *rapid.T) {
	s := m.draw(rt)
	m.both(func(_ int, g *limiter.Group) { driver.Of(g).Configure(stage.Now(), s) })
}

func (m *allowModel) mode(rt *rapid.T) {
	mode := drawMode(rt)
	m.both(func(i int, _ *limiter.Group) { m.pairs[i].SetMode(stage.Now(), mode) })
}

func (m *allowModel) reset(rt *rapid.T) {
	key := pick(rt, "key", allowKeys...)
	m.both(func(_ int, g *limiter.Group) { _ = g.Reset(context.Background(), key) })
}

func (m *allowModel) setHosts(rt *rapid.T) {
	hosts := pick(rt, "hosts", 1, 2, 40)
	m.both(func(_ int, g *limiter.Group) { driver.Of(g).SetHosts(stage.Now(), hosts) })
}

func (m *allowModel) remote(rt *rapid.T) {
	f := pick(rt, "fault", works, works, down, busy, loses, raves, panics)
	m.both(func(i int, _ *limiter.Group) { m.remotes[i].fault = f })
}

func (m *allowModel) trace(rt *rapid.T) {
	key, on := pick(rt, "key", allowKeys...), rapid.Bool().Draw(rt, "on")
	m.both(func(_ int, g *limiter.Group) { g.Trace(key, on) })
}

// check compares what the two sides tell.
func (m *allowModel) check(rt *rapid.T) {
	for _, key := range append([]string{"k*", "j*"}, allowKeys...) {
		var status [2]limiter.Status
		var traced [2][]limiter.Traced
		m.both(func(i int, g *limiter.Group) {
			status[i], _ = g.Inspect(key)
			traced[i], _ = g.Traced(key)
		})
		if a, b, same := alike(status[0], status[1]); !same {
			rt.Fatalf("%s: Allow\n%s\nAllowN\n%s", key, a, b)
		}
		if a, b, same := alike(traced[0], traced[1]); !same {
			rt.Fatalf("%s is traced: Allow\n%s\nAllowN\n%s", key, a, b)
		}
	}
	if a, b := m.pairs[0].Counts(), m.pairs[1].Counts(); a != b {
		rt.Fatalf("the pair counts %+v with Allow, and %+v with AllowN", a, b)
	}
}

// alike reports whether a and b are the same, or the same as text, which it returns if they may differ.
func alike(a, b any) (textOfA, textOfB string, same bool) {
	if reflect.DeepEqual(a, b) {
		return "", "", true
	}
	textOfA, textOfB = fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", b)
	return textOfA, textOfB, textOfA == textOfB
}

// checkCounts compares the metrics, which only grow: a difference is still there in the end.
func (m *allowModel) checkCounts(rt *rapid.T) {
	var counts [2]map[string]int64
	m.both(func(i int, _ *limiter.Group) {
		counts[i] = make(map[string]int64)
		for name, c := range m.scopes[i].Snapshot().Counters() {
			if c.Value() != 0 {
				counts[i][name] = c.Value()
			}
		}
	})
	if !maps.Equal(counts[0], counts[1]) {
		rt.Fatalf("Allow counts\n%v\nAllowN\n%v", counts[0], counts[1])
	}
}

func (m *allowModel) finish() {
	for range 3 {
		m.report(m.rt)
		m.check(m.rt)
	}
	m.checkCounts(m.rt)
}

func (m *allowModel) end() {}
