// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
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
