// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// A remote bucket that was measured, and is measured again after its migration had ended, is
// charged with what was used meanwhile, and not with what it knows.
func TestAMigrationThatBeginsAgainChargesNothingTwice(t *testing.T) {
	for _, from := range []string{"even", "elastic"} {
		for _, mode := range []string{"old-shadow-new", "new-shadow-old"} {
			for _, between := range []string{"even", "elastic"} {
				for _, used := range []int{0, 1} {
					now, bucket := stage.Now(), &drained{left: 20}
					plain := "limits: [{key: k, limit: 0.000001/s, burst: 20, algorithm: " + between + "}]"
					migrates := "limits: [{key: k, limit: 0.000001/s, burst: 20, migrate: {from: " + from + ", to: redis, mode: " + mode + "}}]"
					g := limiter.NewGroup(traceLimits(t, migrates), 1, limiter.WithMigration(shadow.Migrator()),
						limiter.WithRemote("redis", bucket), driver.WithBackground(func(f func()) { f() }))
					take := func() {
						g.For("k").Stage().Take(t.Context(), stage.Request{Now: now, N: 1, Kind: stage.Final})
					}
					take()
					total := 1
					for range 2 {
						now = now.Add(time.Second)
						driver.Of(g).Configure(now, traceLimits(t, plain))
						for range used {
							take()
						}
						total += used
						now = now.Add(time.Second)
						driver.Of(g).Configure(now, traceLimits(t, migrates))
					}
					if lacks := 20 - int(bucket.left); lacks != total {
						t.Errorf("%s to redis, %s, with %s between: the bucket lacks %d, after %d were used", from, mode, between, lacks, total)
					}
				}
			}
		}
	}
}

// The counter of allowed tokens leaves out those that callers give back, whichever side of a migration gave them and
// whichever side answers by then.
func TestTheCounterHasNotWhatComesBackAfterAChangeOfMode(t *testing.T) {
	modes := []string{"old", "old-shadow-new", "new-shadow-old", "new", "disabled"}
	for _, pair := range []string{"from: even, to: elastic", "from: request-weighted, to: redis", "from: redis, to: even"} {
		for _, from := range modes[:4] {
			for _, to := range modes {
				now, scope := stage.Now(), tally.NewTestScope("", nil)
				rule := func(mode string) *dynamicconfig.Snapshot {
					return traceLimits(t, "limits: [{key: k, limit: 100/s, burst: 100, migrate: {"+pair+", mode: "+mode+"}}]")
				}
				g := limiter.NewGroup(rule(from), 1, limiter.WithMigration(shadow.Migrator()), limiter.WithScope(scope),
					limiter.WithRemote("redis", &drained{left: 1000}), driver.WithBackground(func(f func()) { f() }))
				k, m := g.For("k").Stage(), driver.Of(g)
				take := func(n int64) stage.Receipt {
					_, receipt := k.Take(t.Context(), stage.Request{Now: now, N: n})
					return receipt
				}
				before, after := take(30), take(30)
				k.Settle(now, before, 25)
				m.Report(now.Add(time.Second))
				m.Configure(now.Add(time.Second), rule(to))
				k.Settle(now.Add(time.Second), after, 10)
				m.Report(now.Add(2 * time.Second))
				m.Configure(now.Add(2*time.Second), rule(from))
				now = now.Add(10 * time.Second)
				take(50)
				m.Report(now)
				if got := scope.Snapshot().Counters()["limiter.allowed+rule=k"]; got == nil || got.Value() != 25+10+50 {
					t.Errorf("%s, from %s to %s: %v", pair, from, to, got)
				}
			}
		}
	}
}

// A remote bucket that refused an event as the shadow lacks it when it begins to answer, also
// if callers have waited for their tokens for longer than the bucket takes to fill.
func TestWhatARemoteBucketRefusedLongAgoIsLackingStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := func(mode string) *dynamicconfig.Snapshot {
			return traceLimits(t, "limits: [{key: k, limit: 2/s, burst: 20, migrate: {from: redis, to: even, mode: "+mode+"}}]")
		}
		bucket := &remoteRef{buckets: make(map[string]*remoteBucket)}
		g := limiter.NewGroup(rules("old-shadow-new"), 1, limiter.WithMigration(shadow.Migrator()),
			limiter.WithRemote("redis", bucket), driver.WithBackground(bucket.background))
		g.Configure(rules("new"))
		l := g.For("k")
		e := l.Take(t.Context(), 1, 0)
		g.Configure(rules("new-shadow-old"))
		e.Settle(0) // the remote bucket was charged with it, so it has one token less from now on
		for range 15 {
			l.Allow()
		}
		l.ReserveN(time.Now(), 7)
		l.ReserveN(time.Now(), 19)
		time.Sleep(20 * time.Second) // 40 tokens, of which 21 are owed
		g.Configure(rules("old-shadow-new"))
		if l.AllowN(time.Now(), 20) {
			t.Error("20 pass, and one bucket would have 19 tokens")
		}
		if !l.AllowN(time.Now(), 19) {
			t.Error("19 do not pass, and one bucket would have as many")
		}
	})
}

// A migration measured a remote bucket, and has ended. Callers settle events of that time only now:
// they give tokens back, or spend more than they took. The remote bucket hears of both. When it
// decides again, it lacks exactly what was used.
func TestABucketThatWasMeasuredAndGetsTokensBackLacksWhatWasUsed(t *testing.T) {
	for _, from := range []string{"even", "elastic"} {
		for _, mode := range []string{"old-shadow-new", "new-shadow-old"} {
			for _, actual := range []int64{0, 3, 5, 7} {
				for _, used := range [][2]int64{{}, {2, 0}, {0, 4}, {6, 4}} { // before and after the caller settles
					for i := range 4 {
						twice := i&1 != 0    // the rule changes beside
						answered := i&2 != 0 // the remote bucket did, and this host's was measured
						now, bucket := stage.Now(), &drained{left: 20}
						rules := func(then string) *dynamicconfig.Snapshot {
							return traceLimits(t, "limits: [{key: k, limit: 0.000001/s, burst: 20, "+then+"}]")
						}
						pair := "from: " + from + ", to: redis"
						if (mode == "new-shadow-old") != answered {
							pair = "from: redis, to: " + from
						}
						g := limiter.NewGroup(rules("migrate: {"+pair+", mode: "+mode+"}"), 1, limiter.WithMigration(shadow.Migrator()),
							limiter.WithRemote("redis", bucket), driver.WithBackground(func(f func()) { f() }))
						total := int64(0)
						take := func(n int64, kind stage.Kind) (stage.Stage, stage.Receipt) {
							of := g.For("k").Stage()
							v, receipt := of.Take(t.Context(), stage.Request{Now: now, N: n, Kind: kind})
							if v.OK() {
								total += n
							}
							return of, receipt
						}
						step := func(then string) {
							now = now.Add(time.Second)
							driver.Of(g).Configure(now, rules(then))
						}
						of, receipt := take(5, stage.Take)
						take(1, stage.Final)
						step("algorithm: " + from)
						take(used[0], stage.Final)
						if twice {
							step("max_wait: 1s, algorithm: " + from)
						}
						of.Settle(now, receipt, actual)
						total += actual - 5
						if twice {
							step("algorithm: " + from)
						}
						take(used[1], stage.Final)
						step("algorithm: redis")
						if lacks := 20 - int64(bucket.left); lacks != total {
							t.Errorf("%s, %s, answered %t, %d of 5, %d used, changed beside: %t: the remote bucket lacks %d, after %d were used",
								from, mode, answered, actual, used, twice, lacks, total)
						}
					}
				}
			}
		}
	}
}

// A caller takes tokens during a migration and gives them back when the remote bucket already decides
// alone. Both sides of the ended migration get them, but that bucket counts them once.
func TestABucketThatAMigrationAskedGetsBackOnce(t *testing.T) {
	for i, pair := range []string{"from: even, to: redis", "from: redis, to: even", "from: even, to: redis", "from: redis, to: even"} {
		between := int64(i/2) * 10
		now, bucket := stage.Now(), &drained{left: 20}
		rules := func(then string) *dynamicconfig.Snapshot {
			return traceLimits(t, "limits: [{key: k, limit: 0.000001/s, burst: 20, "+then+"}]")
		}
		g := limiter.NewGroup(rules("migrate: {"+pair+", mode: old-shadow-new}"), 1, limiter.WithMigration(shadow.Migrator()),
			limiter.WithRemote("redis", bucket), driver.WithBackground(func(f func()) { f() }))
		take := func(n int64) (stage.Stage, stage.Receipt) {
			of := g.For("k").Stage()
			_, receipt := of.Take(t.Context(), stage.Request{Now: now, N: n, Kind: stage.Take})
			return of, receipt
		}
		first, gaveFirst := take(10)
		now = now.Add(time.Second)
		driver.Of(g).Configure(now, rules("algorithm: even"))
		take(between)
		now = now.Add(time.Second)
		driver.Of(g).Configure(now, rules("algorithm: redis"))
		first.Settle(now, gaveFirst, 0)
		if int64(bucket.left) != 20-between {
			t.Errorf("%s: the remote bucket has %v tokens, and %d of 20 are used", pair, bucket.left, between)
		}
	}
}

// A caller gives tokens back to a remote bucket that the rule has left. When the rule returns to that
// bucket, the bucket is still charged for what this host used meanwhile by its own part of the limit.
func TestABucketThatGetsTokensBackWhileItIsNotAskedLacksWhatWasUsed(t *testing.T) {
	for _, hosts := range []int{1, 2, 4} {
		now, bucket := stage.Now(), &drained{left: 40}
		rules := func(then string) *dynamicconfig.Snapshot {
			return traceLimits(t, "limits: [{key: k, limit: 0.000001/s, burst: 40, "+then+"}]")
		}
		g := limiter.NewGroup(rules("algorithm: redis"), hosts, limiter.WithRemote("redis", bucket), driver.WithBackground(func(f func()) { f() }))
		take := func(n int64) (stage.Stage, stage.Receipt) {
			of := g.For("k").Stage()
			v, receipt := of.Take(t.Context(), stage.Request{Now: now, N: n, Kind: stage.Take})
			if !v.OK() {
				t.Fatalf("%d hosts: %d are refused", hosts, n)
			}
			return of, receipt
		}
		held, receipt := take(10)
		now = now.Add(time.Second)
		driver.Of(g).Configure(now, rules("algorithm: even"))
		take(7)
		held.Settle(now, receipt, 0)
		now = now.Add(time.Second)
		driver.Of(g).Configure(now, rules("algorithm: redis"))
		if lacks := 40 - bucket.left; lacks < 7 {
			t.Errorf("%d hosts: the remote bucket lacks %v, and 7 are used", hosts, lacks)
		}
	}
}

// A caller may give back what a migration gave after another migration, with the same bucket
// elsewhere, has begun and ended. Nothing that was used meanwhile is forgotten for that.
func TestWhatComesBackAfterASecondMigrationHidesNothing(t *testing.T) {
	now, bucket := stage.Now(), &drained{left: 20}
	rules := func(then string) *dynamicconfig.Snapshot {
		now = now.Add(time.Second)
		return traceLimits(t, "limits: [{key: k, limit: 0.000001/s, burst: 20, "+then+"}]")
	}
	g := limiter.NewGroup(rules("migrate: {from: even, to: redis, mode: old-shadow-new}"), 1, limiter.WithMigration(shadow.Migrator()),
		limiter.WithRemote("redis", bucket), driver.WithBackground(func(f func()) { f() }))
	take := func(n int64) (stage.Stage, stage.Receipt) {
		of := g.For("k").Stage()
		_, receipt := of.Take(t.Context(), stage.Request{Now: now, N: n, Kind: stage.Take})
		return of, receipt
	}
	held, receipt := take(10)
	driver.Of(g).Configure(now, rules("algorithm: even"))
	driver.Of(g).Configure(now, rules("migrate: {from: redis, to: even, mode: old-shadow-new}"))
	take(10)
	driver.Of(g).Configure(now, rules("algorithm: even"))
	held.Settle(now, receipt, 0)
	take(5)
	driver.Of(g).Configure(now, rules("algorithm: redis"))
	if bucket.left > 5 {
		t.Errorf("the remote bucket has %v tokens, and 15 of 20 are used", bucket.left)
	}
}

// Several hosts use a remote bucket, and then decide by themselves. Each of them has its even part of
// what was left, and not all of it.
func TestHostsThatLeaveARemoteBucketShareWhatIsLeft(t *testing.T) {
	const hosts, burst, used = 4, 40, 20
	migrates := func(mode string) string { return "migrate: {from: even, to: redis, mode: " + mode + "}" }
	for _, steps := range [][]string{
		{"algorithm: redis", "algorithm: even"},
		{"algorithm: redis", migrates("old")},
		{"algorithm: redis", migrates("disabled"), "algorithm: even"},
		{"algorithm: redis", "", "algorithm: even"},
		{migrates("new"), "algorithm: even"},
		{migrates("new"), migrates("old")},
		{migrates("new"), migrates("disabled"), migrates("old")},
		{migrates("new-shadow-old"), migrates("old-shadow-new")},
	} {
		now, bucket := stage.Now(), &drained{left: burst}
		rules := func(how string) *dynamicconfig.Snapshot {
			if how == "" {
				return traceLimits(t, "limits: []")
			}
			return traceLimits(t, "limits: [{key: k, limit: 0.000001/s, burst: 40, "+how+"}]")
		}
		var groups []*limiter.Group
		for range hosts {
			groups = append(groups, limiter.NewGroup(rules(steps[0]), hosts, limiter.WithMigration(shadow.Migrator()),
				limiter.WithRemote("redis", bucket), driver.WithBackground(func(f func()) { f() })))
		}
		take := func(g *limiter.Group) bool {
			v, _ := g.For("k").Stage().Take(t.Context(), stage.Request{Now: now, N: 1, Kind: stage.Final})
			return v.OK()
		}
		for i := range used {
			take(groups[i%hosts])
		}
		now = now.Add(time.Second)
		passed := 0
		for _, g := range groups {
			for _, how := range steps[1:] {
				driver.Of(g).Configure(now, rules(how))
			}
			for range burst {
				if take(g) {
					passed++
				}
			}
		}
		// Hosts do not know what others took since their own last event: three events at most.
		if most := burst - used + hosts; passed > most || passed < burst-used-hosts {
			t.Errorf("%v: %d pass, and %d were left", steps, passed, burst-used)
		}
	}
}

// A report hands what an earlier part has used to the part that the key has by then. The remote bucket was
// charged with that when it took over from the earlier part, and is not charged again.
func TestABucketThatARuleNamesAgainIsNotChargedWithWhatAnEarlierPartUsed(t *testing.T) {
	for _, reports := range []bool{false, true} {
		now, bucket := stage.Now(), &drained{left: 20}
		rules := func(how string) *dynamicconfig.Snapshot {
			return traceLimits(t, "limits: [{key: k, limit: 0.000001/s, burst: 20, "+how+"}]")
		}
		g := limiter.NewGroup(rules("migrate: {from: redis, to: even, mode: new}"), 1, limiter.WithMigration(shadow.Migrator()),
			limiter.WithRemote("redis", bucket), driver.WithBackground(func(f func()) { f() }))
		g.For("k").Stage().Take(t.Context(), stage.Request{Now: now, N: 5, Kind: stage.Final})
		for _, algorithm := range []string{"redis", "even", "redis"} {
			now = now.Add(time.Second)
			driver.Of(g).Configure(now, rules("algorithm: "+algorithm))
			if reports && algorithm == "even" {
				driver.Of(g).Report(now)
			}
		}
		if lacks := 20 - bucket.left; lacks != 5 {
			t.Errorf("reports: %v: the remote bucket lacks %v, and 5 are used", reports, lacks)
		}
	}
}
