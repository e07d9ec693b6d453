// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/edge"
)

const rules = `
limits:
  - {key: "a*", limit: 10/s, burst: 20, algorithm: even, max_wait: 1s, max_cost: 20, max_keys: 1}
  - {key: "s:*", limit: 10/s, burst: 20, algorithm: even, shared: true}
  - {key: slots, limit: 3 in-flight, algorithm: even}
  - {key: soft, limit: 1/s, algorithm: even, enforce: 0%}
  - {key: moved, limit: 1/s, migrate: {from: elastic, to: even, mode: new-shadow-old}}
  - {key: free, limit: 1/s, fallback: open}
unmatched: deny
`

func of(t *testing.T, text string) *Engine {
	t.Helper()
	s, err := dynamicconfig.Parse("limits.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return New(limiter.NewGroup(s, 1), func() *dynamicconfig.Snapshot { return s })
}

// known is the policy of a rule.
func known(limit, burst float64) edge.Policy {
	return edge.Policy{Known: true, Limit: limit, Burst: burst, MaxWait: time.Second}
}

func TestDecisionsAreTheLimiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := of(t, rules)
		for _, tc := range []struct {
			key     string
			n       int64
			longest time.Duration
			want    edge.Decision
		}{
			{"a", 15, 0, edge.Decision{OK: true, Policy: known(10, 20), Limit: 10, Burst: 20, Left: 5}},
			{"a", 10, 0, edge.Decision{Reason: edge.Limited, RetryAfter: 500 * time.Millisecond, Policy: known(10, 20), Limit: 10, Burst: 20, Left: 5}},
			{"a", 10, -time.Hour, edge.Decision{Reason: edge.Limited, RetryAfter: 500 * time.Millisecond, Policy: known(10, 20), Limit: 10, Burst: 20, Left: 5}},
			{"a", 10, edge.AsLongAsTheRule, edge.Decision{OK: true, Wait: 500 * time.Millisecond, Policy: known(10, 20), Limit: 10, Burst: 20, Left: -5}},
			{"a", 10, edge.AsLongAsTheRule, edge.Decision{Reason: edge.Limited, RetryAfter: 500 * time.Millisecond, Policy: known(10, 20), Limit: 10, Burst: 20, Left: -5}},
			{"a", 21, 0, edge.Decision{Reason: edge.TooCostly, Policy: known(10, 20), Limit: 10, Burst: 20, Left: -5}},
			{"a", math.MaxInt64, 0, edge.Decision{Reason: edge.TooCostly, Policy: known(10, 20), Limit: 10, Burst: 20, Left: -5}},
			{"a", math.MinInt64, 0, edge.Decision{Reason: edge.InvalidCost}},
			{"a2", 1, 0, edge.Decision{Reason: edge.TooManyKeys}},
			{"nobody", 1, 0, edge.Decision{Reason: edge.Unmatched}},
			{"", 1, 0, edge.Decision{Reason: edge.InvalidKey}},
			{"slots", 1, 0, edge.Decision{Reason: edge.InFlight, Policy: known(3, 3), Limit: 3, Burst: 3, Left: 3}},
			{"soft", 1, 0, edge.Decision{OK: true, Policy: known(1, 1), Limit: 1, Burst: 1}},
			{"soft", 1, 0, edge.Decision{OK: true, Reason: edge.Soft, Policy: known(1, 1), Limit: 1, Burst: 1}},
			{"free", 1e6, 0, edge.Decision{OK: true, Policy: known(1, 1), Limit: math.Inf(1), Burst: math.Inf(1), Left: math.Inf(1)}},
		} {
			got := b.Decide(t.Context(), edge.Ask{Key: tc.key, Cost: tc.n, Longest: tc.longest})
			if held := got.Held != nil; held != (got.Wait > 0) {
				t.Errorf("%d of %q: held: %v, to wait for %v", tc.n, tc.key, held, got.Wait)
			}
			if got.Held = nil; got != tc.want {
				t.Errorf("%d of %q within %v: got %+v, want %+v", tc.n, tc.key, tc.longest, got, tc.want)
			}
		}
	})
}

// A caller that would wait for ever waits as long as the rule says, and for a second
// if the rule does not say.
func TestWaitsOfOtherProgramsAreFinite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := of(t, `
defaults: {algorithm: even}
limits:
  - {key: unsaid, limit: 10/s, burst: 1}
  - {key: wait, limit: 10/s, burst: 1, max_wait: 3s}
  - {key: none, limit: 10/s, burst: 1, max_wait: 0s}
  - {key: debt, limit: 10/s, burst: 1, max_debt: 2s}
`)
		for key, want := range map[string]time.Duration{"unsaid": time.Second, "wait": 3 * time.Second, "none": 0, "debt": 2 * time.Second} {
			last := time.Duration(0)
			for longest := range 100 { // in hours
				ask := edge.Ask{Key: key, Cost: 1, Longest: time.Duration(longest) * time.Hour}
				if longest == 50 {
					ask.Longest = edge.AsLongAsTheRule
				}
				d := b.Decide(t.Context(), ask)
				if d.OK {
					last = d.Wait
				}
				if d.Policy.MaxWait != want {
					t.Errorf("%s: %v, want %v", key, d.Policy.MaxWait, want)
				}
			}
			if last > want || last < want-200*time.Millisecond {
				t.Errorf("%s: the last waits for %v, want %v", key, last, want)
			}
		}
	})
}

// A cost above the largest int32 is taken whole, or not at all where an int has
// 32 bits.
func TestLargeCostsAreNotCutShort(t *testing.T) {
	const cost, burst = math.MaxInt32 + 1, 1e10
	for _, kind := range []edge.Kind{edge.Take, edge.Hold} {
		synctest.Test(t, func(t *testing.T) {
			b := of(t, "limits: [{key: large, limit: 1000/s, burst: 10000000000, algorithm: even}]")
			want := edge.Decision{OK: true, Policy: known(1000, burst), Limit: 1000, Burst: burst, Left: burst - cost}
			if math.MaxInt == math.MaxInt32 {
				want = edge.Decision{Reason: edge.TooCostly, Policy: known(1000, burst), Limit: 1000, Burst: burst, Left: burst}
			}
			got := b.Decide(t.Context(), edge.Ask{Kind: kind, Key: "large", Cost: cost})
			b.Decide(t.Context(), edge.Ask{Kind: edge.Settle, Held: got.Held, Cost: cost})
			if got.Held = nil; got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if level := b.Decide(t.Context(), edge.Ask{Key: "large"}); level.Left != want.Left {
				t.Errorf("%v left, want %v", level.Left, want.Left)
			}
		})
	}
}

// Each of the limiter's reasons has its name here too.
func TestReasonsKeepTheirNames(t *testing.T) {
	for r := range limiter.Canceled {
		if got := reason(r).String(); got != r.String() {
			t.Errorf("%v became %v", r, got)
		}
	}
	if beyond := limiter.Reason(stage.Reasons); beyond.String() != "reason(13)" {
		t.Errorf("%v is not known here", beyond)
	}
	if reason(200) != edge.Failed {
		t.Error("what is unknown is no failure")
	}
}

func TestWhatIsHeldCanBeGivenBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := of(t, rules)
		left := func() float64 { return b.Decide(t.Context(), edge.Ask{Key: "a"}).Left }
		hold := func(n int64, longest time.Duration) edge.Decision {
			return b.Decide(t.Context(), edge.Ask{Kind: edge.Hold, Key: "a", Cost: n, Longest: longest})
		}
		release := func(d edge.Decision) bool {
			return b.Decide(t.Context(), edge.Ask{Kind: edge.Release, Held: d.Held}).OK
		}
		for range 3 {
			d := hold(15, 0)
			if want := (edge.Decision{OK: true, Policy: known(10, 20), Limit: 10, Burst: 20, Left: 5, Held: d.Held}); d != want || d.Held == nil || left() != 5 {
				t.Fatalf("got %+v", d)
			}
			refused := hold(6, 0)
			if want := (edge.Decision{Reason: edge.Limited, RetryAfter: 100 * time.Millisecond, Policy: known(10, 20), Limit: 10, Burst: 20, Left: 5}); refused != want {
				t.Fatalf("got %+v", refused)
			}
			if release(refused) || !release(d) || !release(d) || left() != 20 {
				t.Fatalf("%v are left", left())
			}
		}
		if st, _ := b.group.Inspect("a"); st.Shares[0].Allowed != 0 {
			t.Errorf("%d count as used", st.Shares[0].Allowed)
		}
		first, second := hold(20, 0), hold(10, edge.AsLongAsTheRule)
		if !first.OK || !second.OK || second.Wait != time.Second || second.Left != -10 {
			t.Errorf("got %+v and %+v", first, second)
		}
		release(second)
		release(first)
		if left() != 20 {
			t.Errorf("%v are left", left())
		}
	})
}

// A caller that has gone takes nothing, and one that goes while it waits gives back what
// it took.
func TestACallerThatHasGoneKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := of(t, rules)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for _, kind := range []edge.Kind{edge.Take, edge.Hold} {
			if d := b.Decide(gone, edge.Ask{Kind: kind, Key: "a", Cost: 5}); d.OK || d.Reason != edge.Limited {
				t.Errorf("%v: %+v", kind, d)
			}
		}
		d := b.Decide(t.Context(), edge.Ask{Key: "a", Cost: 20})
		waits := b.Decide(t.Context(), edge.Ask{Key: "a", Cost: 5, Longest: time.Second})
		for range 2 {
			b.Decide(gone, edge.Ask{Kind: edge.Release, Held: waits.Held})
		}
		if left := b.Decide(t.Context(), edge.Ask{Key: "a"}).Left; !d.OK || !waits.OK || left != 0 {
			t.Errorf("%+v, %+v, %v are left", d, waits, left)
		}
		if d := b.Decide(gone, edge.Ask{Kind: edge.Charge, Key: "a", Cost: 5}); !d.OK || d.Left != -5 {
			t.Errorf("what is used already: %+v", d)
		}
	})
}

func TestLookingChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := of(t, rules)
		look := func(key string, want edge.Bucket) {
			t.Helper()
			if got, ok := b.Look(key); got != want || ok != (want != edge.Bucket{}) {
				t.Errorf("%s: %+v, %v, want %+v", key, got, ok, want)
			}
		}
		full := edge.Bucket{Rule: "a*", Algorithm: "even", Policy: known(10, 20), Limit: 10, Burst: 20, Left: 20}
		look("a", full)
		look("a2", full) // and so a is not one too many
		b.Decide(t.Context(), edge.Ask{Key: "a", Cost: 5})
		look("a", edge.Bucket{Rule: "a*", Algorithm: "even", Policy: known(10, 20), Limit: 10, Burst: 20, Left: 15, Live: true})
		b.Decide(t.Context(), edge.Ask{Key: "s:1", Cost: 5})
		shared := edge.Bucket{Rule: "s:*", Algorithm: "even", Policy: known(10, 20), Limit: 10, Burst: 20, Left: 15, Live: true}
		look("s:1", shared)
		look("s:2", shared)
		look("slots", edge.Bucket{Rule: "slots", Algorithm: "even", Policy: known(3, 3), Limit: 3, Burst: 3, Left: 3})
		look("moved", edge.Bucket{Rule: "moved", Algorithm: "even", Policy: known(1, 1), Limit: 1, Burst: 1, Left: 1})
		b.Decide(t.Context(), edge.Ask{Key: "moved", Cost: 1})
		look("moved", edge.Bucket{Rule: "moved", Algorithm: "even", Policy: known(1, 1), Limit: 1, Burst: 1, Left: 0, Live: true})
		b.Decide(t.Context(), edge.Ask{Key: "nobody", Cost: 1})
		look("nobody", edge.Bucket{})
		look("", edge.Bucket{})
	})
}

// While everything is let through, Look shows the same figures of a key as a Decision about it does.
func TestABucketIsInfiniteWhileAllIsLetThrough(t *testing.T) {
	config := &dynamicconfig.Config{Rules: []dynamicconfig.Rule{
		{Key: "k", Limit: 1, Algorithm: "even"},
		{Key: "off", Limit: 1, Migration: &dynamicconfig.Migration{From: "even", To: "elastic"}},
	}}
	limits, err := config.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	group := limiter.NewGroup(limits, 1)
	b := New(group, func() *dynamicconfig.Snapshot { return limits })
	b.Decide(t.Context(), edge.Ask{Key: "k", Cost: 1})
	config.Overrides = []dynamicconfig.Override{{Key: "k", Bypass: true, Until: time.Now().Add(time.Hour), Author: "ada", Reason: "a test"}}
	if limits, err = config.Snapshot(); err != nil {
		t.Fatal(err)
	}
	limits = limits.At(time.Now())
	group.Configure(limits)
	for _, key := range []string{"k", "off"} {
		d := b.Decide(t.Context(), edge.Ask{Key: key, Cost: 1})
		if got, ok := b.Look(key); !ok || got.Limit != d.Limit || got.Burst != d.Burst || got.Left != d.Left || got.Policy != d.Policy {
			t.Errorf("%s: %+v, %v; decided %+v", key, got, ok, d)
		}
	}
}

func TestCostsThatAreKnownAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := of(t, rules)
		left := func() float64 { d := b.Decide(t.Context(), edge.Ask{Key: "a"}); return d.Left }
		d := b.Decide(t.Context(), edge.Ask{Kind: edge.Hold, Key: "a", Cost: 15})
		for _, cost := range []int64{-1, 2, 0} { // an invalid one does nothing, and the last is too late
			if got := b.Decide(t.Context(), edge.Ask{Kind: edge.Settle, Held: d.Held, Cost: cost}); got.OK != (cost >= 0) {
				t.Errorf("settled at %d: %+v", cost, got)
			}
		}
		if left() != 18 {
			t.Errorf("%v are left", left())
		}
		if d, want := b.Decide(t.Context(), edge.Ask{Kind: edge.Charge, Key: "a", Cost: 20}), (edge.Decision{OK: true, Policy: known(10, 20), Limit: 10, Burst: 20, Left: -2}); d != want {
			t.Errorf("got %+v", d)
		}
		for key, want := range map[string]edge.Reason{"": edge.InvalidKey, "nobody": edge.Unmatched, "slots": edge.InFlight} {
			if d := b.Decide(t.Context(), edge.Ask{Kind: edge.Charge, Key: key, Cost: 1}); d.OK || d.Reason != want {
				t.Errorf("%q: %+v", key, d)
			}
		}
		if d := b.Decide(t.Context(), edge.Ask{Kind: edge.Charge, Key: "a", Cost: 0}); d.OK || d.Reason != edge.InvalidCost {
			t.Errorf("nothing: %+v", d)
		}
	})
}
