// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"errors"
	"fmt"
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

// drained is a Remote that never fills.
type drained struct{ left float64 }

func (d *drained) Do(_ context.Context, op stage.Operation) (stage.Outcome, error) {
	switch {
	case op.Kind == stage.ChargeTokens:
		d.left -= op.N
	case op.Kind == stage.ReturnTokens:
		d.left += op.N
	case op.N > d.left:
		return stage.Outcome{Left: d.left}, nil
	default:
		d.left -= op.N
	}
	return stage.Outcome{OK: true, Left: d.left}, nil
}

// owner has a pool for a key under the one of exact, auto and elastic that answers, which goes on with the
// tokens of the one before, and another one while a migration between two of them measures.
type owner struct {
	pools map[string]*pool
	full  float64
	rule  dynamicconfig.Rule
}

// pool is what is there, and what the host has as a loan.
type pool struct {
	drained
	lent float64
}

var pooled = []string{"exact", "auto", "elastic"}

func (o *owner) configure(r dynamicconfig.Rule) {
	o.rule = r
	to := o.successor()
	for _, name := range pooled {
		if measured := dynamicconfig.Measured(name); !o.mentions(measured) {
			delete(o.pools, measured)
		}
		if to != "" && !o.mentions(name) && o.pools[name] != nil {
			if o.pools[to] == nil {
				o.pools[to] = o.pools[name]
			}
			delete(o.pools, name)
		}
	}
}

// mentions reports whether the rule has the algorithm called name answer or measured.
func (o *owner) mentions(name string) bool {
	if o.rule.Key != "k" { // it is another key's
		return false
	}
	if o.rule.Migration == nil {
		return o.rule.Algorithm == name
	}
	from, to := o.rule.Migration.From, o.rule.Migration.To
	if slices.Contains(pooled, from) && slices.Contains(pooled, to) {
		if answering(&o.rule) == to {
			from = dynamicconfig.Measured(from)
		} else {
			to = dynamicconfig.Measured(to)
		}
	}
	return from == name || to == name
}

// successor is the algorithm under which pools go on that the rule does not mention; empty if
// none does.
func (o *owner) successor() string {
	if to := answering(&o.rule); o.rule.Key == "k" && slices.Contains(pooled, to) {
		return to
	}
	return ""
}

// under is the pool of a key under this name, and whether the rule mentions that.
func (o *owner) under(name string) (p *pool, mentioned bool) {
	mentioned = o.mentions(name)
	_, measured := dynamicconfig.Plain(name)
	if to := o.successor(); to != "" && !mentioned && !measured {
		name = to
	}
	if answering(&o.rule) == "" && !measured { // a rule that is disabled has one pool
		for _, other := range pooled {
			if o.pools[other] != nil {
				name = other
			}
		}
	}
	if p = o.pools[name]; p == nil {
		if p = new(pool{drained: drained{left: o.full}}); mentioned || o.successor() != "" && !measured { // else no rule has the owner make one
			o.pools[name] = p
		}
	}
	return p, mentioned
}

// answer takes what the host used out of the pools. Under elastic, the owner lends all that
// there is. The host has been let so many tokens so far: an owner learns of only a part of what
// a host used before elastic, and this one knows. Under auto, the owner answers, and grants
// nothing. Under all others, the host has the whole limit.
func (o *owner) answer(t rapid.TB, g *limiter.Group, now stage.Instant, admitted int) {
	for _, b := range driver.Of(g).Report(now) {
		grants := grantOf(b.Usage.Len(), 1, o.full, time.Minute)
		u := &b.Usage
		if algorithm, measured := dynamicconfig.Plain(u.Algorithm); slices.Contains(pooled, algorithm) {
			grants.Tokens = make([]float64, u.Len())
			for i := range u.Keys {
				p, mentioned := o.under(u.Algorithm)
				p.left, p.lent = p.left+p.lent-float64(u.Allowed[i]), 0
				if algorithm == "auto" || !mentioned {
					grants.Lease[i] = 0
					continue
				}
				if !measured {
					p.left = min(p.left, o.full-float64(admitted))
				}
				if u.Wants[i] > 0 { // else it is the last report
					p.lent = max(p.left, 0)
					grants.Tokens[i], p.left = p.lent, p.left-p.lent
				}
			}
		}
		if err := driver.Of(g).Apply(now, b, nil, grants); err != nil {
			t.Fatal(err)
		}
	}
}

// asked is the owner as it is asked under an algorithm.
type asked struct {
	*owner
	algorithm string
}

func (a asked) Do(ctx context.Context, op stage.Operation) (stage.Outcome, error) {
	name := a.algorithm
	if op.Measured {
		name = dynamicconfig.Measured(name)
	}
	p, _ := a.under(name)
	return p.Do(ctx, op)
}

// No change of a rule, from and to any algorithm, mode, fallback and kind of key,
// gives a second burst. A bucket here fills too slowly to matter.
func TestNoChangeOfARuleGivesASecondBurst(t *testing.T) {
	const burst = 20
	algorithms := []string{"even", "elastic", "request-weighted", "exact", "redis", "auto"}
	modes := []dynamicconfig.Mode{dynamicconfig.ModeDisabled, dynamicconfig.ModeOld, dynamicconfig.ModeOldShadowNew, dynamicconfig.ModeNewShadowOld, dynamicconfig.ModeNew}
	drawRule := func(rt *rapid.T) (r dynamicconfig.Rule) {
		r = dynamicconfig.Rule{Key: "k", Limit: 1e-6, Burst: burst, IdleAfter: time.Hour}
		if r.Fallback = pick(rt, "fallback", dynamicconfig.FallbackEven, dynamicconfig.FallbackClosed, dynamicconfig.FallbackSafe); r.Fallback == dynamicconfig.FallbackSafe {
			r.SafeCapacity = 1e-6
		}
		switch r.Algorithm = pick(rt, "algorithm", algorithms...); rapid.IntRange(0, 5).Draw(rt, "what") {
		case 0, 1, 2:
			if to := pick(rt, "to", algorithms...); to != r.Algorithm {
				r.Migration = &dynamicconfig.Migration{From: r.Algorithm, To: to, Mode: pick(rt, "mode", modes...)}
			}
		case 3:
			r.Key = "other"
		case 4:
			r = dynamicconfig.Rule{Key: "k", Limit: 5, InFlight: true, Algorithm: "fair-share", Lease: time.Minute}
		}
		return r
	}
	rapid.Check(t, func(rt *rapid.T) {
		now := stage.Now()
		var options []limiter.Option
		of := &owner{pools: make(map[string]*pool), full: burst}
		for _, a := range []string{"exact", "auto"} {
			options = append(options, limiter.WithRemote(a, asked{of, a}))
		}
		options = append(options, limiter.WithRemote("redis", &drained{left: burst}))
		options = append(options, driver.WithSeed(1), driver.WithBackground(func(f func()) { f() }))
		if rapid.Bool().Draw(rt, "measures") {
			options = append(options, limiter.WithMigration(shadow.Migrator()))
		}
		config := func(r dynamicconfig.Rule) *dynamicconfig.Snapshot {
			of.configure(r)
			s, err := dynamicconfig.Config{
				Name: "test", Properties: dynamicconfig.Properties{UpdateInterval: time.Second}, Rules: []dynamicconfig.Rule{r}, Unmatched: dynamicconfig.UnmatchedDeny,
			}.Snapshot()
			if err != nil {
				rt.Fatal(err)
			}
			return s
		}
		g := limiter.NewGroup(config(drawRule(rt)), 1, options...)
		k, admitted := g.For("k"), 0
		for range rapid.IntRange(1, 8).Draw(rt, "changes") {
			for range rapid.IntRange(0, 30).Draw(rt, "events") {
				if answering(&of.rule) == "" { // what passes is not counted
					break
				}
				v, _ := k.Stage().Take(rt.Context(), stage.Request{Now: now, N: 1, Kind: stage.Final})
				if v.OK() {
					admitted++
				}
			}
			if now = now.Add(pick(rt, "time", time.Millisecond, 10*time.Second, 2*time.Minute)); rapid.Bool().Draw(rt, "reports") {
				of.answer(rt, g, now, admitted)
			}
			driver.Of(g).Configure(now, config(drawRule(rt)))
		}
		if admitted > burst {
			rt.Fatalf("%d of a burst of %d", admitted, burst)
		}
	})
}

// A part that answers nothing does not lower the charge of a remote bucket.
func TestAMoveAfterAMigrationGivesNoSecondBurst(t *testing.T) {
	const burst = 20
	rule := func(algorithm string) dynamicconfig.Rule {
		return dynamicconfig.Rule{Key: "k", Limit: 1e-6, Burst: burst, Algorithm: algorithm}
	}
	migrating := func(from, to string, mode dynamicconfig.Mode) dynamicconfig.Rule {
		r := rule(from)
		r.Migration = &dynamicconfig.Migration{From: from, To: to, Mode: mode}
		return r
	}
	const modeOld, modeNew = dynamicconfig.ModeOld, dynamicconfig.ModeNew
	for _, tt := range []struct {
		name     string
		measured bool // by shadow.Migrator
		path     []dynamicconfig.Rule
	}{
		{"elastic and an idle part, then exact", true, []dynamicconfig.Rule{migrating("elastic", "request-weighted", modeOld), rule("exact")}},
		{"even and an idle part, then exact", true, []dynamicconfig.Rule{migrating("even", "elastic", modeOld), rule("exact")}},
		{"a new mode, then exact", true, []dynamicconfig.Rule{
			migrating("elastic", "request-weighted", modeOld), migrating("elastic", "request-weighted", modeNew), rule("exact"),
		}},
		{"a new mode that ends, then exact", true, []dynamicconfig.Rule{
			migrating("elastic", "request-weighted", modeOld), migrating("elastic", "request-weighted", modeNew), rule("request-weighted"), rule("exact"),
		}},
		{"exact is not measured, and then alone", false, []dynamicconfig.Rule{migrating("even", "exact", modeOld), rule("exact")}},
		{"exact is not measured, and then answers", false, []dynamicconfig.Rule{migrating("even", "exact", modeOld), migrating("even", "exact", modeNew)}},
		{"a migration from exact is taken back", false, []dynamicconfig.Rule{migrating("exact", "even", modeNew), rule("exact")}},
	} {
		now := stage.Now()
		of := &owner{pools: make(map[string]*pool), full: burst}
		options := []limiter.Option{limiter.WithRemote("exact", asked{of, "exact"}), driver.WithBackground(func(f func()) { f() })}
		if tt.measured {
			options = append(options, limiter.WithMigration(shadow.Migrator()))
		}
		config := func(r dynamicconfig.Rule) *dynamicconfig.Snapshot {
			of.configure(r)
			s, err := dynamicconfig.Config{Name: "test", Rules: []dynamicconfig.Rule{r}}.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		g := limiter.NewGroup(config(tt.path[0]), 1, options...)
		take := func() (admitted int) {
			for range burst + 1 {
				if v, _ := g.For("k").Stage().Take(t.Context(), stage.Request{Now: now, N: 1, Kind: stage.Final}); v.OK() {
					admitted++
				}
			}
			return admitted
		}
		admitted := take()
		now = now.Add(time.Second)
		of.answer(t, g, now, admitted)
		for _, r := range tt.path[1:] {
			now = now.Add(time.Second)
			driver.Of(g).Configure(now, config(r))
		}
		if admitted += take(); admitted != burst {
			t.Errorf("%s: %d of a burst of %d", tt.name, admitted, burst)
		}
	}
}

// The host counts the events that a grant let through after its lease has ended, too, whatever the
// fallback gives.
func TestAMoveFromAFallbackGivesNoSecondBurst(t *testing.T) {
	const burst = 20
	for _, fallback := range []dynamicconfig.Fallback{
		dynamicconfig.FallbackEven, dynamicconfig.FallbackOpen, dynamicconfig.FallbackClosed, dynamicconfig.FallbackSafe,
	} {
		for _, to := range []string{"exact", "even"} {
			now := stage.Now()
			rule := dynamicconfig.Rule{Key: "k", Limit: 1e-6, Burst: burst, Algorithm: "elastic", Fallback: fallback}
			if fallback == dynamicconfig.FallbackSafe {
				rule.SafeCapacity = 1e-6
			}
			config := func(algorithm string) *dynamicconfig.Snapshot {
				rule.Algorithm = algorithm
				s, err := dynamicconfig.Config{
					Name: "test", Properties: dynamicconfig.Properties{UpdateInterval: time.Second}, Rules: []dynamicconfig.Rule{rule},
				}.Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			g := limiter.NewGroup(config("elastic"), 1, limiter.WithRemote("exact", &drained{left: burst}), driver.WithBackground(func(f func()) { f() }))
			take := func() (admitted int) {
				for range burst + 1 {
					if v, _ := g.For("k").Stage().Take(t.Context(), stage.Request{Now: now, N: 1, Kind: stage.Final}); v.OK() {
						admitted++
					}
				}
				return admitted
			}
			g.For("k").Stage().Take(t.Context(), stage.Request{Now: now, N: 1, Kind: stage.Final}) // so that there is something to report
			now = now.Add(time.Second)
			for _, b := range driver.Of(g).Report(now) {
				grants := grantOf(1, 1, burst, time.Second)
				grants.Tokens = []float64{burst}
				if err := driver.Of(g).Apply(now, b, nil, grants); err != nil {
					t.Fatal(err)
				}
			}
			admitted := take()
			now = now.Add(time.Minute)
			driver.Of(g).Report(now)
			if st, _ := g.InspectAt(now.Time(), "k"); admitted != burst || !st.Shares[0].Fallback {
				t.Fatalf("%v: %d admitted, and %+v", fallback, admitted, st)
			}
			driver.Of(g).Configure(now, config(to))
			if n := take(); n > 0 {
				t.Errorf("%v, then %s: %d more than a burst of %d", fallback, to, n, burst)
			}
		}
	}
}

// A fallback without tokens does not hide what was used before it.
func TestTwoChangesOfAlgorithmGiveNoSecondBurst(t *testing.T) {
	const burst = 20
	for _, fallback := range []dynamicconfig.Fallback{dynamicconfig.FallbackClosed, dynamicconfig.FallbackSafe} {
		for _, path := range [][3]string{
			{"even", "elastic", "even"},
			{"even", "elastic", "exact"},
			{"even", "request-weighted", "auto"},
			{"exact", "elastic", "exact"},
			{"exact", "elastic", "even"},
			{"exact", "elastic", "auto"},
		} {
			now, admitted := stage.Now(), 0
			config := func(algorithm string) *dynamicconfig.Snapshot {
				rule := dynamicconfig.Rule{Key: "k", Limit: 1e-6, Burst: burst, Algorithm: algorithm, Fallback: fallback}
				if fallback == dynamicconfig.FallbackSafe {
					rule.SafeCapacity = 1e-6
				}
				s, err := dynamicconfig.Config{Name: "test", Rules: []dynamicconfig.Rule{rule}}.Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			owner := &drained{left: burst} // it has one pool for both
			g := limiter.NewGroup(config(path[0]), 1, limiter.WithRemote("exact", owner),
				limiter.WithRemote("auto", owner), driver.WithBackground(func(f func()) { f() }))
			for i, algorithm := range path {
				if i > 0 {
					now = now.Add(time.Second)
					driver.Of(g).Configure(now, config(algorithm))
				}
				for range []int{13, 5, 2 * burst}[i] {
					if v, _ := g.For("k").Stage().Take(t.Context(), stage.Request{Now: now, N: 1, Kind: stage.Final}); v.OK() {
						admitted++
					}
				}
			}
			if admitted > burst {
				t.Errorf("%v, fallback %v: %d of a burst of %d", path, fallback, admitted, burst)
			}
		}
	}
}

// A level without tokens cannot show how much was used before. That fills in at the limit
// that is in force meanwhile.
func TestWhatAKeyUsedFillsInUnderTheNextLimit(t *testing.T) {
	const burst = 20
	closed := dynamicconfig.Rule{Key: "k", Limit: 0.1, Burst: burst, Algorithm: "elastic", Fallback: dynamicconfig.FallbackClosed}
	for _, between := range [][]dynamicconfig.Rule{{closed}, {{Key: "other", Limit: 0.1}, closed}} {
		now, admitted := stage.Now(), 0
		config := func(r dynamicconfig.Rule) *dynamicconfig.Snapshot {
			s, err := dynamicconfig.Config{Name: "test", Rules: []dynamicconfig.Rule{r}, Unmatched: dynamicconfig.UnmatchedDeny}.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		take := func(g *limiter.Group) {
			for range burst {
				if v, _ := g.For("k").Stage().Take(t.Context(), stage.Request{Now: now, N: 1, Kind: stage.Final}); v.OK() {
					admitted++
				}
			}
		}
		g := limiter.NewGroup(config(dynamicconfig.Rule{Key: "k", Limit: 10, Burst: burst, Algorithm: "even"}), 1,
			limiter.WithRemote("exact", &drained{left: burst}), driver.WithBackground(func(f func()) { f() }))
		take(g)
		for _, r := range between {
			driver.Of(g).Configure(now, config(r))
		}
		now = now.Add(10 * time.Second)
		driver.Of(g).Configure(now, config(dynamicconfig.Rule{Key: "k", Limit: 0.1, Burst: burst, Algorithm: "exact"}))
		if take(g); admitted > burst+1 { // 0.1/s for 10 s
			t.Errorf("%d rules between: %d of a burst of %d", len(between), admitted, burst)
		}
	}
}

// A debt follows a lower limit, whether or not the rule was gone meanwhile.
func TestADebtFollowsALowerLimitThatComesLater(t *testing.T) {
	for _, gone := range []bool{false, true} {
		now := stage.Now()
		config := func(key string, limit rate.Limit) *dynamicconfig.Snapshot {
			s, err := dynamicconfig.Config{Name: "test", Rules: []dynamicconfig.Rule{{Key: key, Limit: limit, Burst: float64(limit), Algorithm: "even"}}}.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		g := limiter.NewGroup(config("k", 100), 4)
		g.For("k").Stage().Take(t.Context(), stage.Request{Now: now, N: 1000, Kind: stage.Charge})
		before := g.For("k").Stage().Level(now).Tokens
		if gone {
			driver.Of(g).Configure(now, config("other", 100))
		}
		driver.Of(g).Configure(now, config("k", 50))
		want := max(before, min(before/2, -100))
		if got := g.For("k").Stage().Level(now).Tokens; before > -120 || got < want-eps || got > want+eps {
			t.Errorf("gone %v: a debt of %v becomes %v, want %v", gone, before, got, want)
		}
	}
}

// A remote bucket that is charged with what was used before it passes that on, although
// its host has a grant by then and a fallback that cannot show it.
func TestAMoveFromAGrantPassesOnWhatWasUsedBeforeIt(t *testing.T) {
	const burst = 20
	for _, path := range [][]string{{"redis"}, {"exact"}, {"elastic", "redis"}, {"elastic", "even"}} {
		now, admitted := stage.Now(), 0
		config := func(key, algorithm string) *dynamicconfig.Snapshot {
			s, err := dynamicconfig.Config{Name: "test", Rules: []dynamicconfig.Rule{
				{Key: key, Limit: 1e-6, Burst: burst, Algorithm: algorithm, Fallback: dynamicconfig.FallbackClosed},
			}}.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		owner := &drained{left: burst} // it has one pool for both
		g := limiter.NewGroup(config("k", "even"), 1, limiter.WithRemote("exact", owner), limiter.WithRemote("auto", owner),
			limiter.WithRemote("redis", &drained{left: burst}), driver.WithBackground(func(f func()) { f() }))
		take := func() {
			for range burst {
				if v, _ := g.For("k").Stage().Take(t.Context(), stage.Request{Now: now, N: 1, Kind: stage.Final}); v.OK() {
					admitted++
				}
			}
		}
		take()
		driver.Of(g).Configure(now, config("other", "even"))
		driver.Of(g).Configure(now, config("k", "auto"))
		now = now.Add(time.Second)
		for _, b := range driver.Of(g).Report(now) {
			grants := grantOf(1, 0, burst, time.Minute)
			grants.Tokens = []float64{0}
			if err := driver.Of(g).Apply(now, b, nil, grants); err != nil {
				t.Fatal(err)
			}
		}
		if st, _ := g.InspectAt(now.Time(), "k"); len(st.Shares) != 1 || st.Shares[0].Asks {
			t.Fatalf("the host has no grant: %+v", st)
		}
		for _, algorithm := range path {
			now = now.Add(time.Second)
			driver.Of(g).Configure(now, config("k", algorithm))
		}
		if take(); admitted > burst {
			t.Errorf("auto, then %v: %d of a burst of %d", path, admitted, burst)
		}
	}
}

// A remote bucket that is asked again is charged with what was used meanwhile, and not
// with what it knows already.
func TestAMoveThereAndBackChargesNothingTwice(t *testing.T) {
	const burst = 20
	for _, other := range []string{"even", "elastic"} {
		for _, hosts := range []int{1, 2} {
			now, bucket := stage.Now(), &drained{left: burst}
			config := func(algorithm string) *dynamicconfig.Snapshot {
				s, err := dynamicconfig.Config{Name: "test", Rules: []dynamicconfig.Rule{{Key: "k", Limit: 1e-6, Burst: burst, Algorithm: algorithm}}}.Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			g := limiter.NewGroup(config("exact"), hosts, limiter.WithRemote("exact", bucket), driver.WithBackground(func(f func()) { f() }))
			take := func(n int64) {
				if v, _ := g.For("k").Stage().Take(t.Context(), stage.Request{Now: now, N: n, Kind: stage.Final}); !v.OK() {
					t.Fatalf("%s, %d hosts: %+v", other, hosts, v)
				}
			}
			take(14)
			for range 3 {
				now = now.Add(time.Second)
				driver.Of(g).Configure(now, config(other))
				take(1)
				now = now.Add(time.Second)
				driver.Of(g).Configure(now, config("exact"))
			}
			if bucket.left != burst-14-3 {
				t.Errorf("%s, %d hosts: %v tokens are left, after 17 were used", other, hosts, bucket.left)
			}
		}
	}
}

// Tokens that fill in under a grant fill in at the remote bucket too, but only once.
func TestAMoveFromAGrantThatRefillsGivesNoSecondBurst(t *testing.T) {
	const burst = 20
	now, admitted := stage.Now(), 0
	config := func(algorithm string) *dynamicconfig.Snapshot {
		s, err := dynamicconfig.Config{Name: "test", Rules: []dynamicconfig.Rule{
			{Key: "k", Limit: 1, Burst: burst, Algorithm: algorithm, Fallback: dynamicconfig.FallbackClosed},
		}}.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	owner := &drained{left: burst}
	g := limiter.NewGroup(config("redis"), 1, limiter.WithRemote("redis", owner), driver.WithBackground(func(f func()) { f() }))
	take := func(n int) {
		for range n {
			if v, _ := g.For("k").Stage().Take(t.Context(), stage.Request{Now: now, N: 1, Kind: stage.Final}); v.OK() {
				admitted++
			}
		}
	}
	take(15)
	driver.Of(g).Configure(now, config("elastic"))
	take(1) // so that there is something to report
	now = now.Add(time.Millisecond)
	for _, b := range driver.Of(g).Report(now) {
		grants := grantOf(1, 1, 5, time.Minute)
		grants.Tokens = []float64{5}
		if err := driver.Of(g).Apply(now, b, nil, grants); err != nil {
			t.Fatal(err)
		}
	}
	take(burst)
	for range 10 {
		now = now.Add(time.Second)
		owner.left++ // it fills as fast as the rule says
		take(burst)
	}
	if admitted != burst+10 {
		t.Fatalf("%d admitted until then", admitted)
	}
	driver.Of(g).Configure(now, config("redis"))
	if take(burst); admitted > burst+10 {
		t.Errorf("%d of a burst of %d and 1/s for 10 s", admitted, burst)
	}
}

// A remote bucket that is asked a second time knows the tokens of the first time. They
// count as used when the key leaves it again.
func TestAMoveAwayFromABucketThatIsAskedAgainGivesNoSecondBurst(t *testing.T) {
	const burst = 20
	now, admitted := stage.Now(), 0
	config := func(algorithm string) *dynamicconfig.Snapshot {
		rule := dynamicconfig.Rule{Key: "k", Limit: 1e-6, Burst: burst, Algorithm: algorithm, Fallback: dynamicconfig.FallbackClosed}
		s, err := dynamicconfig.Config{Name: "test", Rules: []dynamicconfig.Rule{rule}}.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	g := limiter.NewGroup(config("auto"), 1, limiter.WithRemote("auto", &drained{left: burst}),
		limiter.WithRemote("redis", &drained{left: burst}), driver.WithBackground(func(f func()) { f() }))
	take := func(n int) {
		for range n {
			if v, _ := g.For("k").Stage().Take(t.Context(), stage.Request{Now: now, N: 1, Kind: stage.Final}); v.OK() {
				admitted++
			}
		}
	}
	take(15)
	driver.Of(g).Configure(now, config("even"))
	driver.Of(g).Configure(now, config("auto"))
	now = now.Add(time.Second)
	for _, b := range driver.Of(g).Report(now) {
		grants := grantOf(1, 0, burst, time.Minute)
		grants.Tokens = []float64{5}
		if err := driver.Of(g).Apply(now, b, nil, grants); err != nil {
			t.Fatal(err)
		}
	}
	driver.Of(g).Configure(now, config("redis"))
	if take(burst); admitted > burst {
		t.Errorf("%d of a burst of %d", admitted, burst)
	}
}

// A host that uses little finds a full fallback when its owner stops answering: usage
// while answers are missing fills in again as it does while they come.
func TestAFallbackThatBeginsWithoutAnswersHasWhatWasNotUsed(t *testing.T) {
	for _, algorithm := range []string{"elastic", "request-weighted"} {
		s, err := dynamicconfig.Config{Name: "test", Rules: []dynamicconfig.Rule{{Key: "k", Limit: 10, Burst: 20, Algorithm: algorithm}}}.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		now, g := stage.Now(), limiter.NewGroup(s, 4)
		for i := range 12 {
			if v, _ := g.For("k").Stage().Take(t.Context(), stage.Request{Now: now, N: 1, Kind: stage.Final}); !v.OK() {
				t.Fatalf("%s, event %d: %+v", algorithm, i, v)
			}
			now = now.Add(3 * time.Second)
			for _, b := range driver.Of(g).Report(now) {
				if grants := grantOf(1, 0.05, 1, 20*time.Second); i < 4 {
					if err := driver.Of(g).Apply(now, b, nil, grants); err != nil {
						t.Fatal(err)
					}
				}
			}
			status, _ := g.InspectAt(now.Time(), "k")
			if of := status.Shares[0]; of.Fallback != (i >= 10) || of.Fallback && of.Level.Tokens < 4 {
				t.Errorf("%s, after event %d: fallback %v, %+v", algorithm, i, of.Fallback, of.Level)
			}
		}
	}
}

// A grant may hold few tokens, and all of them be there: that does not hide what was used.
func TestAMoveFromAFullGrantGivesNoSecondBurst(t *testing.T) {
	const burst = 20
	rule := dynamicconfig.Rule{Key: "k", Limit: 1e-6, Burst: burst, Algorithm: "elastic"}
	closed, redis, other := rule, rule, rule
	closed.Fallback, redis.Algorithm, other.Key = dynamicconfig.FallbackClosed, "redis", "other"
	closed.Algorithm = "request-weighted"
	for _, path := range [][]dynamicconfig.Rule{{redis}, {other, redis}, {closed, redis}} {
		now, admitted := stage.Now(), 0
		config := func(r dynamicconfig.Rule) *dynamicconfig.Snapshot {
			s, err := dynamicconfig.Config{Name: "test", Rules: []dynamicconfig.Rule{r}, Unmatched: dynamicconfig.UnmatchedDeny}.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		g := limiter.NewGroup(config(rule), 1, limiter.WithRemote("redis", &drained{left: burst}), driver.WithBackground(func(f func()) { f() }))
		take := func(n int) {
			for range n {
				if v, _ := g.For("k").Stage().Take(t.Context(), stage.Request{Now: now, N: 1, Kind: stage.Final}); v.OK() {
					admitted++
				}
			}
		}
		take(15)
		now = now.Add(time.Second)
		for _, b := range driver.Of(g).Report(now) { // the owner lends 4 of 5, as deep as it lends
			grants := grantOf(1, 0, 4, time.Minute)
			grants.Tokens = []float64{4}
			if err := driver.Of(g).Apply(now, b, nil, grants); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range path {
			driver.Of(g).Configure(now, config(r))
		}
		if take(burst); admitted > burst {
			t.Errorf("%d changes: %d of a burst of %d", len(path), admitted, burst)
		}
	}
}

// Slots that are held stay held however the rule changes, so callers never hold twice the
// limit: a rule that migrates vanishes and comes back, or names other algorithms.
func TestSlotsOfAMigrationStayHeldThroughOtherRules(t *testing.T) {
	plain := func(algorithm string) string {
		return "limits: [{key: k, limit: 10 in-flight, algorithm: " + algorithm + "}]"
	}
	migrates := func(from, to, mode string) string {
		return fmt.Sprintf("limits: [{key: k, limit: 10 in-flight, migrate: {from: %s, to: %s, mode: %s}}]", from, to, mode)
	}
	const allow, deny, rated = "unmatched: allow", "unmatched: deny", "limits: [{key: k, limit: 10/s, algorithm: even}]"
	for _, mode := range []string{"old", "old-shadow-new", "new-shadow-old", "new"} {
		first := migrates("even", "fair-share", mode)
		for _, rules := range [][]string{
			{first, allow, plain("even")},
			{first, deny, first},
			{first, rated, first},
			{first, allow, rated, allow, plain("fair-share")},
			{first, plain("static")},
			{first, migrates("static", "proportional-share", mode)},
			{plain("even"), migrates("static", "proportional-share", mode)},
			{plain("even"), rated, migrates("static", "proportional-share", mode)},
		} {
			g := limiter.NewGroup(traceLimits(t, rules[0]), 1, limiter.WithMigration(shadow.Migrator()))
			release, ok := g.For("k").TryAcquire(10)
			for _, rule := range rules[1:] {
				g.Configure(traceLimits(t, rule))
				driver.Of(g).Report(stage.Now())
			}
			if _, again := g.For("k").TryAcquire(1); !ok || again {
				t.Errorf("%q: the first caller holds 10 of 10 slots: %t, and another one: %t", rules, ok, again)
			}
			release()
			if _, ok := g.For("k").TryAcquire(10); !ok {
				t.Errorf("%q: all is released, and refused", rules)
			}
		}
	}
}

// Callers may state any time. One that states a time to come changes neither when its key
// is reported, nor when the host looks at the demand of other keys.
func TestATimeToComeDoesNotHoldUpReports(t *testing.T) {
	for _, ahead := range []time.Duration{time.Minute, 365 * 24 * time.Hour} {
		g := limiter.NewGroup(traceLimits(t, "limits: [{key: '*', limit: 1000/s, algorithm: elastic}]"), 1, driver.WithSeed(1))
		m, now := driver.Of(g), stage.Now()
		g.For("first").AllowN(now.Time().Add(ahead), 1)
		var reported []string
		for range 2 {
			now = now.Add(3 * time.Second)
			g.For("first").AllowN(now.Time(), 1)
			g.For("other").AllowN(now.Time(), 1)
			for _, b := range m.Report(now) {
				reported = append(reported, b.Usage.Keys...)
				if err := m.Apply(now, b, nil, grantOf(b.Usage.Len(), 1, 100, 10*time.Second)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !slices.Contains(reported, "first") {
			t.Errorf("%v ahead: the first key is not reported: %q", ahead, reported)
		}
		if next := m.NextEarly().Sub(now); next > time.Second {
			t.Errorf("%v ahead: the host looks at demand again in %v", ahead, next)
		}
	}
}

// A key that came to life at a time to come leaves as any other does.
func TestATimeToComeDoesNotKeepAKey(t *testing.T) {
	for _, algorithm := range []string{"even", "request-weighted", "elastic", "unmatched"} {
		text := "limits: [{key: '*', limit: 1000/s, idle_after: 5s, max_keys: 1, algorithm: " + algorithm + "}]"
		if algorithm == "unmatched" {
			text = "unmatched: allow"
		}
		g := limiter.NewGroup(traceLimits(t, text), 1)
		now := stage.Now()
		g.For("k").TokensAt(now.Add(time.Hour).Time())
		for range 60 {
			now = now.Add(time.Second)
			driver.Of(g).Report(now)
		}
		others, _ := g.Others("other")
		if keys := g.Keys(); len(keys) > 0 || others > 0 {
			t.Errorf("%s: %q is there after a minute, and keeps the place of another key", algorithm, keys)
		}
	}
}

// silent is a Remote that answers charges only, and adds them up.
type silent struct{ charged float64 }

func (s *silent) Do(_ context.Context, op stage.Operation) (stage.Outcome, error) {
	if op.Kind == stage.TakeTokens {
		return stage.Outcome{}, errors.New("no answer")
	}
	s.charged += op.N
	return stage.Outcome{OK: true}, nil
}

// A remote bucket is charged with what a fallback let through, although its host was told that
// the event is yet to come.
func TestATimeToComeDoesNotHoldUpACharge(t *testing.T) {
	away, now := new(silent), stage.Now()
	g := limiter.NewGroup(traceLimits(t, "limits: [{key: k, limit: 10/s, algorithm: exact}]"), 1,
		limiter.WithRemote("exact", away), driver.WithBackground(func(f func()) { f() }))
	if !g.For("k").AllowN(now.Add(time.Hour).Time(), 5) {
		t.Fatal("the fallback refuses")
	}
	for range 20 {
		now = now.Add(time.Second)
		driver.Of(g).Report(now)
	}
	if away.charged != 5 {
		t.Errorf("the bucket is charged with %v of 5 tokens after 20 s", away.charged)
	}
}

// answers is a Remote of which each answer leaves three tokens.
type answers struct{}

func (answers) Do(context.Context, stage.Operation) (stage.Outcome, error) {
	return stage.Outcome{OK: true, Left: 3}, nil
}

// The host remembers how many tokens a remote bucket had, while rules are in force under which
// nothing decides.
func TestADisabledRuleAfterARemoteBucketMayChange(t *testing.T) {
	const exact, disabled = "limits: [{key: k, limit: 1/m, burst: 10, algorithm: exact}]",
		"limits: [{key: k, limit: 1/m, burst: 10, migrate: {from: even, to: elastic, mode: disabled}}]"
	g := limiter.NewGroup(traceLimits(t, exact), 1, limiter.WithMigration(shadow.Migrator()), limiter.WithRemote("exact", answers{}))
	g.For("k").Allow()
	for _, rules := range []string{disabled, disabled, "limits: [{key: k, limit: 1/m, burst: 10, algorithm: even}]"} {
		g.Configure(traceLimits(t, rules))
	}
	if left := g.For("k").Tokens(); left > 4 {
		t.Errorf("%v tokens are left of the 3 that there were", left)
	}
}
