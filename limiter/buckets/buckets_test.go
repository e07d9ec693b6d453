// SPDX-License-Identifier: Apache-2.0

package buckets

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

func of(t *testing.T, text string) Buckets {
	t.Helper()
	s, err := dynamicconfig.Parse("limits.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return Of(limiter.NewGroup(s, 1), func() *dynamicconfig.Snapshot { return s })
}

// known is the policy of a rule.
func known(limit, burst float64) edge.Policy {
	return edge.Policy{Known: true, Limit: limit, Burst: burst}
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
			{"a", math.MinInt64, 0, edge.Decision{Reason: edge.InvalidCost, Policy: known(10, 20), Limit: 10, Burst: 20, Left: -5}},
			{"a2", 1, 0, edge.Decision{Reason: edge.TooManyKeys}},
			{"nobody", 1, 0, edge.Decision{Reason: edge.Unmatched}},
			{"", 1, 0, edge.Decision{Reason: edge.InvalidKey}},
			{"slots", 1, 0, edge.Decision{Reason: edge.InFlight, Policy: known(3, 3), Limit: 3, Burst: 3, Left: 3}},
			{"soft", 1, 0, edge.Decision{OK: true, Policy: known(1, 1), Limit: 1, Burst: 1}},
			{"soft", 1, 0, edge.Decision{OK: true, Reason: edge.Soft, Policy: known(1, 1), Limit: 1, Burst: 1}},
			{"free", 1e6, 0, edge.Decision{OK: true, Policy: known(1, 1), Limit: math.Inf(1), Burst: math.Inf(1), Left: math.Inf(1)}},
		} {
			if got := b.Decide(t.Context(), tc.key, tc.n, tc.longest); got != tc.want {
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
		for key, want := range map[string]time.Duration{"unsaid": time.Second, "wait": 3 * time.Second, "none": 0, "debt": 2 * time.Second, "unmatched": time.Second} {
			if got := b.MaxWait(key); got != want {
				t.Errorf("%s: %v, want %v", key, got, want)
			}
			if key == "unmatched" {
				continue
			}
			last := time.Duration(0)
			for range 100 {
				if d := b.Decide(t.Context(), key, 1, edge.AsLongAsTheRule); d.OK {
					last = d.Wait
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
	for _, ask := range []func(b Buckets) edge.Decision{
		func(b Buckets) edge.Decision { return b.Decide(t.Context(), "large", cost, 0) },
		func(b Buckets) edge.Decision { d, _ := b.Hold(t.Context(), "large", cost, 0); return d },
		func(b Buckets) edge.Decision {
			d, settle := b.Reserve(t.Context(), "large", cost, 0)
			settle(cost)
			return d
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := of(t, "limits: [{key: large, limit: 1000/s, burst: 10000000000, algorithm: even}]")
			want := edge.Decision{OK: true, Policy: known(1000, burst), Limit: 1000, Burst: burst, Left: burst - cost}
			if math.MaxInt == math.MaxInt32 {
				want = edge.Decision{Reason: edge.TooCostly, Policy: known(1000, burst), Limit: 1000, Burst: burst, Left: burst}
			}
			if got := ask(b); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if level := b.Decide(t.Context(), "large", 0, 0); level.Left != want.Left {
				t.Errorf("%v left, want %v", level.Left, want.Left)
			}
		})
	}
}

// Each of the limiter's reasons has its name here too.
func TestReasonsKeepTheirNames(t *testing.T) {
	for r := limiter.Granted; int(r) < edge.Reasons; r++ {
		if got := reason(r).String(); got != r.String() {
			t.Errorf("%v became %v", r, got)
		}
	}
	if beyond := limiter.Reason(stage.Reasons); beyond.String() != "reason(11)" {
		t.Errorf("%v is not known here", beyond)
	}
	if reason(200) != edge.Failed {
		t.Error("what is unknown is no failure")
	}
}

func TestWhatIsHeldCanBeGivenBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := of(t, rules)
		left := func() float64 { d := b.Decide(t.Context(), "a", 0, 0); return d.Left }
		for range 3 {
			d, cancel := b.Hold(context.Background(), "a", 15, 0)
			if want := (edge.Decision{OK: true, Policy: known(10, 20), Limit: 10, Burst: 20, Left: 5}); d != want || left() != 5 {
				t.Fatalf("got %+v", d)
			}
			refused, nothing := b.Hold(context.Background(), "a", 6, 0)
			if want := (edge.Decision{Reason: edge.Limited, RetryAfter: 100 * time.Millisecond, Policy: known(10, 20), Limit: 10, Burst: 20, Left: 5}); refused != want {
				t.Fatalf("got %+v", refused)
			}
			nothing()
			cancel()
			cancel()
			if left() != 20 {
				t.Fatalf("%v are left", left())
			}
		}
		if st, _ := b.group.Inspect("a"); st.Shares[0].Allowed != 0 {
			t.Errorf("%d count as used", st.Shares[0].Allowed)
		}
		d, cancel := b.Hold(context.Background(), "a", 20, 0)
		if !d.OK {
			t.Fatal(d)
		}
		if d, cancel := b.Hold(context.Background(), "a", 10, edge.AsLongAsTheRule); !d.OK || d.Wait != time.Second || d.Left != -10 {
			t.Errorf("got %+v", d)
		} else {
			cancel()
		}
		cancel()
		if left() != 20 {
			t.Errorf("%v are left", left())
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
		b.Decide(t.Context(), "a", 5, 0)
		look("a", edge.Bucket{Rule: "a*", Algorithm: "even", Policy: known(10, 20), Limit: 10, Burst: 20, Left: 15, Live: true})
		b.Decide(t.Context(), "s:1", 5, 0)
		shared := edge.Bucket{Rule: "s:*", Algorithm: "even", Policy: known(10, 20), Limit: 10, Burst: 20, Left: 15, Live: true}
		look("s:1", shared)
		look("s:2", shared)
		look("slots", edge.Bucket{Rule: "slots", Algorithm: "even", Policy: known(3, 3), Limit: 3, Burst: 3, Left: 3})
		look("moved", edge.Bucket{Rule: "moved", Algorithm: "even", Policy: known(1, 1), Limit: 1, Burst: 1, Left: 1})
		b.Decide(t.Context(), "moved", 1, 0)
		look("moved", edge.Bucket{Rule: "moved", Algorithm: "even", Policy: known(1, 1), Limit: 1, Burst: 1, Left: 0, Live: true})
		b.Decide(t.Context(), "nobody", 1, 0)
		look("nobody", edge.Bucket{})
		look("", edge.Bucket{})
	})
}

func TestCostsThatAreKnownAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := of(t, rules)
		left := func() float64 { d := b.Decide(t.Context(), "a", 0, 0); return d.Left }
		d, settle := b.Reserve(t.Context(), "a", 15, 0)
		if want := (edge.Decision{OK: true, Policy: known(10, 20), Limit: 10, Burst: 20, Left: 5}); d != want {
			t.Errorf("got %+v", d)
		}
		settle(2)
		settle(0) // which is too late
		if left() != 18 {
			t.Errorf("%v are left", left())
		}
		if d, want := b.Charge("a", 20), (edge.Decision{OK: true, Policy: known(10, 20), Limit: 10, Burst: 20, Left: -2}); d != want {
			t.Errorf("got %+v", d)
		}
		for key, want := range map[string]edge.Reason{"": edge.InvalidKey, "nobody": edge.Unmatched, "slots": edge.InFlight} {
			if d := b.Charge(key, 1); d.OK || d.Reason != want {
				t.Errorf("%q: %+v", key, d)
			}
		}
		if d := b.Charge("a", 0); d.OK || d.Reason != edge.InvalidCost {
			t.Errorf("nothing: %+v", d)
		}
	})
}
