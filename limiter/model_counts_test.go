// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"testing"
	"testing/synctest"
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

// TestModelOfCounts drives a Group whose rule migrates, and beside it one Group for each of the
// two algorithms, which has it alone. What the metrics of the first Group count as allowed by
// both, by one or by none is what the two others answered.
func TestModelOfCounts(t *testing.T) {
	inBubbles(t, func(rt *rapid.T) machine { return newCountsModel(rt) })
}

// countsModel is the state machine. Of each pair, the old side is the first.
type countsModel struct {
	rt     *rapid.T
	rule   dynamicconfig.Rule // which migrates
	modes  []dynamicconfig.Mode
	over   dynamicconfig.Override
	hosts  int
	scope  tally.TestScope
	moves  *limiter.Group
	alone  [2]*limiter.Group
	remote [2]*remoteRef // of moves, and of alone
	fails  bool          // the remotes may fail, and the rule does not change: a side that is measured keeps its fallback's tokens then, and one that answers may not
	lease  stage.Instant // when the newest grants end
	capped stage.Instant // until when what a fallback will give may be less because of a reload, on the side that answers alone
	open   []openCounts
	want   stage.Divergence
}

// leaseOfCounts is how long a grant is valid.
const leaseOfCounts = 2 * time.Second

// openCounts is what can be given back.
type openCounts struct {
	end   func(actual int64) // of the Group that migrates
	alone [2]func(actual int64)
}

func newCountsModel(rt *rapid.T) *countsModel {
	m := &countsModel{rt: rt, hosts: 1, fails: rapid.Bool().Draw(rt, "fails"), scope: tally.NewTestScope("", nil)}
	m.rule = dynamicconfig.Rule{Key: "k*", Limit: 10, Burst: 10, IdleAfter: 10 * time.Minute}
	between := pick(rt, "between", [2]string{"even", "request-weighted"}, [2]string{"request-weighted", "even"}, [2]string{"even", "redis"}, [2]string{"static", "fair-share"})
	m.modes = []dynamicconfig.Mode{dynamicconfig.ModeOldShadowNew, dynamicconfig.ModeNewShadowOld}
	switch between[1] {
	case "fair-share":
		m.rule.InFlight, m.rule.Burst, m.rule.Lease = true, 0, 5*time.Second
		m.modes = append(m.modes, dynamicconfig.ModeOld, dynamicconfig.ModeNew, dynamicconfig.ModeDisabled)
	case "even", "request-weighted": // what a disabled rate remembers, no side alone knows
		m.modes = append(m.modes, dynamicconfig.ModeOld, dynamicconfig.ModeNew)
	}
	if !m.rule.InFlight {
		m.rule.Burst = pick(rt, "burst", 10.0, 5)
	}
	m.rule.Migration = &dynamicconfig.Migration{From: between[0], To: between[1]}
	m.draw(rt)
	for i := range m.remote {
		m.remote[i] = &remoteRef{buckets: make(map[string]*remoteBucket)}
	}
	group := func(s *dynamicconfig.Snapshot, remote *remoteRef, opts ...limiter.Option) *limiter.Group {
		return limiter.NewGroup(s, m.hosts, append(opts, driver.WithSeed(1), limiter.WithRemote("redis", remote), driver.WithBackground(remote.background))...)
	}
	m.moves = group(snapshotOf(rt, m.rule, m.over), m.remote[0], limiter.WithMigration(shadow.Migrator()), limiter.WithScope(m.scope))
	for i := range m.alone {
		m.alone[i] = group(m.snapshotAlone(i), m.remote[1])
	}
	return m
}

// draw draws the rule and the override anew, but for what migrates to what.
func (m *countsModel) draw(rt *rapid.T) {
	r := &m.rule
	r.Migration = &dynamicconfig.Migration{From: r.Migration.From, To: r.Migration.To, Mode: pick(rt, "mode", m.modes...)}
	r.Limit = pick[rate.Limit](rt, "limit", 10, 4, 20)
	m.over = dynamicconfig.Override{}
	switch pick(rt, "override", "", "", "bypass", "limit") {
	case "bypass":
		m.over.Bypass = true
	case "limit":
		m.over.Factor = 0.5
	}
	if r.InFlight {
		return
	}
	r.Enforce = pick(rt, "enforce", 0.0, dynamicconfig.Soft, 0.5)
	r.MaxWait = pick(rt, "max_wait", time.Duration(0), dynamicconfig.None, time.Second)
}

// snapshotAlone is the config of one side, enforced in full. The Group has no Migrator, so that
// side alone decides.
func (m *countsModel) snapshotAlone(i int) *dynamicconfig.Snapshot {
	r := m.rule
	migration := *r.Migration
	migration.Mode, r.Migration, r.Enforce = [2]dynamicconfig.Mode{dynamicconfig.ModeOld, dynamicconfig.ModeNew}[i], &migration, 0
	return snapshotOf(m.rt, r, m.over)
}

func (m *countsModel) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"take": m.take, "take again": m.take, "charge": m.charge, "end": m.end1, "end again": m.end1,
		"time": m.time, "idle": m.idle, "report": m.report, "configure": m.configure, "reset": m.reset, "hosts": m.setHosts, "remote": m.fail,
	}
}

// sides are the side that answers and the one that is measured; below 0: none.
func (m *countsModel) sides() (answers, measured int) {
	switch m.rule.Migration.Mode {
	case dynamicconfig.ModeOld:
		return 0, -1
	case dynamicconfig.ModeOldShadowNew:
		return 0, 1
	case dynamicconfig.ModeNewShadowOld:
		return 1, 0
	case dynamicconfig.ModeNew:
		return 1, -1
	}
	return -1, -1
}

// live has key be in use in all Groups, as it is in the one that migrates.
func (m *countsModel) live(key string) {
	for _, g := range m.alone {
		g.For(key).Stage().Level(stage.Now())
	}
}

func (m *countsModel) count(n int64, ok [2]bool) {
	switch {
	case ok[0] && ok[1]:
		m.want.Both += n
	case ok[0]:
		m.want.OnlyOld += n
	case ok[1]:
		m.want.OnlyNew += n
	default:
		m.want.Neither += n
	}
}

func (m *countsModel) take(rt *rapid.T) {
	key, n := pick(rt, "key", "k1", "k2"), rapid.Int64Range(1, 6).Draw(rt, "n")
	answers, measured := m.sides()
	time.Sleep(time.Nanosecond)
	m.live(key)
	if m.rule.InFlight {
		m.acquire(key, n, answers, measured)
		return
	}
	q := stage.Request{Now: stage.Now(), N: n, Longest: pick(rt, "longest", 0, 0, time.Second)}
	at := func(g *limiter.Group, q stage.Request) (stage.Verdict, func(actual int64)) {
		s := g.For(key).Stage()
		v, receipt := s.Take(context.Background(), q)
		return v, func(actual int64) { s.Settle(stage.Now(), receipt, actual) }
	}
	o := openCounts{}
	_, o.end = at(m.moves, q)
	if answers >= 0 && !m.over.Bypass {
		var ok [2]bool
		var v stage.Verdict
		v, o.alone[answers] = at(m.alone[answers], q)
		ok[answers] = v.OK()
		if measured >= 0 {
			if v.OK() {
				q.Longest = v.Wait + v.Wait/100
			} else {
				q.Kind = stage.Final
			}
			v, o.alone[measured] = at(m.alone[measured], q)
			ok[measured] = v.OK()
			m.count(n, ok)
		}
	}
	m.open = append(m.open, o)
}

func (m *countsModel) acquire(key string, n int64, answers, measured int) {
	at := func(g *limiter.Group) (bool, func(int64)) {
		release, ok := g.For(key).TryAcquire(int(n))
		return ok, func(int64) { release() }
	}
	o := openCounts{}
	_, o.end = at(m.moves)
	if answers >= 0 {
		var ok [2]bool
		ok[answers], o.alone[answers] = at(m.alone[answers])
		if measured >= 0 {
			if ok[measured], o.alone[measured] = at(m.alone[measured]); !ok[answers] {
				o.alone[measured](0) // the side that is measured holds nothing that the other refused
			}
			if !m.over.Bypass {
				m.count(n, ok)
			}
		}
	}
	m.open = append(m.open, o)
}

func (m *countsModel) charge(rt *rapid.T) {
	key, n := pick(rt, "key", "k1", "k2"), rapid.IntRange(1, 12).Draw(rt, "n")
	if m.rule.InFlight {
		return
	}
	time.Sleep(time.Nanosecond)
	m.live(key)
	m.moves.For(key).Charge(n)
	answers, measured := m.sides()
	for _, i := range []int{answers, measured} {
		if i >= 0 {
			m.alone[i].For(key).Charge(n)
		}
	}
}

// end1 settles, or releases, one of what is open.
func (m *countsModel) end1(rt *rapid.T) {
	if answers, _ := m.sides(); len(m.open) == 0 || answers < 0 { // what comes back while nothing answers is lost to the side that will
		return
	}
	i, actual := rapid.IntRange(0, len(m.open)-1).Draw(rt, "which"), rapid.Int64Range(0, 1).Draw(rt, "actual")
	o := m.open[i]
	m.open = append(m.open[:i:i], m.open[i+1:]...)
	o.end(actual)
	for _, end := range o.alone {
		if end != nil {
			end(actual)
		}
	}
}

func (m *countsModel) time(rt *rapid.T) {
	time.Sleep(time.Duration(rapid.Int64Range(1, int64(5*time.Second)).Draw(rt, "passed")))
}

// idle lets the keys be forgotten, unless slots are held or tokens owed: on one side alone, maybe.
// Nor are they while a remote bucket may get tokens back: a forgotten key's Group does not see them.
func (m *countsModel) idle(*rapid.T) {
	if m.fails || len(m.open) > 0 && (m.rule.InFlight || m.rule.Migration.To == "redis") {
		return
	}
	for range 3 {
		time.Sleep(20 * time.Minute)
		m.reported(0, false)
	}
	for _, r := range m.remote { // Redis keeps a bucket for ten minutes after its last event
		clear(r.buckets)
	}
}

func (m *countsModel) report(rt *rapid.T) {
	m.reported(pick(rt, "weight", 0.5, 0.1, 1), rapid.Bool().Draw(rt, "answered"))
}

func (m *countsModel) reported(weight float64, answered bool) {
	now := stage.Now()
	answered = answered || m.lease > 0 && now >= m.lease && now < m.capped // else the two fallbacks would answer, of which one was capped
	if answered {
		m.lease = now.Add(leaseOfCounts)
	}
	for _, g := range []*limiter.Group{m.moves, m.alone[0], m.alone[1]} {
		d := driver.Of(g)
		for _, b := range d.Report(now) {
			grants := &usage.Grants{}
			for range b.Usage.Len() {
				grants.Weight, grants.Burst = append(grants.Weight, weight), append(grants.Burst, 10*weight)
				grants.Used, grants.Lease = append(grants.Used, 0), append(grants.Lease, leaseOfCounts)
			}
			if !answered {
				d.Fail(now, b, nil)
			} else if err := d.Apply(now, b, nil, grants); err != nil {
				m.rt.Fatal(err)
			}
			d.Done(b)
		}
	}
}

func (m *countsModel) configure(rt *rapid.T) {
	if m.fails {
		return
	}
	now := stage.Now()
	if m.lease > 0 && now >= m.lease { // a reload caps what grants will give the side that answers and has fallen back, and not what they will give the one that is measured
		m.reported(0.5, true)
	}
	if m.lease > now {
		m.capped = now.Add(15 * time.Second) // the deepest debt is paid by then, and the bucket is full
	}
	before, _ := m.sides()
	m.draw(rt)
	driver.Of(m.moves).Configure(now, snapshotOf(rt, m.rule, m.over))
	for i, g := range m.alone {
		driver.Of(g).Configure(now, m.snapshotAlone(i))
	}
	after, _ := m.sides()
	if before == after || m.rule.InFlight {
		return
	}
	for _, key := range []string{"k1", "k2"} { // a side that begins to answer has no more than the other
		if _, live := m.moves.Inspect(key); !live {
			continue
		}
		begins, most := m.alone[after].For(key).Stage(), m.alone[before].For(key).Stage().Level(now).Tokens
		if begins.Level(now).Remote { // a cap leaves the remote bucket what it has, and the host charges that instead
			synctest.Wait()
			m.remote[1].bucket(key).bucketRef, m.remote[1].bucket(key).at = m.remote[0].bucket(key).bucketRef, m.remote[0].bucket(key).at
			if got := m.moves.For(key).Stage().Level(now).Tokens; got > most-1 {
				most = min(most, got) // it is charged with whole tokens
			}
		}
		begins.Cap(now, most)
	}
}

func (m *countsModel) reset(rt *rapid.T) {
	key := pick(rt, "key", "k1", "k2")
	for _, g := range []*limiter.Group{m.moves, m.alone[0], m.alone[1]} {
		_ = g.Reset(context.Background(), key) // a remote may fail
	}
}

func (m *countsModel) setHosts(rt *rapid.T) {
	if m.rule.Migration.To == "redis" { // then a change of mode gives each host its part of what is left there, which no side alone knows
		return
	}
	m.hosts = pick(rt, "hosts", 1, 2)
	for _, g := range []*limiter.Group{m.moves, m.alone[0], m.alone[1]} {
		driver.Of(g).SetHosts(stage.Now(), m.hosts)
	}
}

func (m *countsModel) fail(rt *rapid.T) {
	if !m.fails {
		return
	}
	f := pick(rt, "fault", works, works, down)
	m.remote[0].fault, m.remote[1].fault = f, f
}

func (m *countsModel) finish() {
	for range 2 {
		driver.Of(m.moves).Report(stage.Now())
	}
	var got stage.Divergence
	for _, c := range m.scope.Snapshot().Counters() {
		if c.Name() != "limiter.divergence" {
			continue
		}
		switch c.Tags()["allowed_by"] {
		case "both":
			got.Both += c.Value()
		case "only_old":
			got.OnlyOld += c.Value()
		case "only_new":
			got.OnlyNew += c.Value()
		case "neither":
			got.Neither += c.Value()
		default:
			got.Skipped += c.Value()
		}
	}
	if got != m.want {
		m.rt.Fatalf("the metrics count %+v, want %+v", got, m.want)
	}
}

func (m *countsModel) end() {
	for len(m.open) > 0 {
		m.open[0].end(0)
		m.open = m.open[1:]
	}
}
