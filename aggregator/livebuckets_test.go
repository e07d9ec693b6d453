// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// configured puts rules in force from now on.
func configured(t *testing.T, a *Aggregator, now time.Duration, rules ...dynamicconfig.Rule) {
	t.Helper()
	a.Core.Configure(now, snapshot(t, cadence, rules...))
}

// A debt from under a large limit does not close a key for months when the
// limit becomes smaller.
func TestADebtIsNoLongerThanBeforeUnderASmallerLimit(t *testing.T) {
	for _, large := range []dynamicconfig.Rule{exactRule(1e9, 1e9), autoRule(1e9, 1e9)} {
		for _, splits := range []bool{false, true} {
			small, auto := large, large.Algorithm == algorithm.NameAuto
			small.Limit, small.Burst = 1000, 1000
			a := New(algorithm.Builtin(), snapshot(t, cadence, large))
			if splits && auto {
				for i := range 20 {
					step(t, a, time.Duration(i)*s, "h", reportOf(large.Algorithm, 100, 0, s, "k"))
				}
			}
			now := 20 * s
			took(t, a, now, usage.Take{Auto: auto, Tokens: rpc.MaxTokens, Spent: usage.SpentBeyond})
			configured(t, a, now, small)
			took(t, a, now, usage.Take{Auto: auto}) // it hears of the rule
			now += 10 * s
			if got := took(t, a, now, usage.Take{Auto: auto, Tokens: 1}); !got.OK {
				t.Errorf("%s, split %v: the key is closed for %v, with %v tokens", large.Algorithm, splits, got.Retry, got.Left)
			}
		}
	}
}

// Nor does what was spent under a large burst.
func TestADebtIsNoDeeperThanASmallerBurstAllows(t *testing.T) {
	for _, large := range []dynamicconfig.Rule{exactRule(1000, 1e6), autoRule(1000, 1e6)} {
		small, auto := large, large.Algorithm == algorithm.NameAuto
		small.Burst = 100
		for _, splits := range []bool{false, true} {
			a := New(algorithm.Builtin(), snapshot(t, cadence, large))
			if splits && auto {
				for i := range 20 {
					step(t, a, time.Duration(i)*s, "h", reportOf(large.Algorithm, 100, 0, s, "k"))
				}
			}
			took(t, a, 20*s, usage.Take{Auto: auto, Tokens: rpc.MaxTokens, Spent: usage.SpentBeyond})
			configured(t, a, 20*s, small)
			took(t, a, 20*s, usage.Take{Auto: auto})
			if got := took(t, a, 23*s, usage.Take{Auto: auto, Tokens: 1}); !got.OK {
				t.Errorf("%s, split %v: the key is closed for %v, with %v tokens", large.Algorithm, splits, got.Retry, got.Left)
			}
		}
	}
}

// A bucket that nobody takes from fills as the rule in force says, and goes when
// it is full.
func TestABucketFollowsItsRuleWithoutATake(t *testing.T) {
	a := bucketed(t, 1e-6, 10)
	took(t, a, 0, usage.Take{Tokens: 10})
	configured(t, a, s, exactRule(1, 10))
	a.GC(s)
	if rows := a.Buckets(6*s, func(string) bool { return true }); len(rows) != 1 || rows[0].Told < 4.9 || rows[0].Told > 5.1 {
		t.Errorf("handed over: %+v, want 5 tokens", rows)
	}
	if a.GC(12 * s); a.keys.Len() != 0 {
		t.Errorf("a full bucket is kept: %d keys", a.keys.Len())
	}
}

// A bucket whose rule is gone outlives it for an hour, so that a rule which comes
// back gives no second burst, and not for the weeks in which it fills.
func TestABucketWithoutARuleIsForgotten(t *testing.T) {
	a := bucketed(t, 1e-6, 10)
	took(t, a, 0, usage.Take{Tokens: 10})
	other := exactRule(1, 1)
	other.Key = "other"
	configured(t, a, s, other)
	a.GC(s)
	configured(t, a, s, exactRule(1e-6, 10))
	if got := left(t, a, 2*s); got > 0.1 {
		t.Errorf("%v tokens after the rule has come back", got)
	}
	configured(t, a, 2*s, other)
	if a.GC(59 * time.Minute); a.keys.Len() != 1 {
		t.Error("forgotten after 59 minutes")
	}
	a.GC(time.Hour + cadence.GCAfter + 2*s)
	if n := a.keys.Len(); n != 0 {
		t.Errorf("%d keys without a rule", n)
	}
}

// Callers in the same process are not promised tokens later than those of another
// host.
func TestNobodyWaitsForLongerThanTheContractSays(t *testing.T) {
	a := bucketed(t, 1./3600, 10)
	for range 5 {
		if got, _ := a.TakeHere("h", usage.Take{Key: "k", Tokens: 10, Longest: -1}); got.Wait > rpc.MaxWait || got.Retry > rpc.MaxWait {
			t.Errorf("waits for %v, or asks again after %v; at most %v", got.Wait, got.Retry, rpc.MaxWait)
		}
	}
}
