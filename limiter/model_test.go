// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"flag"
	"maps"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/rule"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/shadow"
)

// TestModel drives two Groups alike, but for the methods that ask for tokens,
// and compares them with each other and with a dumb reference after each step.
// The longest form is
//
//	HEADGATE_LONG=1 go test ./limiter -run 'TestModel' -rapid.checks=10000 -timeout 0
//
// which makes 400,000 runs of each model.
//
// Its laws are:
//   - An event is allowed if and only if the textbook's bucket allows it, with
//     the same wait. All methods agree.
//   - No step adds tokens but time, a refund, an owner's grant, and its loan beside
//     an event, as much as it lent and once. A refund is at most what was taken, and
//     for a cancelled reservation at least what nobody has reserved on top of.
//     A loan adds nothing while a report is under way, or if one was made meanwhile.
//   - What decides has the level that the rule, the hosts and the newest grant
//     say.
//   - What rows report of a key adds up to what it used, each event once. An event
//     that the owner paid is not among that, and one that a loan paid is.
//   - What a remote is charged, once per ID, adds up to what was let through
//     without it.
//   - A bypass lets all pass and takes nothing. What was taken before it is settled
//     as without it.
//   - A reset fills what is on this host, and what the remote has, and nothing else.
func TestModel(t *testing.T) {
	inBubbles(t, func(rt *rapid.T) machine { return newModel(rt) })
}

// machine is a state machine that a test drives.
type machine interface {
	actions() map[string]func(*rapid.T)
	finish() // checks what holds in the end
	end()    // leaves no goroutine behind
}

// inBubbles checks many of the machines that begin makes, each on virtual time.
func inBubbles(t *testing.T, begin func(*rapid.T) machine) {
	run := func(rt *rapid.T) {
		time.Sleep(stage.Now().Sub(0).Abs())
		m := begin(rt)
		defer m.end()
		rt.Repeat(m.actions())
		m.finish()
	}
	// The same machines in every run, and others with -rapid.seed. rapid's default is few: a
	// run takes a millisecond.
	seed := flag.Lookup("rapid.seed").Value
	given := seed.String()
	first, err := strconv.ParseUint(given, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = seed.Set(given) }()
	seeds := uint64(8)
	if testrun.Long() {
		seeds = 40 // with 3,000 runs, it finds each defect that it is known to find
	}
	for i := range seeds {
		if err := seed.Set(strconv.FormatUint(max(first, 1)+i, 10)); err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(rt *rapid.T) { rapid.SyncTest(rt, run) })
	}
}

func pick[E any](rt *rapid.T, name string, of ...E) E { return rapid.SampledFrom(of).Draw(rt, name) }

// model is the state machine of limits in events/s.
type model struct {
	rt      *rapid.T
	sides   [2]*side           // driven alike
	family  []string           // the algorithms that the rule may have
	stated  dynamicconfig.Rule // as the configuration has it
	rule    dynamicconfig.Rule // under the override
	hosts   int
	keys    map[string]*keyRef // by what is limited: a key, or the pattern of a shared rule
	touched map[string]bool    // keys that were asked for
	open    []*opened
	sent    []*sent
	now     stage.Instant
	reports int
	refunds bool
	over    dynamicconfig.Override // of the rule; the zero one is none
}

// side is a Group and its remote.
type side struct {
	group     *limiter.Group
	manual    driver.Driver
	remote    *remoteRef
	admitting func()          // runs once while a key is being admitted
	made      []*driver.Batch // while the remote was asked
	cancel    []context.CancelFunc
}

// keyRef is what the reference knows of something that is limited.
type keyRef struct {
	name    string
	parts   map[string]*partRef
	whole   bucketRef // one bucket for all, of which other hosts use nothing
	beside  bool      // its host holds tokens that did not come out of whole
	twice   float64   // tokens that came into a grant: the host takes it that they came in at the owner too
	usage   usageRef
	owed    float64 // what its remote bucket is to be charged
	moved   float64 // how much more that may be, because the key came from another bucket
	taken   float64 // from buckets on this host, ever
	spent   float64 // allowed or charged, ever, whatever bucket it came from
	deepest float64 // what a bucket could lack at most under the rules since then, but for the one in force
	changes int     // how often another bucket or level may have come into force
	ahead   int     // loans that its host asked for ahead
	live    bool
	acted   bool            // in this step
	latest  float64         // the tokens after the last step in which it acted
	heard   map[string]int  // the newest report that was answered, by algorithm
	newest  map[string]int  // the newest report
	under   map[string]bool // the algorithms that it was under
}

// opened is what was taken and may be given back.
type opened struct {
	key     *keyRef
	name    string // of the key that was asked for
	n       int64
	nothing bool // nothing was taken
	real    bool // tokens were taken from a bucket on this host
	counted bool // they count as used
	owed    bool // the remote is told what comes back
	away    bool // the remote gave them

	reserved bool // else it is settled
	waits    bool // one of the two sides waits for it
	acts     stage.Instant
	taken    float64 // by the key, up to this
	changes  int
	settle   [2]func(actual int64)
}

// sent is what was reported at one time.
type sent struct {
	number  int
	at      stage.Instant
	batches [2]*driver.Batch
	rows    []*rowRef
	tokens  []bucketRef // what the keys had
	taken   []float64
	changes []int
}

func newModel(rt *rapid.T) *model {
	m := &model{
		rt: rt, hosts: pick(rt, "hosts", 1, 2, 4), keys: make(map[string]*keyRef), touched: make(map[string]bool), now: stage.Now(),
		refunds: rapid.Bool().Draw(rt, "refunds"),
	}
	m.family = pick(rt, "family", []string{"even"}, []string{"even", "request-weighted", "elastic", "fair-share"},
		[]string{"redis", "auto"}, []string{"redis", "auto", "even", "request-weighted"})
	m.stated = m.drawRule(rt)
	m.rule = m.stated
	lends := pick(rt, "lends", 1.0, 0.3, 0)
	for _, name := range []string{"k:*", "k:a", "k:b", "k:c"} {
		m.key(name)
	}
	for i := range m.sides {
		s := &side{remote: &remoteRef{lends: lends, buckets: make(map[string]*remoteBucket)}}
		migrator := shadow.Migrator()
		pair := migrator.Stages
		migrator.Stages = func(now stage.Instant, old, new stage.Stage, mode dynamicconfig.Mode, background func(func()) bool) stage.Migration {
			if f := s.admitting; f != nil {
				s.admitting = nil
				f()
			}
			return pair(now, old, new, mode, background)
		}
		s.group = limiter.NewGroup(m.snapshot(), m.hosts, driver.WithSeed(1), limiter.WithMigration(migrator),
			limiter.WithRemote("redis", s.remote), limiter.WithRemote("auto", s.remote), driver.WithBackground(s.remote.background))
		s.manual = driver.Of(s.group)
		m.sides[i] = s
	}
	return m
}

func (m *model) drawRule(rt *rapid.T) dynamicconfig.Rule {
	r := dynamicconfig.Rule{
		Key: "k:*", Limit: pick[rate.Limit](rt, "limit", 10, 1, 100, 0.5, 0), IdleAfter: 3 * time.Second,
		Shared: pick(rt, "shared", false, false, true), MaxKeys: pick(rt, "max_keys", 100, 1, 2, 3),
		Fallback: pick(rt, "fallback", dynamicconfig.FallbackEven, dynamicconfig.FallbackOpen, dynamicconfig.FallbackClosed, dynamicconfig.FallbackSafe),
		MaxWait:  pick(rt, "max_wait", time.Duration(0), 0, dynamicconfig.None, 2*time.Second),
		MaxDebt:  pick(rt, "max_debt", time.Duration(0), 0, 5*time.Second, 100*time.Second),
		Enforce:  pick(rt, "enforce", 0.0, 0, 0, dynamicconfig.Soft, 0.5),
		Burst:    pick(rt, "burst", 10.0, 1, 50),
	}
	if r.Fallback == dynamicconfig.FallbackSafe {
		r.SafeCapacity = 2
	}
	if r.Limit == 0 {
		r.Burst = 0
	} else if r.MaxCost = pick(rt, "max_cost", 0.0, 0, 7); r.MaxCost > r.Burst && r.MaxDebt == 0 {
		r.MaxCost = 0
	}
	if m.rule.Key != "" && pick(rt, "stay", true, true, true, false) {
		r.Shared = m.rule.Shared
	}
	r.Algorithm = pick(rt, "algorithm", m.family...)
	if m.family[0] == "even" && len(m.family) > 1 && rapid.Bool().Draw(rt, "migrates") {
		r.Migration = &dynamicconfig.Migration{From: r.Algorithm, To: pick(rt, "to", m.family...), Mode: drawMode(rt)}
		if r.Algorithm = ""; r.Migration.From == r.Migration.To {
			r.Migration.From, r.Migration.To = "even", "request-weighted"
		}
	}
	return r
}

func drawMode(rt *rapid.T) dynamicconfig.Mode {
	return pick(rt, "mode", dynamicconfig.ModeOldShadowNew, dynamicconfig.ModeNewShadowOld, dynamicconfig.ModeOld, dynamicconfig.ModeNew, dynamicconfig.ModeDisabled)
}

func (m *model) snapshot() *dynamicconfig.Snapshot { return snapshotOf(m.rt, m.stated, m.over) }

func snapshotOf(rt *rapid.T, rule dynamicconfig.Rule, over dynamicconfig.Override) *dynamicconfig.Snapshot {
	c := dynamicconfig.Config{
		Properties: dynamicconfig.Properties{UpdateInterval: time.Second}, Rules: []dynamicconfig.Rule{rule},
	}
	if over != (dynamicconfig.Override{}) {
		over.Key, over.Until, over.Author, over.Reason = rule.Key, time.Now().Add(time.Hour), "ada", "a test"
		c.Overrides = append(c.Overrides, over)
	}
	s, err := c.Snapshot()
	if err != nil {
		rt.Fatal(err)
	}
	return s.At(time.Now())
}

// algorithms of a rule, the old one first.
func algorithms(r *dynamicconfig.Rule) []string {
	if r.Migration != nil {
		return []string{r.Migration.From, r.Migration.To}
	}
	return []string{r.Algorithm}
}

// answering is the algorithm that decides; empty if all is allowed.
func answering(r *dynamicconfig.Rule) string {
	if r.Migration == nil {
		return r.Algorithm
	}
	switch r.Migration.Mode {
	case dynamicconfig.ModeOld, dynamicconfig.ModeOldShadowNew:
		return r.Migration.From
	case dynamicconfig.ModeNew, dynamicconfig.ModeNewShadowOld:
		return r.Migration.To
	}
	return ""
}

// asks reports whether events are decided under an algorithm, or measured.
func asks(r *dynamicconfig.Rule, algorithm string) bool {
	if m := r.Migration; m != nil && (m.Mode == dynamicconfig.ModeOldShadowNew || m.Mode == dynamicconfig.ModeNewShadowOld) {
		return m.From == algorithm || m.To == algorithm
	}
	return answering(r) == algorithm
}

func reports(algorithm string) bool { return algorithm != "even" && algorithm != "redis" }

func (m *model) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"allow": m.allow, "allow again": m.allow, "wait": m.wait, "take": m.take, "reserve": m.reserve,
		"settle": m.settle, "settle again": m.settle, "charge": m.charge, "old clock": m.oldClock,
		"time": m.time, "idle": m.idle, "report": m.report, "answer": m.answer, "answer again": m.answer, "early": m.early,
		"configure": m.configure, "mode": m.mode, "override": m.override, "override again": m.override, "reset": m.reset, "hosts": m.setHosts, "hosts while admitting": m.hostsWhileAdmitting,
		"remote": m.remote, "lending": m.lending, "ask while reporting": m.askWhileReporting,
	}
}

// begin begins a step, at an Instant of its own.
func (m *model) begin() {
	time.Sleep(time.Nanosecond)
	now := stage.Now()
	for _, k := range m.sorted() {
		k.whole.fill(now.Sub(m.now).Seconds())
		for name, p := range k.parts {
			had := p.grant.tokens
			if p.fill(now.Sub(m.now).Seconds()); name == "auto" && p.granted {
				k.twice += max(p.grant.tokens-had, 0)
			}
		}
	}
	m.now = now
}

func (m *model) drawKey(rt *rapid.T) (string, *keyRef) {
	key := pick(rt, "key", "k:a", "k:a", "k:b", "k:c")
	m.touched[key] = true
	return key, m.limited(key)
}

// limited is what limits key now.
func (m *model) limited(key string) *keyRef {
	if m.rule.Shared {
		m.touched[m.rule.Key] = true
		return m.key(m.rule.Key)
	}
	return m.key(key)
}

func (m *model) key(name string) *keyRef {
	k := m.keys[name]
	if k == nil {
		k = &keyRef{name: name, heard: make(map[string]int), newest: make(map[string]int), under: make(map[string]bool), usage: usageRef{rows: make(map[rowAt]*rowRef)}}
		k.whole = m.full()
		m.renew(k)
		m.keys[name] = k
	}
	return k
}

func (m *model) sorted() (all []*keyRef) {
	for _, name := range slices.Sorted(maps.Keys(m.keys)) {
		all = append(all, m.keys[name])
	}
	return all
}

// renew has k begin with full buckets.
func (m *model) renew(k *keyRef) {
	k.parts = make(map[string]*partRef)
	for _, name := range algorithms(&m.rule) {
		k.under[name] = true
		l := m.fallback(name)
		k.parts[name] = &partRef{fallback: l, grant: bucketRef{burst: inf, tokens: inf}}
	}
}

// full is a full bucket for all hosts.
func (m *model) full() bucketRef { return full(float64(m.rule.Limit), m.rule.Burst) }

// fallback is the full bucket of a key without a grant.
func (m *model) fallback(algorithm string) bucketRef {
	limit, burst, n := float64(m.rule.Limit), m.rule.Burst, float64(m.hosts)
	if algorithm != "even" {
		switch m.rule.Fallback {
		case dynamicconfig.FallbackOpen:
			return full(inf, inf)
		case dynamicconfig.FallbackClosed:
			return full(0, 0)
		case dynamicconfig.FallbackSafe:
			limit := float64(m.rule.SafeCapacity)
			return full(limit, atLeastOne(limit, burst))
		}
	}
	return full(limit/n, atLeastOne(burst/n, burst))
}

func atLeastOne(burst, whole float64) float64 {
	if burst < 1 {
		return max(burst, min(whole, 1))
	}
	return burst
}

// result is what a method says.
type result struct {
	ok        bool
	explained bool // the rest is known
	reason    stage.Reason
	by        string
	wait      time.Duration
	retry     time.Duration
	vague     bool // why it is refused is not known
}

func ofDecision(d limiter.Decision) result {
	return result{ok: d.OK, explained: true, reason: d.Reason, by: d.By, wait: d.Wait, retry: d.RetryAfter}
}

func (m *model) ofVerdict(v stage.Verdict) result {
	by := answering(&m.rule)
	switch {
	case v.Reason == stage.Bypassed:
		by = ""
	case v.By == stage.ByFallback:
		by = m.rule.Fallback.String()
	case v.By == stage.ByOwner:
		by = "owner"
	}
	return result{ok: v.OK(), explained: true, reason: v.Reason, by: by, wait: v.Wait, retry: v.RetryAfter}
}

// method asks for n tokens that are never given back.
type method func(s *side, l *limiter.Limiter, n int64, longest time.Duration) result

func (m *model) drawMethods(rt *rapid.T, n int64, longest time.Duration) (of [2]method) {
	now := m.now
	plain := map[string]method{
		"AllowN": func(_ *side, l *limiter.Limiter, n int64, _ time.Duration) result {
			return result{ok: l.AllowN(time.Now(), int(n))}
		},
		"AllowAll": func(_ *side, l *limiter.Limiter, n int64, _ time.Duration) result {
			return result{ok: limiter.AllowAll(context.Background(), limiter.Cost{Limiter: l, N: int(n)})}
		},
		"TryAcquire": func(_ *side, l *limiter.Limiter, n int64, _ time.Duration) result {
			release, ok := l.TryAcquire(int(n))
			release()
			return result{ok: ok}
		},
	}
	if n == 1 {
		plain["Allow"] = func(_ *side, l *limiter.Limiter, _ int64, _ time.Duration) result { return result{ok: l.Allow()} }
	}
	if longest > 0 {
		plain = map[string]method{"WaitN": func(s *side, l *limiter.Limiter, n int64, longest time.Duration) result {
			ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(longest))
			s.cancel = append(s.cancel, cancel)
			ended := make(chan error, 1)
			go func() { ended <- l.WaitN(ctx, int(n)) }()
			synctest.Wait()
			select {
			case err := <-ended:
				return result{ok: err == nil}
			default:
				return result{ok: true}
			}
		}}
	}
	explained := map[string]method{
		"Decide": func(_ *side, l *limiter.Limiter, n int64, longest time.Duration) result {
			return ofDecision(l.Decide(context.Background(), int(n), longest))
		},
		"Take": func(_ *side, l *limiter.Limiter, n int64, longest time.Duration) result {
			return ofDecision(l.Take(context.Background(), int(n), longest).Decision())
		},
		"Stage.Take": func(_ *side, l *limiter.Limiter, n int64, longest time.Duration) result {
			v, _ := l.Stage().Take(context.Background(), stage.Request{Now: now, N: n, Longest: longest})
			return m.ofVerdict(v)
		},
		"final Stage.Take": func(_ *side, l *limiter.Limiter, n int64, longest time.Duration) result {
			v, _ := l.Stage().Take(context.Background(), stage.Request{Now: now, N: n, Longest: longest, Kind: stage.Final})
			return m.ofVerdict(v)
		},
	}
	maps.Copy(plain, explained)
	of[0] = plain[pick(rt, "method", slices.Sorted(maps.Keys(plain))...)]
	of[1] = explained[pick(rt, "other method", slices.Sorted(maps.Keys(explained))...)]
	return of
}

func drawCost(rt *rapid.T) int64 { return pick[int64](rt, "n", 1, 1, 2, 3, 5, 10, 20, 0, -1, 60) }

func (m *model) allow(rt *rapid.T) { m.ask(rt, 0) }

func (m *model) wait(rt *rapid.T) {
	m.ask(rt, pick(rt, "longest", time.Second, 100*time.Millisecond, 3*time.Second, time.Hour))
}

func (m *model) ask(rt *rapid.T, longest time.Duration) {
	m.begin()
	key, k := m.drawKey(rt)
	n := drawCost(rt)
	methods := m.drawMethods(rt, n, longest)
	m.judge(k, n, longest, func(i int, s *side) result { return methods[i](s, s.group.For(key), n, longest) })
	m.check(true)
}

// judge has both sides ask for n tokens of k, and judges what they say. It
// returns what was taken; nil if nothing was.
func (m *model) judge(k *keyRef, n int64, longest time.Duration, ask func(i int, s *side) result) *opened {
	remote := m.sides[0].remote
	takes := remote.bucket(k.name).takes
	var results [2]result
	for i, s := range m.sides {
		results[i] = ask(i, s)
	}
	r := results[1]
	_, live := m.sides[0].group.InspectAt(m.now.Time(), k.name)
	if !live {
		results[0].by, r.by = "", ""
	}
	if first := results[0]; first.ok != r.ok || first.explained && !agree(first, r) {
		m.rt.Fatalf("%s, %d tokens: one way to ask says %+v, and another %+v", k.name, n, first, r)
	}
	algorithm := answering(&m.rule)
	switch {
	case m.over.Bypass && n >= 0:
		if r.reason != stage.Bypassed || r.wait != 0 || remote.bucket(k.name).takes > takes {
			m.rt.Fatalf("%s is bypassed: %+v", k.name, r)
		}
		return &opened{key: k, n: n, nothing: true}
	case !live && n < 0 && r.reason == stage.InvalidCost:
		return nil
	case !live && algorithm == "":
		if r.reason != stage.Granted || r.wait != 0 {
			m.rt.Fatalf("%s is disabled, and there is no room for it: %+v", k.name, r)
		}
		return nil
	case !live: // there is no room for it
		part := m.rule.Enforced()
		if as := r.reason == stage.TooManyKeys && (part > 0 || n < 0) || r.reason == stage.Soft && part < 1; !as || m.rule.Shared || len(m.touched) <= m.rule.MaxKeys {
			m.rt.Fatalf("%s is not live: %+v", k.name, r)
		}
		return nil
	case n < 0:
		if r.reason != stage.InvalidCost {
			m.rt.Fatalf("%s: %d tokens: %+v", k.name, n, r)
		}
		return nil
	case algorithm == "":
		if r.reason != stage.Granted || r.wait != 0 {
			m.rt.Fatalf("%s is disabled: %+v", k.name, r)
		}
		m.shadowed(k, n)
		return nil
	}
	p := k.parts[algorithm]
	asked := remote.bucket(k.name).takes > takes
	d, by := m.expect(k, p, n, longest, asked)
	if asked && algorithm == "auto" && p.granted {
		asked = remote.fault == works && remote.bucket(k.name).last.OK // else the bucket has decided
		if asked && k.heard["auto"] == k.newest["auto"] && !m.reported(k) {
			p.borrow(remote.bucket(k.name).lent, m.rule.Burst)
		}
	}
	if r.by != by && r.by != "" && by != "" {
		m.rt.Fatalf("%s: decided by %q, want %q: %+v", k.name, r.by, by, r)
	}
	if m.compare(k, n, r, d); r.reason != stage.Granted {
		m.shadowed(k, n)
		return nil
	}
	m.shadowed(k, n)
	o := &opened{key: k, n: n, acts: m.now.Add(r.wait)}
	o.away = asked && remote.fault == works
	o.owed = asked
	o.real = !o.away && (!math.IsInf(p.inForce().limit, 1) || m.rule.Migration != nil)
	o.counted = !asked || algorithm != "auto"
	if asked && !o.away {
		k.owed += float64(n)
	}
	if o.counted {
		k.used(algorithm, n)
	}
	switch k.acted = true; {
	case o.away:
	case asked: // the remote is charged, and no grant
		p.fallback.add(-float64(n))
	default:
		p.take(float64(n))
	}
	k.whole.add(-float64(n))
	if k.spent += float64(n); !o.away {
		k.taken += float64(n)
	}
	o.taken, o.changes = k.taken, k.changes
	return o
}

func agree(a, b result) bool {
	a.ok, b.ok = false, false
	if a.retry == 0 || b.retry == 0 { // not all ways to ask know it
		a.retry, b.retry = 0, 0
	}
	return a == b
}

func (k *keyRef) used(algorithm string, n int64) {
	k.usage.used += n
	if reports(algorithm) {
		k.usage.must += n
	}
}

// shadowed notes that the limiter that is measured may have allowed n.
func (m *model) shadowed(k *keyRef, n int64) {
	if m.rule.Migration != nil {
		k.usage.used += n
	}
}

// expect is what the reference decides, and what has to decide.
func (m *model) expect(k *keyRef, p *partRef, n int64, longest time.Duration, asked bool) (d decision, by string) {
	algorithm, wait := answering(&m.rule), longest.Seconds()
	if longest == stage.Forever {
		wait = inf
	}
	if m.rule.MaxWait != 0 {
		wait = min(wait, max(m.rule.MaxWait, 0).Seconds())
	}
	by = algorithm
	fallen := !p.granted && reports(algorithm)
	switch {
	case (m.rule.MaxCost > 0 || m.rule.Burst > 0 && (m.rule.MaxDebt > 0 || algorithm == "redis")) && float64(n) > m.rule.Costliest():
		return decision{reason: stage.TooCostly}, ""
	case algorithm == "redis" && m.rule.Limit == 0 && m.rule.Burst == 0 && float64(n) > m.rule.Costliest(): // nothing is allowed, and nobody is asked
		return decision{reason: stage.Limited, retry: -1}, ""
	case asked && algorithm == "auto" && p.granted: // the bucket has refused it
		o := m.sides[0].remote.bucket(k.name).last
		if m.sides[0].remote.fault == works && o.OK {
			return decision{wait: o.Wait.Seconds(), retry: -1}, "owner"
		}
		d = p.inForce().decide(float64(n), wait, max(m.rule.MaxDebt, 0).Seconds())
		// The bucket has refused it, or would have it wait for longer than asking takes.
		d.unsure = d.reason == stage.Granted && d.wait < (rule.DefaultAskTimeout/4).Seconds()+1e-6
		return m.owners(d, n), by
	case asked && m.sides[0].remote.fault == works:
		o := m.sides[0].remote.bucket(k.name).last
		if d = (decision{wait: o.Wait.Seconds(), retry: -1}); !o.OK {
			d.reason = stage.Limited
		}
		if algorithm == "auto" {
			by = "owner"
		}
		return d, by
	case asked:
		fallen = true
	}
	if fallen {
		by = m.rule.Fallback.String()
	}
	d = p.inForce().decide(float64(n), wait, max(m.rule.MaxDebt, 0).Seconds())
	if asked && d.reason != stage.Granted && m.rule.Fallback == dynamicconfig.FallbackClosed {
		d.reason, d.retry = stage.Failed, -1
	}
	d.atMost = asked
	if b := *p.inForce(); p.notLent > 0 && (d.reason != stage.Granted || d.wait > 0) { // no look has shown yet what the bucket began with
		b.add(p.notLent)
		d.unsure = b.decide(float64(n), wait, max(m.rule.MaxDebt, 0).Seconds()).reason == stage.Granted
	}
	if algorithm == "auto" && !asked && !p.granted && float64(n) > m.rule.Costliest() {
		d.unsure, by = true, "" // the remote may have to decide, and is not asked
	}
	if algorithm == "auto" && p.granted {
		d = m.owners(d, n)
	}
	return d, by
}

// owners is d, of a host's bucket, where the key's owner could have granted n: it is
// not too costly, and the owner says when to retry.
func (m *model) owners(d decision, n int64) decision {
	if d.reason != stage.Granted && float64(n) <= m.rule.Costliest() {
		d.reason, d.retry = stage.Limited, -1
	}
	return d
}

// compare compares r with what the reference decided.
func (m *model) compare(k *keyRef, n int64, r result, d decision) {
	fail := func(why string) {
		m.rt.Fatalf("%s: %d tokens: %s: %+v; the reference says %+v of %+v", k.name, n, why, r, d, *k.parts[answering(&m.rule)].inForce())
	}
	enforced := m.rule.Enforced()
	switch {
	case r.reason == stage.Soft && enforced == 1:
		fail("it is enforced in full")
	case !r.ok && enforced == 0:
		fail("a soft limit refuses")
	case d.unsure:
	case d.atMost && d.reason == stage.Granted && (r.reason != stage.Granted || r.wait.Seconds() >= d.wait):
	case d.reason == stage.Granted && r.reason != stage.Granted:
		fail("refused")
	case d.reason != stage.Granted && r.reason == stage.Granted:
		fail("allowed")
	case d.reason == stage.Granted && math.Abs(r.wait.Seconds()-d.wait) > 1e-6+2*eps/float64(max(m.rule.Limit, 0.1)):
		fail("another wait")
	case r.vague:
	case !r.ok && r.reason != d.reason:
		fail("another reason")
	case d.atMost:
	case r.reason == stage.Limited && d.retry > 0 && !math.IsInf(d.retry, 1) && r.retry != 0 && math.Abs(r.retry.Seconds()-d.retry) > 1e-6+2*eps/float64(max(m.rule.Limit, 0.1)):
		fail("another time to retry")
	case r.reason == stage.Limited && d.retry > 1e-6 && !math.IsInf(d.retry, 1) && r.retry == 0 && n != 1:
		fail("no time to retry")
	}
}

// take takes what is to be settled.
func (m *model) take(rt *rapid.T) {
	if answering(&m.rule) == "" {
		rt.Skip("it is disabled")
	}
	m.begin()
	key, k := m.drawKey(rt)
	n, longest := max(drawCost(rt), 1), pick(rt, "longest", time.Duration(0), time.Second, stage.Forever)
	var settle [2]func(int64)
	soft := false
	o := m.judge(k, n, longest, func(i int, s *side) result {
		l := s.group.For(key)
		if i == 0 {
			e := l.Take(context.Background(), int(n), longest)
			settle[i] = func(actual int64) { e.Settle(int(actual)) }
			return ofDecision(e.Decision())
		}
		v, receipt := l.Stage().Take(context.Background(), stage.Request{Now: m.now, N: n, Longest: longest})
		settle[i] = func(actual int64) { l.Stage().Settle(stage.Now(), receipt, actual) }
		soft = v.Reason == stage.Soft
		return m.ofVerdict(v)
	})
	if o == nil && soft {
		o = &opened{key: k, n: n, nothing: true}
	}
	if o != nil && m.refunds {
		o.settle, o.name = settle, key
		m.open = append(m.open, o)
	}
	m.check(true)
}

// reserve reserves tokens, or waits for them; both can be cancelled.
func (m *model) reserve(rt *rapid.T) {
	if answering(&m.rule) == "" || m.rule.Enforced() < 1 {
		rt.Skip("a Reservation does not say whether it took tokens")
	}
	m.begin()
	key, k := m.drawKey(rt)
	n := max(drawCost(rt), 1)
	waits := rapid.Bool().Draw(rt, "waits")
	var cancel [2]func(int64)
	o := m.judge(k, n, stage.Forever, func(i int, s *side) result {
		l := s.group.For(key)
		if i == 0 && waits {
			ctx, stop := context.WithCancel(context.Background())
			s.cancel = append(s.cancel, stop)
			ended := make(chan error, 1)
			go func() { ended <- l.WaitN(ctx, int(n)) }()
			synctest.Wait()
			cancel[i] = func(int64) { stop(); synctest.Wait() }
			select {
			case err := <-ended:
				return result{ok: err == nil}
			default:
				return result{ok: true}
			}
		}
		r := l.ReserveN(time.Now(), int(n))
		cancel[i] = func(int64) { r.Cancel() }
		v := result{ok: r.OK(), explained: true, wait: r.Delay()}
		if m.over.Bypass {
			v.reason = stage.Bypassed
		}
		if !r.OK() { // a Reservation does not say why
			v.reason, v.wait, v.vague = stage.Limited, 0, true
			if _, live := s.group.InspectAt(m.now.Time(), k.name); !live {
				v.reason = stage.TooManyKeys
			}
		}
		return v
	})
	// A wait of a nanosecond may be over before it is cancelled.
	// Under auto, what an owner gave is kept if the bucket of this host decides
	// by then, and has less.
	if o != nil && m.refunds && (o.acts > m.now+1 || !waits) && (!o.owed || answering(&m.rule) != "auto") {
		o.settle, o.reserved, o.waits = cancel, true, waits
		m.open = append(m.open, o)
	}
	m.check(true)
	if len(m.open) > 0 && rapid.Bool().Draw(rt, "settles") { // before its time to act has passed
		m.settle(rt)
	}
}

// settle settles or cancels something that was taken.
func (m *model) settle(rt *rapid.T) {
	if len(m.open) == 0 {
		rt.Skip("nothing is taken")
	}
	m.begin()
	i := rapid.IntRange(0, len(m.open)-1).Draw(rt, "which")
	o := m.open[i]
	m.open = slices.Delete(m.open, i, i+1)
	k, actual := o.key, int64(0)
	if !o.reserved {
		actual = pick(rt, "actual", 0, o.n, o.n/2, o.n+3)
	}
	p := k.parts[answering(&m.rule)]
	same := o.changes == k.changes && p != nil && k.live
	now := m.limited(o.name)
	calls := m.sides[0].remote.bucket(now.name).calls
	for _, settle := range o.settle {
		settle(actual)
	}
	if o.nothing {
		m.check(true)
		return
	}
	back, over := max(o.n-actual, 0), max(actual-o.n, 0)
	if over > 0 {
		m.charged(now, over, calls)
		m.check(false)
		return
	}
	late := o.reserved && o.acts < m.now
	if late || back == 0 {
		m.check(true)
		return
	}
	k.whole.add(float64(back))
	if k.usage.refunded += back; o.owed {
		k.owed -= float64(back)
		if o.changes != k.changes { // a reset or a lower limit may have forgiven the debt that it was part of
			k.moved += float64(back)
		}
	}
	if !o.real && !o.away && p != nil { // it was not limited, and counts as not used
		p.taken -= float64(back)
		p.charged -= float64(back)
	}
	if !o.real || p == nil {
		m.check(same && !o.owed) // no bucket has more than before
		return
	}
	before, onTop := p.inForce().tokens, k.taken-o.taken
	p.give(float64(back))
	m.check(same && !o.owed && (!o.reserved || onTop == 0))
	if same && !o.owed && o.reserved && k.live {
		// The whole tokens come back on top of which nobody has reserved.
		least := min(before+float64(back)-onTop-1, p.inForce().burst)
		if after := p.inForce().tokens; after < least-eps {
			m.rt.Fatalf("%s: %d tokens cancelled, %v taken since: %v before, %v after", k.name, back, onTop, before, after)
		}
	}
}

func (m *model) charge(rt *rapid.T) {
	m.begin()
	key, k := m.drawKey(rt)
	n := pick[int64](rt, "n", 1, 5, 30, 0, -1)
	calls := m.sides[0].remote.bucket(k.name).calls
	for _, s := range m.sides {
		s.group.For(key).Charge(int(n))
	}
	m.charged(k, n, calls)
	m.check(answering(&m.rule) != "" && calls == m.sides[0].remote.bucket(k.name).calls)
}

// charged notes that n tokens were charged.
func (m *model) charged(k *keyRef, n int64, calls int) {
	algorithm := answering(&m.rule)
	_, live := m.sides[0].group.InspectAt(m.now.Time(), k.name)
	if algorithm == "" || n <= 0 || !live || m.over.Bypass {
		return
	}
	k.acted = true
	n = int64(min(float64(n), math.Ceil(m.rule.Burst+m.rule.MostDebt()))) // nobody owes more
	k.spent += float64(n)
	k.whole.charge(float64(n), m.rule.MostDebt()-m.rule.Burst)
	if m.shadowed(k, n); m.sides[0].remote.bucket(k.name).calls > calls {
		k.owed += float64(n)
		if algorithm != "auto" {
			k.used(algorithm, n)
		}
		return
	}
	k.used(algorithm, n)
	k.parts[algorithm].charge(float64(n), &m.rule)
	k.taken += float64(n)
}

// oldClock has a caller ask whose clock reading is older than others'.
func (m *model) oldClock(rt *rapid.T) {
	if m.rule.Enforced() < 1 || answering(&m.rule) == "" || m.family[0] == "redis" || m.rule.MaxDebt > 0 || m.over.Bypass {
		rt.Skip("it is about buckets on this host")
	}
	m.begin()
	key, k := m.drawKey(rt)
	n, lag := max(drawCost(rt), 1), pick(rt, "lag", time.Millisecond, time.Second, time.Hour)
	takes := m.sides[0].remote.bucket(k.name).takes
	var ok [2]bool
	for i, s := range m.sides {
		ok[i] = s.group.For(key).AllowN(time.Now().Add(-lag), int(n))
	}
	if m.sides[0].remote.bucket(k.name).takes > takes { // the bucket has refused it
		if ok[0] != ok[1] {
			rt.Fatalf("%s: %d tokens %v ago, of the owner: %v", key, n, lag, ok)
		}
		m.shadowed(k, n)
		m.check(false)
		return
	}
	p := k.parts[answering(&m.rule)]
	_, live := m.sides[0].group.InspectAt(m.now.Time(), k.name)
	b := p.inForce()
	allows := math.IsInf(b.limit, 1) || float64(n) <= b.tokens+eps
	surely := live && (math.IsInf(b.limit, 1) || float64(n) <= min(b.tokens, k.latest)-b.burst/64-eps) && (m.rule.MaxCost == 0 || float64(n) <= m.rule.MaxCost)
	if ok[0] != ok[1] || ok[0] && !allows || !ok[0] && surely {
		rt.Fatalf("%s: %d tokens %v ago: %v, of %+v", key, n, lag, ok, *b)
	}
	before := min(b.tokens, k.latest)
	k.changes++
	if m.shadowed(k, n); ok[0] {
		k.used(answering(&m.rule), n)
		p.take(float64(n))
		k.taken += float64(n)
		k.spent += float64(n)
		k.whole.add(-float64(n))
		before -= float64(n)
		p.fallback.fill(lag.Seconds()) // a full bucket was so then, and has filled since
		p.grant.fill(lag.Seconds())
	}
	m.check(false)
	k.latest = before
}

func (m *model) time(rt *rapid.T) {
	m.begin()
	time.Sleep(pick(rt, "how long", time.Millisecond, 100*time.Millisecond, time.Second, 3*time.Second, time.Minute))
	m.begin()
	m.check(true)
}

// idle lets time pass with reports, answered or not, until keys sleep or leave.
func (m *model) idle(rt *rapid.T) {
	answers := rapid.Bool().Draw(rt, "answers")
	for range pick(rt, "rounds", 3, 7) {
		m.begin()
		time.Sleep(time.Second)
		m.report(rt)
		for answers && len(m.sent) > 0 {
			m.apply(0, 0, 0, 0, nil)
		}
	}
}

func (m *model) report(*rapid.T) {
	m.begin()
	m.send(func(s *side) []*driver.Batch { return s.manual.Report(m.now) })
	for _, k := range m.keys {
		for _, p := range k.parts {
			p.charged = p.taken
		}
	}
}

func (m *model) early(*rapid.T) {
	m.begin()
	m.send(func(s *side) []*driver.Batch { return s.manual.Early(m.now) })
}

// send notes what report says.
func (m *model) send(report func(*side) []*driver.Batch) {
	unlimited := make(map[*partRef]bool) // as a report sees it, which puts late grants in force afterwards
	for _, k := range m.keys {
		for _, p := range k.parts {
			unlimited[p] = math.IsInf(p.inForce().limit, 1)
		}
	}
	all := [2][]*driver.Batch{report(m.sides[0]), report(m.sides[1])}
	m.check(false)
	if len(all[0]) != len(all[1]) {
		m.rt.Fatalf("%d batches and %d", len(all[0]), len(all[1]))
	}
	for i, b := range all[0] {
		if other := all[1][i]; !reflect.DeepEqual(b.Usage, other.Usage) {
			m.rt.Fatalf("%+v is reported, and %+v", b.Usage, other.Usage)
		}
		m.reports++
		s := &sent{number: m.reports, at: m.now, batches: [2]*driver.Batch{b, all[1][i]}}
		for j, name := range b.Usage.Keys {
			k, u := m.key(name), &b.Usage
			if u.Allowed[j] < 0 || u.Rejected[j] < 0 || !reports(u.Algorithm) {
				m.rt.Fatalf("row %d of %+v", j, *u)
			}
			k.newest[u.Algorithm] = s.number
			for name := range k.under {
				if m.rule.Algorithm == u.Algorithm { // they are all of one holder
					k.newest[name] = s.number
				}
			}
			s.rows = append(s.rows, k.usage.report(u.Algorithm, m.now.Add(-u.Elapsed[j]), m.now, u.Allowed[j]))
			var had bucketRef
			taken := 0.0
			if p := k.parts[u.Algorithm]; p != nil {
				had, taken = *p.inForce(), p.taken
				if unlimited[p] {
					had.limit = inf
				}
			}
			s.tokens, s.taken = append(s.tokens, had), append(s.taken, taken)
			s.changes = append(s.changes, k.changes)
		}
		m.sent = append(m.sent, s)
	}
}

// answer answers a report, the newest or an older one, or loses it.
func (m *model) answer(rt *rapid.T) {
	if len(m.sent) == 0 {
		rt.Skip("nothing is reported")
	}
	m.begin()
	i := rapid.IntRange(0, len(m.sent)-1).Draw(rt, "which")
	switch s := m.sent[i]; pick(rt, "how", "applied", "applied", "applied", "failed", "lost") {
	case "failed":
		for j, side := range m.sides {
			side.manual.Fail(m.now, s.batches[j], nil)
		}
		fallthrough
	case "lost":
		m.sent = slices.Delete(m.sent, i, i+1)
		m.check(false)
	default:
		weight, burst := pick(rt, "weight", 0.5, 1, 0.1, 0), pick(rt, "granted burst", 5.0, 1.0, 50, 0)
		var tokens []float64
		if lends(s.batches[0].Usage.Algorithm) {
			if t := pick(rt, "tokens", -1.0, 0.0, 3, 40); t >= 0 {
				tokens = slices.Repeat([]float64{t}, len(s.rows))
			}
		}
		m.apply(i, weight, burst, pick(rt, "lease", 10*time.Second, 2*time.Second, 0, time.Hour), tokens)
	}
}

// apply answers report i with the same grant for each row.
func (m *model) apply(i int, weight, burst float64, lease time.Duration, tokens []float64) {
	s := m.sent[i]
	m.sent = slices.Delete(m.sent, i, i+1)
	n, u := len(s.rows), &s.batches[0].Usage
	algorithm, keys := u.Algorithm, slices.Clone(u.Keys)
	before := make([]limiter.ShareStatus, n)
	for j, name := range keys {
		before[j] = m.share(name, algorithm)
	}
	grants := grantOf(n, weight, burst, lease)
	grants.Tokens = tokens
	for j, side := range m.sides {
		if err := side.manual.Apply(m.now, s.batches[j], nil, grants); err != nil {
			m.rt.Fatal(err)
		}
		side.manual.Done(s.batches[j])
	}
	for j, row := range s.rows {
		k := m.key(keys[j])
		// Too late, it may have been reported again by a successor. Without a grant, what elastic's owner is charged with
		// is reported again.
		if n := max(row.answer(), 0); m.now.Sub(s.at) >= time.Second || lease == 0 && algorithm == "elastic" {
			k.usage.used += n
			k.usage.refunded += n
		}
		after := m.share(k.name, algorithm)
		left := lease
		if algorithm == "fair-share" { // the lease is as old as the report
			left = max(lease-m.now.Sub(s.at), 0)
		}
		if late := s.number < k.heard[algorithm]; late || left == 0 {
			if after.Weight != before[j].Weight || after.Lease != before[j].Lease || !sameLimit(after, before[j]) {
				m.rt.Fatalf("%s: a late answer changes %+v to %+v", k.name, before[j], after)
			}
			continue
		}
		p := k.parts[algorithm]
		if p == nil || after.Lease != left || after.Weight != weight {
			continue // it is another that reported
		}
		k.heard[algorithm] = s.number
		if algorithm == "auto" && (tokens == nil || tokens[j] > k.whole.tokens || m.now.Sub(s.at) >= time.Second) {
			k.beside = true // its owner has more than one bucket, or what came in since the report comes in twice
		}
		p.weight, p.grantBurst, p.lease = weight, min(burst, m.rule.Burst), left
		had := p.inForce()
		level := m.granted(p)
		if tokens != nil && s.number == k.newest[algorithm] {
			// The tokens that were granted, less those that were used since the report.
			before := had.tokens
			rate := max(had.limit, s.tokens[j].limit)
			if math.IsInf(rate, 1) { // what was not limited does not fill
				rate = 0
			}
			p.grant.tokens = tokens[j] + rate*m.now.Sub(s.at).Seconds() - (p.taken - s.taken[j])
			if k.changes != s.changes[j] { // what it had may have changed, too
				p.grant.tokens = max(p.grant.tokens, before+tokens[j]-s.tokens[j].tokens)
				if algorithm == "auto" { // what it had while the owner decided is not known
					p.grant.tokens = inf
				}
			}
			if !p.granted {
				p.grant.tokens = max(p.grant.tokens, 0)
			}
			p.known = true
		}
		if tokens == nil || s.number == k.newest[algorithm] {
			p.grant.limit = 0 // not unlimited any more
			p.grant.set(level.limit, level.burst)
		}
		if algorithm == "auto" && tokens != nil { // an owner's pool has no room for what it has lent: this remote fills it in again
			lent := p.grant.tokens
			if p.granted {
				lent -= before[j].Level.Tokens
			}
			k.twice += max(lent, 0)
		}
		k.changes++
	}
	m.check(false)
}

// grantOf is the same grant for n rows.
func grantOf(n int, weight, burst float64, lease time.Duration) *usage.Grants {
	return &usage.Grants{
		Weight: slices.Repeat([]float64{weight}, n), Burst: slices.Repeat([]float64{burst}, n),
		Used: make([]float64, n), Lease: slices.Repeat([]time.Duration{lease}, n),
	}
}

func sameLimit(a, b limiter.ShareStatus) bool { return a.Level.Limit == b.Level.Limit }

// share is what the first side says of a key under an algorithm.
func (m *model) share(name, algorithm string) limiter.ShareStatus {
	st, _ := m.sides[0].group.InspectAt(m.now.Time(), name)
	for _, s := range st.Shares {
		if s.Algorithm == algorithm {
			return s
		}
	}
	return limiter.ShareStatus{}
}

// granted is the level that p's grant gives.
func (m *model) granted(p *partRef) bucketRef {
	return bucketRef{limit: p.weight * float64(m.rule.Limit), burst: atLeastOne(min(p.grantBurst, m.rule.Burst), m.rule.Burst)}
}

// configure changes the rule.
func (m *model) configure(rt *rapid.T) {
	m.begin()
	m.change(m.drawRule(rt))
}

func (m *model) mode(rt *rapid.T) {
	if m.rule.Migration == nil {
		rt.Skip("it does not migrate")
	}
	m.begin()
	next := m.stated
	next.Migration = &dynamicconfig.Migration{From: next.Migration.From, To: next.Migration.To, Mode: drawMode(rt)}
	m.change(next)
}

// override begins an override instead of the one before, or ends that.
func (m *model) override(rt *rapid.T) {
	m.begin()
	m.over = drawOverride(rt)
	m.change(m.stated)
}

func drawOverride(rt *rapid.T) dynamicconfig.Override {
	return pick(rt, "override", dynamicconfig.Override{}, dynamicconfig.Override{Bypass: true},
		dynamicconfig.Override{Factor: 0.5}, dynamicconfig.Override{Factor: 3}, dynamicconfig.Override{Limit: 2},
		dynamicconfig.Override{Key: "k:*"}) // of 0
}

// reset fills the buckets of a key.
func (m *model) reset(rt *rapid.T) {
	m.begin()
	key, k := m.drawKey(rt)
	_, live := m.sides[0].group.InspectAt(m.now.Time(), k.name)
	for _, s := range m.sides {
		calls, fault := s.remote.bucket(k.name).calls, s.remote.fault
		err := s.group.Reset(context.Background(), key)
		asked := s.remote.bucket(k.name).calls - calls
		if !live && (asked > 0 || err != nil) {
			rt.Fatalf("%s is not live: the remote was asked %d times: %v", k.name, asked, err)
		}
		if (err != nil) != (asked > 0 && fault != works) {
			rt.Fatalf("%s: the remote was asked %d times and fails as %d: %v", k.name, asked, fault, err)
		}
	}
	if k.changes++; !live {
		m.check(false)
		return
	}
	k.whole = m.full()
	if p := k.parts["auto"]; p != nil && p.granted { // the host keeps what it was lent
		k.beside = true
	}
	for name, p := range k.parts {
		p.charged = p.taken
		if p.fallback.tokens = p.fallback.burst; lends(name) {
			p.grant.tokens = max(p.grant.tokens, 0)
		} else {
			p.grant.tokens = p.grant.burst
		}
	}
	m.check(false)
	for _, s := range m.sides {
		st, _ := s.group.InspectAt(m.now.Time(), k.name)
		for _, s := range st.Shares {
			if p := k.parts[s.Algorithm]; !s.Level.Remote && (!p.granted || !lends(s.Algorithm)) && s.Level.Tokens < s.Level.Burst-eps {
				rt.Fatalf("%s is not full after a reset: %+v", k.name, s)
			}
		}
	}
}

// lends reports whether grants under an algorithm come with tokens.
func lends(algorithm string) bool { return algorithm == "elastic" || algorithm == "auto" }

// change puts a rule in force, under the override.
func (m *model) change(stated dynamicconfig.Rule) {
	m.stated = stated
	snapshot, before := m.snapshot(), m.rule
	found, ok := snapshot.Match(stated.Key)
	if !ok {
		m.rt.Fatal("no rule matches")
	}
	rule := *found
	if m.rule = rule; rule.Shared {
		m.touched[rule.Key] = true
	}
	for _, k := range m.sorted() { // a remote bucket that is asked next is charged with what was used
		missing := int64(0)
		for _, s := range m.sides {
			status, _ := s.group.InspectAt(m.now.Time(), k.name)
			for _, of := range status.Shares {
				missing = max(missing, of.Level.Missing())
			}
		}
		for _, p := range k.parts { // also with what the inactive bucket lacks
			b := p.inactive()
			missing = max(missing, stage.Level{Burst: b.burst, Tokens: b.tokens - (p.taken - p.charged)}.Missing())
		}
		// Or with what was used before, which the key remembers while its level does not show it,
		// and with a charge that brought the inactive bucket as deep into debt as one can. A larger burst of a bucket
		// that takes over has to fill in first.
		if k.spent > 0 { // it remembers use that a later burst has no room for
			k.deepest = max(k.deepest, before.Burst+before.MostDebt())
		}
		deep := max(k.deepest, rule.Burst+rule.MostDebt())
		more := max(rule.Burst-before.Burst, 0)
		k.moved += max(float64(missing), min(k.spent, max(float64(missing)+max(before.Burst, rule.Burst), deep))) + more
		k.spent += more // a bucket that takes over later is charged with that, too
	}
	for _, s := range m.sides {
		s.manual.Configure(m.now, snapshot)
	}
	if m.over.Bypass || answering(&rule) == "" { // waits are over, and the tokens stay taken
		m.open = slices.DeleteFunc(m.open, func(o *opened) bool { return o.waits })
		synctest.Wait()
	}
	for _, k := range m.sorted() {
		k.changes++
		if before.Migration == nil && rule.Migration == nil && before.Algorithm != rule.Algorithm {
			k.usage.rename(before.Algorithm, rule.Algorithm)
			// Rows do not say which of two holders they are of.
			k.usage.unsure = k.usage.unsure || k.under[rule.Algorithm]
			if p := k.parts["elastic"]; rule.Algorithm == "auto" && (p == nil || !p.granted) {
				k.usage.must = min(k.usage.must, k.usage.reported()) // its owner is charged with the rest
			}
		}
		if !asks(&before, "elastic") && asks(&rule, "elastic") {
			k.usage.must = min(k.usage.must, k.usage.reported()) // and so is that of elastic
		}
		if !reports(rule.Algorithm) && (rule.Migration == nil || !reports(rule.Migration.From) || !reports(rule.Migration.To)) {
			k.usage.must = min(k.usage.must, k.usage.reported()) // its owner does not ask any more
		}
		_, live := m.sides[0].group.InspectAt(m.now.Time(), k.name)
		switch {
		case rule.Shared != before.Shared && k.name != rule.Key, // it is another bucket
			!live && k.live && !rule.Shared: // it had to go, because of max_keys
			k.whole, k.beside, k.twice = m.full(), false, 0
			m.renew(k)
			continue
		}
		whole := follow(k.whole.tokens, &before, &rule)
		if k.beside || whole >= before.Burst-eps { // a full bucket is full under another rule
			whole = inf
		}
		k.whole = full(float64(rule.Limit), rule.Burst)
		k.whole.tokens = min(k.whole.tokens, whole)
		tokens, notLent := inf, 0.0
		old := k.parts
		if p := old[answering(&before)]; p != nil {
			if b := p.inForce(); k.live || b.tokens < b.burst-eps {
				tokens = follow(b.tokens, &before, &rule)
			}
			if p.notLent > 0 || answering(&before) == "auto" && p.granted { // its owner has the rest of what one bucket has
				notLent = max(min(whole+k.twice, max(before.Burst, rule.Burst))-max(tokens, 0), 0)
				if answering(&rule) != "redis" { // this host gets its even part of that
					notLent /= float64(m.hosts)
				}
			}
		}
		m.renew(k)
		for name, p := range k.parts {
			had := old[name]
			if had == nil {
				p.notLent = notLent
				p.limitTo(tokens)
				continue
			}
			had.fallback.tokens, had.grant.tokens = follow(had.fallback.tokens, &before, &rule), follow(had.grant.tokens, &before, &rule)
			if k.parts[name] = had; !k.live && tokens == inf {
				had.fallback = p.fallback // it was full, and was forgotten
			}
			if answering(&before) != answering(&rule) {
				had.limitTo(tokens)
			}
		}
	}
	m.check(false)
}

func (m *model) setHosts(rt *rapid.T) {
	m.begin()
	m.hosts = pick(rt, "hosts", 1, 2, 4, 10)
	for _, s := range m.sides {
		s.manual.SetHosts(m.now, m.hosts)
	}
	for _, k := range m.sorted() {
		k.changes++
	}
	m.check(false)
}

// hostsWhileAdmitting changes the hosts while a key is being admitted.
func (m *model) hostsWhileAdmitting(rt *rapid.T) {
	if m.rule.Migration == nil || m.rule.Shared {
		rt.Skip("nothing is called during admission")
	}
	m.begin()
	key, k := m.drawKey(rt)
	m.hosts = pick(rt, "hosts", 1, 2, 4, 10)
	for _, s := range m.sides {
		done := make(chan struct{})
		change := func() {
			go func() {
				s.manual.SetHosts(m.now, m.hosts)
				close(done)
			}()
		}
		s.admitting = func() {
			change()
			for range 50 {
				runtime.Gosched() // it is done by now, or waits for the admission
			}
		}
		s.group.For(key).Burst()
		if s.admitting != nil {
			s.admitting = nil
			change()
		}
		<-done
	}
	for _, k := range m.sorted() {
		k.changes++
	}
	k.changes++
	m.check(false)
}

// remote has the remote fail, or answer again.
func (m *model) remote(rt *rapid.T) {
	if !slices.Contains(m.family, "redis") {
		rt.Skip("there is no remote")
	}
	f := fault(rapid.IntRange(0, int(faults)-1).Draw(rt, "fault"))
	for _, s := range m.sides {
		s.remote.fault = f
	}
}

// lending has the remote lend another part of what hosts can hold, or more.
func (m *model) lending(rt *rapid.T) {
	if !slices.Contains(m.family, "auto") {
		rt.Skip("there is no remote that lends")
	}
	lends := pick(rt, "lends", 1.0, 0.3, 2, 0)
	for _, s := range m.sides {
		s.remote.lends = lends
	}
}

// askWhileReporting has a report made while the remote decides. A key whose host has a
// grant stays live meanwhile, because its bucket has counted the event.
func (m *model) askWhileReporting(rt *rapid.T) {
	m.begin()
	key, k := m.drawKey(rt)
	if p := k.parts["auto"]; p == nil || !p.granted || !k.live {
		m.check(true)
		return
	}
	n := max(drawCost(rt), 1)
	methods := m.drawMethods(rt, n, 0)
	for _, s := range m.sides {
		s.remote.during = func() { s.made = s.manual.Report(m.now) }
	}
	// The same method on both sides: some look the key up again, after the report.
	m.judge(k, n, 0, func(_ int, s *side) result { return methods[1](s, s.group.For(key), n, 0) })
	m.send(func(s *side) []*driver.Batch { return s.made })
	for _, s := range m.sides {
		s.remote.during, s.made = nil, nil
	}
	m.check(false)
}

// reported reports whether a report about k was made while the remote decided.
func (m *model) reported(k *keyRef) bool {
	return slices.ContainsFunc(m.sides[0].made, func(b *driver.Batch) bool { return slices.Contains(b.Usage.Keys, k.name) })
}

// check compares all keys with the reference. After an ordinary step the
// tokens are those of the reference; after another they are no more.
func (m *model) check(ordinary bool) {
	for _, k := range m.sorted() {
		st, live := m.sides[0].group.InspectAt(m.now.Time(), k.name)
		if other, _ := m.sides[1].group.InspectAt(m.now.Time(), k.name); !reflect.DeepEqual(st, other) {
			m.rt.Fatalf("%s: %+v, and on the other side %+v", k.name, st, other)
		}
		m.lentAhead(k)
		if k.live = live; live {
			for _, s := range st.Shares {
				m.checkShare(k, s, ordinary)
			}
			continue
		}
		k.changes++
		k.latest, k.whole, k.beside, k.twice = inf, m.full(), false, 0
		for name, p := range k.parts {
			p.granted, p.known = false, false
			level := m.fallback(name)
			if b := &p.fallback; b.tokens >= b.burst-eps || b.limit == 0 {
				*b = level
			} else {
				b.set(level.limit, level.burst)
			}
		}
	}
	for i, s := range m.sides {
		if s.remote.wrong != "" {
			m.rt.Fatalf("remote %d: %s", i, s.remote.wrong)
		}
	}
}

// lentAhead gives k what its owner has lent beside no event in this step.
func (m *model) lentAhead(k *keyRef) {
	remote, p := m.sides[0].remote, k.parts["auto"]
	b := remote.bucket(k.name)
	asked := b.ahead > k.ahead
	k.ahead = b.ahead
	if asked && p != nil && p.granted && remote.fault == works && k.heard["auto"] == k.newest["auto"] && !m.reported(k) {
		p.borrow(b.loan, m.rule.Burst)
	}
}

func (m *model) checkShare(k *keyRef, s limiter.ShareStatus, ordinary bool) {
	p := k.parts[s.Algorithm]
	if p == nil {
		m.rt.Fatalf("%s has a share of %s", k.name, s.Algorithm)
	}
	answers := s.Algorithm == answering(&m.rule)
	level := m.fallback(s.Algorithm)
	if level := m.granted(p); p.granted && near(float64(s.Level.Limit), level.limit) && near(s.Level.Burst, level.burst) {
		p.grant.set(level.limit, level.burst) // else the newest grant is not in force yet
	}
	if granted := reports(s.Algorithm) && !s.Fallback && !s.Asks; granted != p.granted {
		if ordinary {
			m.rt.Fatalf("%s: a grant came or went: %+v", k.name, s)
		}
		if granted {
			level := m.granted(p)
			p.grant.set(level.limit, level.burst)
		} else {
			p.fallback.set(level.limit, level.burst)
		}
		p.change()
		p.known = true
		k.changes++
	}
	if p.fallback.set(level.limit, level.burst); p.granted && reports(s.Algorithm) && m.rule.Fallback == dynamicconfig.FallbackClosed {
		p.fallback.limit = float64(m.rule.Limit) / float64(m.hosts) // a debt is paid as time passes, although no fallback fills
	}
	if level := m.granted(p); !p.granted && p.known && !ordinary { // the newest grant rests, or the one before
		p.grant.set(max(p.grant.limit, level.limit), max(p.grant.burst, level.burst))
	}
	if s.Level.Remote && !s.Fallback {
		return // its tokens are elsewhere
	}
	b := p.inForce()
	if !near(float64(s.Level.Limit), b.limit) || !near(s.Level.Burst, b.burst) {
		m.rt.Fatalf("%s: the level is %+v, the reference has %+v", k.name, s.Level, *b)
	}
	if answers && s.Level.Tokens > b.tokens && s.Level.Tokens < b.tokens+p.notLent+eps {
		b.tokens = s.Level.Tokens
	}
	p.notLent = 0
	if answers && s.Level.Tokens > b.tokens+eps {
		m.rt.Fatalf("%s: %v tokens, the reference has %+v", k.name, s.Level.Tokens, *b)
	}
	if answers && ordinary && s.Level.Tokens < b.tokens-eps && !s.Level.Remote {
		m.rt.Fatalf("%s: only %v tokens, the reference has %+v", k.name, s.Level.Tokens, *b)
	}
	b.tokens = s.Level.Tokens
	if answers && k.acted {
		k.latest, k.acted = b.tokens, false
	} else if answers && !ordinary {
		k.latest = min(k.latest, b.tokens)
	}
}

func near(a, b float64) bool { return a == b || math.Abs(a-b) <= 1e-6*max(1, math.Abs(b)) }

// finish has all be reported and answered, and adds up.
func (m *model) finish() {
	for _, s := range m.sides {
		s.remote.fault = works
	}
	m.sent = nil // all other answers are lost
	for range 8 {
		m.begin()
		time.Sleep(10 * time.Minute) // tokens for which callers wait are reported once they have filled in
		m.report(nil)
		for len(m.sent) > 0 {
			m.begin()
			m.apply(0, 0, 0, 0, nil)
		}
	}
	for _, k := range m.sorted() {
		name, moved := k.name, int64(0)
		if slices.Contains(m.family, "elastic") { // whose owner learns by reports of what was used before
			moved = int64(math.Ceil(k.moved))
		}
		if n, u := k.usage.reported(), &k.usage; !u.unsure && (n < u.must-u.refunded || n > u.used+moved) {
			m.rt.Fatalf("%s: %d reported; %d of %d used had to be, %d were given back, and %d were used before", name, n, u.must, u.used, u.refunded, moved)
		}
		for _, s := range m.sides {
			if net := s.remote.bucket(name).net; net < k.owed-eps || net > k.owed+k.moved+eps {
				m.rt.Fatalf("%s: the remote was charged %v; %v was let through without it, and at most %v before", name, net, k.owed, k.moved)
			}
		}
	}
}

func (m *model) end() {
	for _, s := range m.sides {
		for _, cancel := range s.cancel {
			cancel()
		}
	}
	synctest.Wait()
}
