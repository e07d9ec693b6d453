// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/mesh"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// following is a key on one host, under rules that follow each other, and a remote bucket that only this host uses.
type following struct {
	*testing.T
	key    *limiter.Limiter
	group  *limiter.Group
	remote followingRemote
	limit  rate.Limit
	ops    []stage.Operation
}

// Do implements stage.Remote.
func (l *following) Do(ctx context.Context, op stage.Operation) (stage.Outcome, error) {
	l.ops = append(l.ops, op)
	return l.remote.Do(ctx, op)
}

// under runs f, of a key that begins under a rule.
func under(t *testing.T, limit rate.Limit, burst float64, how string, f func(l *following)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(stage.Now().Sub(0).Abs())
		l := &following{T: t}
		l.remote.limit = &l.limit
		l.group = limiter.NewGroup(l.rule(limit, burst, how), 1, limiter.WithMigration(shadow.Migrator()), driver.WithSeed(1),
			limiter.WithRemote("redis", l), driver.WithBackground(func(f func()) { f() }))
		l.key = l.group.For("k")
		f(l)
	})
}

// rule is a config of one rule, or of none.
func (l *following) rule(limit rate.Limit, burst float64, how string) *dynamicconfig.Snapshot {
	l.remote.fill()
	l.limit = limit
	rule := dynamicconfig.Rule{Key: "k", Limit: limit, Burst: burst, Algorithm: how}
	switch how {
	case "none":
		rule.Key = "another"
		rule.Algorithm = "even"
	case "measured":
		rule.Algorithm, rule.Migration = "", &dynamicconfig.Migration{From: "even", To: "redis", Mode: dynamicconfig.ModeOldShadowNew}
	case "measured redis":
		rule.Algorithm, rule.Migration = "", &dynamicconfig.Migration{From: "even", To: "redis", Mode: dynamicconfig.ModeNewShadowOld}
	case "moves", "moved":
		rule.Algorithm, rule.Migration = "", &dynamicconfig.Migration{From: "redis", To: "even", Mode: dynamicconfig.ModeOldShadowNew}
		if how == "moved" {
			rule.Migration.Mode = dynamicconfig.ModeNew
		}
	case "old", "disabled":
		rule.Algorithm, rule.Migration = "", &dynamicconfig.Migration{From: "even", To: "redis", Mode: dynamicconfig.ModeOld}
		if how == "disabled" {
			rule.Migration.Mode = dynamicconfig.ModeDisabled
		}
	}
	return snapshotUnder(l.T, rule)
}

func (l *following) change(limit rate.Limit, burst float64, how string) {
	time.Sleep(time.Nanosecond)
	l.group.Configure(l.rule(limit, burst, how))
}

// has checks how many tokens the key has, as an event without a cost learns from a remote bucket.
func (l *following) has(want float64) {
	l.Helper()
	l.key.AllowN(time.Now(), 0)
	if got := l.key.Tokens(); got < want-0.01 || got > want+0.01 {
		l.Errorf("%v tokens, want %v", got, want)
	}
}

func snapshotUnder(t *testing.T, rule dynamicconfig.Rule) *dynamicconfig.Snapshot {
	s, err := dynamicconfig.Config{Properties: dynamicconfig.Properties{UpdateInterval: time.Second}, Rules: []dynamicconfig.Rule{rule}}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A burst that is lowered, or raised and lowered, leaves nothing behind that later hides what the key lacks: the key
// got all that it had used back when its rule vanished for a moment.
func TestAChangeOfBurstHidesNothingThatIsUsedLater(t *testing.T) {
	for _, bursts := range [][]float64{{50, 20}, {20, 50, 20}, {20, 10, 20}} {
		under(t, 1, bursts[0], "even", func(l *following) {
			l.key.Charge(15)
			for _, burst := range bursts[1:] {
				l.change(1, burst, "even")
			}
			time.Sleep(20 * time.Second)
			l.key.Charge(15)
			l.change(1, 20, "none")
			l.change(1, 20, "even")
			l.has(5)
		})
	}
}

// A remote bucket puts the rule in force that comes with an operation. What is settled after the rule has changed, and
// after the stage that gave the tokens has left the key, comes with the rule of now.
func TestWhatIsSettledLateComesWithTheRuleOfNow(t *testing.T) {
	for _, between := range []string{"none", "even"} {
		under(t, 0.001, 10, "redis", func(l *following) {
			e := l.key.Take(context.Background(), 5, 0)
			l.change(0.001, 10, between)
			l.change(0.001, 10, "none")
			l.change(0.001, 40, "redis")
			e.Settle(0)
			if last := l.ops[len(l.ops)-1]; last.Kind != stage.ReturnTokens || last.Rule.Burst != 40 {
				t.Errorf("by way of %s: %v tokens come back under a burst of %v", between, last.N, last.Rule.Burst)
			}
		})
	}
}

// What was taken before a key was forgotten comes back, when the key has come to life again, to a remote bucket that does
// not answer meanwhile. The key's account hears of it.
func TestWhatComesBackAfterAKeyWasForgottenIsNotHidden(t *testing.T) {
	under(t, 2, 20, "moves", func(l *following) {
		e := l.key.Take(t.Context(), 1, 0)
		l.group.Manual().Report(stage.Now())
		time.Sleep(time.Hour)
		l.group.Manual().Report(stage.Now())
		if _, live := l.group.Inspect("k"); live {
			t.Fatal("the key is not forgotten")
		}
		l.key.Charge(1)
		l.change(0.0001, 20, "moved")
		l.key.Charge(1)
		e.Settle(0)
		l.change(0.0001, 20, "moves")
		l.has(19)
	})
}

// What was taken before a key was forgotten comes back to a remote bucket after the key has come to life again. The Stage that
// asks that bucket now shows it at once, so a change of the rule neither caps the key without it, nor charges the bucket too little.
func TestWhatComesBackAfterAKeyWasForgottenStaysThroughChanges(t *testing.T) {
	for _, settleFirst := range []bool{false, true} {
		under(t, 2, 20, "measured", func(l *following) {
			e := l.key.Take(t.Context(), 2, 0)
			time.Sleep(time.Second)
			for range 2 {
				driver.Of(l.group).Report(stage.Now())
				time.Sleep(time.Hour)
			}
			if _, live := l.group.Inspect("k"); live {
				t.Fatal("the key is not forgotten")
			}
			l.key.Charge(13)
			if settleFirst {
				e.Settle(0)
			}
			l.change(2, 20, "measured redis")
			if !settleFirst {
				e.Settle(0)
			}
			l.change(2, 20, "old")
			if left := l.key.Tokens(); left < 8.99 || left > 9.01 {
				t.Errorf("settled before the first change: %v: %v tokens are left of 20, and 11 are used", settleFirst, left)
			}
			l.key.Charge(48)
			l.change(2, 20, "measured redis")
			l.has(-39)
		})
	}
}

// A host comes back to a remote bucket with a smaller burst. What that has no room for is not charged.
func TestABucketThatIsAskedAgainWithASmallerBurstLacksNoMoreThanOneThatStays(t *testing.T) {
	for _, row := range []struct{ first, used, left int }{{1, 5, 10}, {1, 12, 7}, {15, 2, 3}, {15, 4, 1}} {
		under(t, 0.001, 20, "even", func(l *following) {
			l.key.Charge(row.first)
			l.change(0.001, 20, "measured")
			l.change(0.001, 20, "even")
			l.key.Charge(row.used)
			l.change(0.001, 10, "redis")
			l.has(float64(row.left))
		})
	}
}

// A remote bucket that is not asked does not learn of a smaller burst. When it is asked again, under whichever burst, it
// is charged once with what the host used, and with what the smaller burst had no room for.
func TestABucketThatIsAskedAgainAfterASmallerBurstIsChargedOnce(t *testing.T) {
	for _, used := range []int{0, 2, 9, 10, 12} {
		for _, bursts := range [][]float64{{10, 20, 20}, {10, 20, 10}, {20, 10, 20}, {10, 10}, {10, 20}, {10, 50}} {
			under(t, 0.0001, 20, "redis", func(l *following) {
				l.key.AllowN(time.Now(), used)
				left := 20 - float64(used)
				for i, burst := range bursts {
					left = min(left, burst)
					if i == len(bursts)-1 {
						l.change(0.0001, burst, "redis")
						break
					}
					if l.change(0.0001, burst, "even"); burst == 10 {
						l.key.Charge(3)
						left -= 3
					}
				}
				l.has(left)
			})
		}
	}
}

// What the host knows of a remote bucket is not forgotten while the key is in debt.
func TestABucketThatIsAskedAgainIsChargedOnceThoughTheKeyIsInDebt(t *testing.T) {
	under(t, 0.001, 20, "redis", func(l *following) {
		l.key.Charge(5)
		l.change(0.001, 20, "even")
		l.key.Charge(16)
		l.change(0.001, 20, "even")
		l.change(0.001, 20, "redis")
		l.has(-1)
	})
}

// What callers give back while no rule limits the key is there when one does again.
func TestWhatIsGivenBackWhileThereIsNoRuleIsNotLost(t *testing.T) {
	under(t, 0.001, 20, "even", func(l *following) {
		e := l.key.Take(context.Background(), 15, 0)
		l.change(0.001, 20, "none")
		e.Settle(3)
		e.Settle(0)
		l.change(0.001, 20, "even")
		l.has(17)
	})
}

// A refund to a remote bucket that is not asked any more does not hide what the host uses meanwhile.
func TestWhatARemoteBucketGetsBackHidesNothingThatIsUsedLater(t *testing.T) {
	under(t, 1, 20, "even", func(l *following) {
		l.key.Charge(12)
		e := l.key.Take(context.Background(), 4, 0)
		l.change(1, 20, "redis")
		l.key.AllowN(time.Now(), 4)
		l.key.ReserveN(time.Now(), 5)
		r := l.key.ReserveN(time.Now(), 7)
		l.change(10, 20, "even")
		r.Cancel()
		e.Settle(0)
		time.Sleep(3 * time.Second)
		l.key.Charge(2)
		l.change(1, 20, "redis")
		l.has(18)
	})
}

// A debt that a lower limit has made less is not made deeper again by rules that come later.
func TestADebtThatALowerLimitMadeLessStaysLess(t *testing.T) {
	under(t, 10, 20, "even", func(l *following) {
		l.key.ReserveN(time.Now(), 20)
		l.key.ReserveN(time.Now(), 20)
		l.key.ReserveN(time.Now(), 3)
		l.change(1, 10, "even")
		l.has(-20)
		l.change(1, 10, "none")
		l.change(1, 10, "even")
		l.has(-20)
	})
}

// A rule that lets all slots pass says nothing of how fast a bucket fills.
func TestARuleOfSlotsThatLimitsNothingLeavesWhatAKeyLacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(stage.Now().Sub(0).Abs())
		ofRate := traceLimits(t, "limits: [{key: k, limit: 1/s, burst: 20, algorithm: even}]")
		g := limiter.NewGroup(ofRate, 1)
		k := g.For("k")
		k.AllowN(time.Now(), 20)
		g.Configure(traceLimits(t, "limits: [{key: k, limit: 1000 in-flight, migrate: {from: even, to: fair-share, mode: disabled}}]"))
		time.Sleep(time.Second)
		if g.Configure(ofRate); k.Tokens() > 1.01 {
			t.Errorf("%v tokens, want 1", k.Tokens())
		}
	})
}

// A caller that waits for slots of a shared rule looks for other slots as soon as its key decides by others.
func TestAWaiterForSharedSlotsFollowsItsKey(t *testing.T) {
	const shared = "{key: 'k:*', limit: 1 in-flight, algorithm: even, shared: true}"
	for name, next := range map[string]string{
		"not shared any more":   "{key: 'k:*', limit: 1 in-flight, algorithm: even}",
		"a rule of its own":     shared + ", {key: 'k:a', limit: 1 in-flight, algorithm: even}",
		"another shared rule":   "{key: 'k:a*', limit: 1 in-flight, algorithm: even, shared: true}, " + shared,
		"a rate":                shared + ", {key: 'k:a', limit: 1/s, algorithm: even}",
		"no rule":               "{key: 'k:b', limit: 1 in-flight, algorithm: even}",
		"a rate that is shared": "{key: 'k:*', limit: 1/s, algorithm: even, shared: true}",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := limiter.NewGroup(traceLimits(t, "limits: ["+shared+"]"), 1)
				g.For("k:b").TryAcquire(1)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var ended error
				go func() { _, ended = g.For("k:a").Acquire(ctx, 1); cancel() }()
				synctest.Wait()
				g.Configure(traceLimits(t, "limits: ["+next+"]"))
				if <-ctx.Done(); ended != nil {
					t.Error(ended)
				}
			})
		})
	}
}

// A migration to a remote bucket that is not asked has a smaller burst than the rules before and after it.
func TestAMigrationThatNeverAsksItsBucketHidesNothing(t *testing.T) {
	for _, row := range []struct{ first, before, during, left int }{{50, 1, 1, 19}, {20, 0, 15, 5}, {50, 0, 4, 16}} {
		under(t, 0.0001, float64(row.first), "even", func(l *following) {
			l.key.Charge(row.before)
			l.change(0.0001, 20, "old")
			l.key.Charge(row.during)
			l.change(0.0001, 50, "redis")
			l.has(float64(row.left))
		})
	}
}

// A migration whose bucket nobody asks begins, ends and begins again. The bucket is charged once with what the host
// used, when it answers.
func TestAMigrationThatBeginsTwiceIsChargedOnce(t *testing.T) {
	for _, how := range []string{"old", "disabled"} {
		under(t, 0.0001, 20, "even", func(l *following) {
			l.key.Charge(5)
			for range 2 {
				l.change(0.0001, 20, how)
				l.key.Charge(1)
				l.change(0.0001, 20, "even")
				l.key.Charge(1)
			}
			l.change(0.0001, 20, "redis")
			left := 11.
			if how == "disabled" {
				left = 13 // what passed while the rule was disabled was not limited
			}
			l.has(left)
		})
	}
}

// What a remote bucket gave is given back under a third rule, and once.
func TestWhatComesBackUnderAThirdRuleComesBackOnce(t *testing.T) {
	for _, between := range []float64{20, 10} {
		under(t, 0.0001, 20, "redis", func(l *following) {
			e := l.key.Take(t.Context(), 5, 0)
			l.key.AllowN(time.Now(), 2)
			l.change(0.0001, 20, "even")
			l.change(0.0001, between, "even")
			l.key.AllowN(time.Now(), 3)
			e.Settle(0)
			l.change(0.0001, 20, "redis")
			l.key.AllowN(time.Now(), 0)
			if got := l.key.Tokens(); got > 15.01 || got < 6.99 {
				t.Errorf("by way of a burst of %v: %v tokens, and 5 of 20 are used", between, got)
			}
		})
	}
}

// Two hosts leave a remote bucket and come back to it, by way of other bursts. It has then no more than one
// bucket would, and fewer only by what rounding and one host's even part take.
func TestHostsThatComeBackToARemoteBucketChargeItOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rapid.SyncTest(rt, func(rt *rapid.T) {
			time.Sleep(stage.Now().Sub(0).Abs())
			limit, left, full := rate.Limit(0.0001), 20., false
			bucket := &followingRemote{limit: &limit}
			rule := func(algorithm string) *dynamicconfig.Snapshot {
				burst := float64(pick(rt, "burst", 10, 20, 50))
				full = full || left >= burst || left >= 20 // a key that is full is full under any burst
				left = min(left, burst)
				return snapshotOf(rt, dynamicconfig.Rule{Key: "k", Limit: limit, Burst: burst, Algorithm: algorithm}, dynamicconfig.Override{})
			}
			var hosts [2]*limiter.Group
			first := snapshotOf(rt, dynamicconfig.Rule{Key: "k", Limit: limit, Burst: 20, Algorithm: "redis"}, dynamicconfig.Override{})
			for i := range hosts {
				hosts[i] = limiter.NewGroup(first, len(hosts), driver.WithSeed(1), limiter.WithRemote("redis", bucket), driver.WithBackground(func(f func()) { f() }))
			}
			use := func() {
				for _, g := range hosts {
					if n := rapid.IntRange(0, 6).Draw(rt, "n"); g.For("k").AllowN(time.Now(), n) {
						left -= float64(n)
					}
				}
			}
			change := func(algorithm string) {
				time.Sleep(time.Nanosecond)
				next := rule(algorithm)
				for _, g := range hosts {
					g.Configure(next)
				}
			}
			use()
			for _, g := range hosts { // each learns what the bucket has
				g.For("k").AllowN(time.Now(), 0)
			}
			for range rapid.IntRange(1, 3).Draw(rt, "changes") {
				change("even")
				use()
			}
			change("redis")
			for _, g := range hosts {
				g.For("k").AllowN(time.Now(), 0)
			}
			synctest.Wait()
			if bucket.tokens > left+0.01 && !full || bucket.tokens < left-5 {
				rt.Fatalf("the bucket has %v tokens, and one bucket %v", bucket.tokens, left)
			}
		})
	})
}

// What a host asks of a remote bucket in the background is under way when the rule changes. The bucket is not charged
// with it again.
func TestWhatIsUnderWayIsNotChargedAgain(t *testing.T) {
	for _, rules := range [][]string{{"measured", "redis"}, {"measured", "even", "redis"}, {"redis", "even", "redis"}} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(stage.Now().Sub(0).Abs())
			l := &following{T: t}
			l.remote.limit = &l.limit
			var underWay []func()
			l.group = limiter.NewGroup(l.rule(0.0001, 20, rules[0]), 1, limiter.WithMigration(shadow.Migrator()), driver.WithSeed(1),
				limiter.WithRemote("redis", l), driver.WithBackground(func(f func()) { underWay = append(underWay, f) }))
			l.key = l.group.For("k")
			l.key.Charge(5)
			l.key.Charge(2)
			for _, how := range rules[1:] {
				l.change(0.0001, 20, how)
			}
			for len(underWay) > 0 {
				underWay[0]()
				underWay = underWay[1:]
			}
			if left := l.remote.tokens; left != 13 {
				t.Errorf("%q: the bucket has %v tokens, and 7 of 20 are used", rules, left)
			}
		})
	}
}

// A reset of a key's buckets begins another account. What the key had allowed until then counts for nothing.
func TestAResetGivesNoSecondBurst(t *testing.T) {
	under(t, 1, 20, "even", func(l *following) {
		l.key.Charge(5)
		l.change(1, 20, "measured")
		for range 4 {
			l.key.AllowN(time.Now(), 10)
			time.Sleep(10 * time.Second)
		}
		if err := l.group.Reset(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		l.change(0.0001, 20, "even")
		l.key.AllowN(time.Now(), 15)
		l.change(0.0001, 20, "redis")
		l.has(5)
	})
}

// The same of a migration whose bucket was capped and has not answered.
func TestAResetOfABucketThatHasNotAnsweredGivesNoSecondBurst(t *testing.T) {
	under(t, 1, 20, "redis", func(l *following) {
		for range 10 {
			l.key.AllowN(time.Now(), 10)
			time.Sleep(10 * time.Second)
		}
		l.change(0.0001, 20, "even")
		l.change(0.0001, 20, "measured")
		l.key.AllowN(time.Now(), 10)
		if err := l.group.Reset(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		l.key.AllowN(time.Now(), 3)
		l.change(0.0001, 20, "even")
		l.key.AllowN(time.Now(), 12)
		l.change(0.0001, 20, "redis")
		l.has(5)
	})
}

// An override lets nothing pass. It ends with the change that moves the rule to a remote bucket.
func TestALimitOfNothingInBetweenGivesNoSecondBurst(t *testing.T) {
	for _, between := range []string{"even", "old", "measured"} {
		under(t, 0.0001, 20, "even", func(l *following) {
			l.key.AllowN(time.Now(), 15)
			l.change(0, 0, between)
			l.change(0.0001, 20, "redis")
			l.key.AllowN(time.Now(), 0)
			if got := l.key.Tokens(); got > 5.01 {
				t.Errorf("%s: %.1f tokens, and 15 of 20 are used", between, got)
			}
		})
	}
}

// A bucket in Redis that nobody has asked for ten minutes is full under any burst, and forgotten. The host forgets its burst, too.
func TestABucketIsFullUnderAnyBurstAfterTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(stage.Now().Sub(0).Abs())
		red := &forgetful{keep: 10 * time.Minute}
		g := limiter.NewGroup(traceLimits(t, forgetfulRule("redis", 10)), 1, limiter.WithRemote("redis", red), driver.WithSeed(1), driver.WithBackground(func(f func()) { f() }))
		k := g.For("k")
		k.AllowN(time.Now(), 3)
		time.Sleep(time.Second)
		g.Configure(traceLimits(t, forgetfulRule("even", 50)))
		for range 66 { // 11 minutes
			k.Allow()
			time.Sleep(10 * time.Second)
		}
		k.AllowN(time.Now(), 40)
		left := k.Tokens()
		time.Sleep(time.Millisecond)
		g.Configure(traceLimits(t, forgetfulRule("redis", 50)))
		k.AllowN(time.Now(), 0)
		if red.left > left+1.01 {
			t.Errorf("the bucket has %.1f of 50 tokens, and one bucket %.1f", red.left, left)
		}
	})
}

func forgetfulRule(algorithm string, burst int) string {
	return fmt.Sprintf("limits: [{key: k, limit: 1/s, burst: %d, algorithm: %s}]", burst, algorithm)
}

// forgetful is a bucket that is asked under a rule, and forgotten once it was full and not asked for so long, as in Redis.
type forgetful struct {
	left, burst float64
	asked       bool
	at          stage.Instant
	keep        time.Duration
}

func (d *forgetful) Do(_ context.Context, op stage.Operation) (stage.Outcome, error) {
	now := stage.Now()
	if d.asked {
		since := now.Sub(d.at)
		filled := d.left + float64(op.Rule.Limit)*since.Seconds()
		d.asked = filled < d.burst || since <= d.keep
		d.left = min(filled, d.burst)
	}
	if !d.asked {
		d.asked, d.left = true, op.Rule.Burst
	}
	d.at, d.burst = now, op.Rule.Burst
	d.left = min(d.left, d.burst)
	switch {
	case op.Kind == stage.ChargeTokens:
		d.left -= op.N
	case op.Kind == stage.ReturnTokens || op.Kind == stage.FillTokens:
		d.left = min(d.left+op.N, d.burst)
	case op.N > d.left:
		return stage.Outcome{Left: d.left}, nil
	default:
		d.left -= op.N
	}
	return stage.Outcome{OK: true, Left: d.left}, nil
}

// A rule of slots names an algorithm for which the Group has a Remote. Slots are never asked of it, so there is nothing to charge.
func TestARuleOfSlotsUnderTheNameOfARemoteDoesNotPanic(t *testing.T) {
	for _, first := range []string{"10 in-flight, algorithm: mine", "10 in-flight, algorithm: even", "10/s, algorithm: mine", "10/s, algorithm: even"} {
		for _, then := range []string{"20 in-flight, algorithm: mine", "20 in-flight, migrate: {from: even, to: mine, mode: new}", "10/s, algorithm: mine"} {
			g := limiter.NewGroup(traceLimits(t, "limits: [{key: k, limit: "+first+"}]"), 1, limiter.WithRemote("mine", &drained{left: 10}), driver.WithBackground(func(f func()) { f() }))
			g.For("k").Allow()
			g.For("k").TryAcquire(1)
			g.Configure(traceLimits(t, "limits: [{key: k, limit: "+then+"}]"))
			g.For("k").Allow()
			g.For("k").TryAcquire(1)
		}
	}
}

// While no rule limits the key, a Stage that has left gives tokens back under its own rule, whose burst is larger than the
// latest under which the bucket was asked. The bucket fills up to that burst.
func TestWhatAnEarlierStageGivesBackMayRaiseTheBurst(t *testing.T) {
	under(t, 1, 20, "redis", func(l *following) {
		e := l.key.Take(t.Context(), 1, 0)
		l.change(1, 20, "none")
		l.change(1, 10, "even")
		l.key.AllowN(time.Now(), 3)
		l.change(1, 10, "redis")
		l.key.AllowN(time.Now(), 0)
		l.change(1, 20, "none")
		time.Sleep(20 * time.Second)
		e.Settle(0)
		l.change(1, 20, "even")
		l.key.AllowN(time.Now(), 12)
		time.Sleep(5 * time.Second)
		l.change(1, 20, "redis")
		l.key.AllowN(time.Now(), 0)
		if got := l.key.Tokens(); got > 13.01 {
			t.Errorf("%v tokens, and one bucket has 13", got)
		}
	})
}

// A host whose peers leave has their part of the limit, and knows their part of what a remote bucket lacks. It charges that
// bucket with what it used itself since, and not with the room that the others have left.
func TestAHostWhosePeersLeaveChargesWhatItUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(stage.Now().Sub(0).Abs())
		limit := rate.Limit(0.0001)
		bucket := &followingRemote{limit: &limit}
		rule := func(algorithm string) *dynamicconfig.Snapshot {
			return snapshotUnder(t, dynamicconfig.Rule{Key: "k", Limit: limit, Burst: 20, Algorithm: algorithm})
		}
		var hosts [2]*limiter.Group
		for i := range hosts {
			hosts[i] = limiter.NewGroup(rule("redis"), len(hosts), driver.WithSeed(1), limiter.WithRemote("redis", bucket), driver.WithBackground(func(f func()) { f() }))
		}
		for _, n := range []int{5, 0} {
			for _, g := range hosts {
				g.For("k").AllowN(time.Now(), n)
			}
		}
		for _, g := range hosts {
			g.Configure(rule("even"))
		}
		hosts[0].SetHosts(1)
		hosts[0].For("k").AllowN(time.Now(), 2)
		time.Sleep(time.Nanosecond)
		hosts[0].Configure(rule("redis"))
		hosts[0].For("k").AllowN(time.Now(), 0)
		if got := hosts[0].For("k").Tokens(); got < 7.99 || got > 8.01 {
			t.Errorf("%v tokens, and 12 of 20 are used", got)
		}
	})
}

// beside is a key on one host, of a migration between this host's bucket and gossip's.
func beside(t *testing.T, rule dynamicconfig.Rule, mode dynamicconfig.Mode, f func(k *limiter.Limiter, in func(dynamicconfig.Mode))) {
	synctest.Test(t, func(t *testing.T) {
		under := func(mode dynamicconfig.Mode) *dynamicconfig.Snapshot {
			next := *rule.Migration
			next.Mode, rule.Migration = mode, &next
			return snapshotUnder(t, rule)
		}
		alone := mesh.New("this host", func(string) (*dynamicconfig.Rule, bool) { return &rule, true }, mesh.Config{})
		g := limiter.NewGroup(under(mode), 1, limiter.WithMigration(shadow.Migrator()), driver.WithSeed(1),
			limiter.WithRemote(mesh.Name, alone), driver.WithBackground(func(f func()) { f() }))
		f(g.For("k"), func(mode dynamicconfig.Mode) { g.Configure(under(mode)) })
	})
}

// A charge makes a debt as deep as it can be, and then tokens come back, also to the bucket that a migration measures.
func TestWhatComesBackAfterTheDeepestDebtIsUsedOnce(t *testing.T) {
	rule := dynamicconfig.Rule{Key: "k", Limit: 2, Burst: 20, Migration: &dynamicconfig.Migration{From: mesh.Name, To: limiter.Even}}
	beside(t, rule, dynamicconfig.ModeOldShadowNew, func(k *limiter.Limiter, in func(dynamicconfig.Mode)) {
		k.Charge(1)
		k.Charge(7)
		in(dynamicconfig.ModeNewShadowOld)
		e := k.Take(t.Context(), 2, 0)
		k.Charge(54)
		e.Settle(0)
		in(dynamicconfig.ModeNew)
		k.Charge(2)
		in(dynamicconfig.ModeOldShadowNew)
		k.AllowN(time.Now(), 0)
		if got := k.Tokens(); got > -39.9 {
			t.Errorf("%v tokens, and one bucket has -40", got)
		}
	})
}

// A remote bucket is in debt as deep as a charge can make it, and is charged again. It lacks no more then.
func TestAChargeBeyondTheDeepestDebtIsNotTakenForUse(t *testing.T) {
	rule := dynamicconfig.Rule{Key: "k", Limit: 2, Burst: 20, Migration: &dynamicconfig.Migration{From: limiter.Even, To: mesh.Name}}
	beside(t, rule, dynamicconfig.ModeOld, func(k *limiter.Limiter, in func(dynamicconfig.Mode)) {
		k.Charge(1)
		k.Charge(44)
		k.ReserveN(time.Now(), 16)
		in(dynamicconfig.ModeNewShadowOld)
		k.Charge(2)
		in(dynamicconfig.ModeOld)
		time.Sleep(time.Second)
		k.Charge(1)
		k.Charge(1)
		in(dynamicconfig.ModeNewShadowOld)
		time.Sleep(20 * time.Second)
		if k.AllowN(time.Now(), 2) {
			t.Error("2 passed, and one bucket has at most 1 token")
		}
	})
}

// A remote bucket that is in debt as deep as a charge can make it is charged again, and then tokens come back. It lacks
// no more than if that charge had not been.
func TestAChargeThatABucketForgaveIsNotLackingThere(t *testing.T) {
	rule := dynamicconfig.Rule{Key: "k", Limit: 2, Burst: 20, Migration: &dynamicconfig.Migration{From: mesh.Name, To: limiter.Even}}
	beside(t, rule, dynamicconfig.ModeOldShadowNew, func(k *limiter.Limiter, in func(dynamicconfig.Mode)) {
		k.Charge(41)
		first := k.ReserveN(time.Now(), 6) // -27
		in(dynamicconfig.ModeNew)
		k.ReserveN(time.Now(), 14) // -41: one more than a charge makes
		in(dynamicconfig.ModeOldShadowNew)
		k.Charge(2) // nothing
		first.Cancel()
		in(dynamicconfig.ModeNew)
		k.Charge(6)
		in(dynamicconfig.ModeOldShadowNew)
		if wait := k.Reserve().Delay(); wait < 20*time.Second {
			t.Errorf("a wait of %v: the bucket lacks fewer tokens than the key", wait)
		}
	})
}

// A bucket in Redis that was not asked since its limit was raised fills by the lower one until it is asked. So it lacks more than
// the host's bucket beside it. A mode that changes to and fro takes no tokens for that but once.
func TestAModeThatGoesToAndFroTakesNoTokens(t *testing.T) {
	rule := dynamicconfig.Rule{Key: "k", Limit: 1, Burst: 20, Migration: &dynamicconfig.Migration{From: limiter.Even, To: "redis"}}
	synctest.Test(t, func(t *testing.T) {
		under := func(mode dynamicconfig.Mode) *dynamicconfig.Snapshot {
			next := *rule.Migration
			next.Mode, rule.Migration = mode, &next
			return snapshotUnder(t, rule)
		}
		r := &remoteRef{buckets: make(map[string]*remoteBucket)}
		g := limiter.NewGroup(under(dynamicconfig.ModeOldShadowNew), 1, limiter.WithMigration(shadow.Migrator()), driver.WithSeed(1),
			limiter.WithRemote("redis", r), driver.WithBackground(r.background))
		k := g.For("k")
		k.AllowN(time.Now(), 15)
		rule.Limit = 2
		g.Configure(under(dynamicconfig.ModeOldShadowNew))
		time.Sleep(5 * time.Second)
		k.Allow() // 14 on the host, 9 in Redis
		for range 3 {
			for _, mode := range []dynamicconfig.Mode{dynamicconfig.ModeNewShadowOld, dynamicconfig.ModeOldShadowNew} {
				g.Configure(under(mode))
				if got, there := k.Tokens(), r.bucket("k").tokens; got != 9 || there != 9 {
					t.Fatalf("%v: %v tokens, and %v in Redis: 9 are left", mode, got, there)
				}
			}
		}
	})
}

// A burst that is lowered makes no debt less. A bucket in Redis that is deeper in debt than a charge could make it now is
// not charged with the difference.
func TestADebtUnderASmallerBurstIsChargedOnce(t *testing.T) {
	rule := dynamicconfig.Rule{Key: "k", Limit: 1, Burst: 5, Migration: &dynamicconfig.Migration{From: limiter.Even, To: "redis"}}
	synctest.Test(t, func(t *testing.T) {
		r := &remoteRef{buckets: make(map[string]*remoteBucket)}
		under := func(burst float64, mode dynamicconfig.Mode) *dynamicconfig.Snapshot {
			next := *rule.Migration
			next.Mode, rule.Migration, rule.Burst = mode, &next, burst
			return snapshotUnder(t, rule)
		}
		g := limiter.NewGroup(under(5, dynamicconfig.ModeOldShadowNew), 1, limiter.WithMigration(shadow.Migrator()), driver.WithSeed(1),
			limiter.WithRemote("redis", r), driver.WithBackground(r.background))
		k := g.For("k")
		k.Charge(5)
		k.Charge(6)
		g.Configure(under(2.5, dynamicconfig.ModeOldShadowNew))
		k.Allow() // so that Redis hears of the burst
		g.Configure(under(5, dynamicconfig.ModeNewShadowOld))
		if got, there := k.Tokens(), r.bucket("k").tokens; got != -6 || there != -6 {
			t.Errorf("%v tokens, and %v in Redis: one bucket has -6", got, there)
		}
	})
}

// Charges make no deeper debt than the rule's, and hosts charge a bucket that takes over with no more than that.
func TestABucketThatTakesOverIsChargedWithWhatItMayOwe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := dynamicconfig.Rule{Key: "k", Limit: 1, Burst: 10, Algorithm: limiter.Even}
		r := &remoteRef{buckets: make(map[string]*remoteBucket)}
		g := limiter.NewGroup(snapshotUnder(t, rule), 1, driver.WithSeed(1), limiter.WithRemote("redis", r), driver.WithBackground(r.background))
		for range 4 {
			g.For("k").ReserveN(time.Now(), 10)
		}
		rule.Algorithm = "redis"
		g.Configure(snapshotUnder(t, rule))
		g.For("k").Allow()
		if net := r.bucket("k").net; net != rule.Burst+rule.MostDebt() {
			t.Errorf("the bucket is charged with %v, and may owe %v", net, rule.Burst+rule.MostDebt())
		}
	})
}
