// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/uber-go/tally/v4"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

// The rules may change in any way: the metrics count each event once, as its caller was answered.
func TestMetricsHaveEachEventOnce(t *testing.T) {
	algorithms := []string{"even", "request-weighted", "elastic", "exact", Auto}
	rapid.Check(t, func(rt *rapid.T) {
		draw := func() *dynamicconfig.Snapshot {
			r := dynamicconfig.Rule{
				Key: "k*", Limit: 10, Burst: 10, IdleAfter: 3 * time.Second, Shared: rapid.Bool().Draw(rt, "shared"),
				Algorithm: rapid.SampledFrom(algorithms).Draw(rt, "algorithm"), MaxKeys: rapid.IntRange(1, 3).Draw(rt, "max_keys"),
				Enforce: rapid.SampledFrom([]float64{0, dynamicconfig.Soft, 0.5}).Draw(rt, "enforce"),
				MaxCost: rapid.SampledFrom([]float64{0, 5}).Draw(rt, "max_cost"),
			}
			if rapid.IntRange(0, 4).Draw(rt, "another") == 0 {
				r.Key = "j*"
			}
			s, err := dynamicconfig.Config{
				Properties: dynamicconfig.Properties{UpdateInterval: time.Second}, Rules: []dynamicconfig.Rule{r}, Unmatched: dynamicconfig.UnmatchedDeny,
			}.Snapshot()
			if err != nil {
				rt.Fatal(err)
			}
			return s
		}
		now := second
		scope, e := tally.NewTestScope("", nil), newElsewhere(func() stage.Instant { return now })
		g := NewGroup(draw(), 1, WithRemote("exact", e), WithRemote(Auto, e), WithScope(scope), WithSeed(1), WithBackground(func(f func()) { f() }))
		var want [stage.Reasons]int64
		var batches []*batch
		type open struct {
			n int64
			t taken
		}
		var opened []open
		back := int64(0)
		rt.Repeat(map[string]func(*rapid.T){
			"take": func(rt *rapid.T) {
				k := keyOf(g.For(rapid.SampledFrom([]string{"k1", "k2", "k3"}).Draw(rt, "key")))
				n := rapid.Int64Range(1, 12).Draw(rt, "n")
				longest := rapid.SampledFrom([]time.Duration{0, 0, time.Second}).Draw(rt, "longest")
				for range rapid.SampledFrom([]int{1, 5}).Draw(rt, "times") {
					d := reserve(context.Background(), k, now, n, longest)
					want[d.Reason] += n
					if d.Reason == Granted {
						opened = append(opened, open{n, d})
					}
				}
			},
			"settle": func(rt *rapid.T) {
				if len(opened) > 0 {
					i := rapid.IntRange(0, len(opened)-1).Draw(rt, "which")
					o := opened[i]
					opened = append(opened[:i:i], opened[i+1:]...)
					actual := rapid.Int64Range(0, o.n).Draw(rt, "actual")
					o.t.settle(now, actual)
					back += o.n - actual
				}
			},
			"configure": func(*rapid.T) { g.Manual().Configure(now, draw()) },
			"remote": func(rt *rapid.T) {
				if e.err = nil; rapid.Bool().Draw(rt, "fails") {
					e.err = errors.New("no answer")
				}
			},
			"report": func(rt *rapid.T) {
				now += second
				batches = append(batches, g.Manual().Report(now)...)
			},
			"answer": func(rt *rapid.T) {
				for _, b := range batches {
					grants := grantOf(0.5, 5, 2*time.Second)
					for range b.Usage.Len() - 1 {
						grants.Weight, grants.Burst = append(grants.Weight, 0.5), append(grants.Burst, 5)
						grants.Used, grants.Lease = append(grants.Used, 0), append(grants.Lease, 2*time.Second)
					}
					if b.Usage.Len() > 0 {
						_ = g.Manual().Apply(now, b, nil, grants)
					}
				}
				batches = nil
			},
		})
		for range 5 {
			now += second
			g.Manual().Report(now)
		}
		var got [stage.Reasons]int64
		for name, n := range counted(scope) {
			for _, rule := range []string{"k*", "j*", "(none)"} {
				switch name {
				case "limiter.allowed/" + rule + "/":
					got[Granted] += n
				case "limiter.soft/" + rule + "/":
					got[Soft] += n
				}
				for r := Limited; int(r) < stage.Reasons; r++ {
					if name == "limiter.rejected/"+rule+"/"+r.String() {
						got[r] += n
					}
				}
			}
		}
		if n := got[Granted]; n < want[Granted] && n >= want[Granted]-back { // a counter does not decrease
			want[Granted] = n
		}
		if got != want {
			rt.Fatalf("counted %v, want %v", got, want)
		}
	})
}

// A bucket owes at most a burst and its deepest debt. It forgives the rest of a charge, and
// no metric counts that.
func TestMetricsCountAChargeAsFarAsItIsTaken(t *testing.T) {
	for _, algorithm := range []string{"even", "elastic", "exact", Auto} {
		now := second
		scope, e := tally.NewTestScope("", nil), newElsewhere(func() stage.Instant { return now })
		rule := dynamicconfig.Rule{Key: "k", Limit: 10, Burst: 10, Algorithm: algorithm}
		g := NewGroup(snapshot(t, rule), 1, WithRemote("exact", e), WithRemote(Auto, e), WithScope(scope), WithBackground(func(f func()) { f() }))
		charge(keyOf(g.For("k")), now, 1_000_000)
		now += second
		g.Manual().Report(now)
		all := counted(scope)
		if charged, allowed := all["limiter.charged/k/"], all["limiter.allowed/k/"]; charged != allowed || charged != 30 { // a burst, and the deepest debt
			t.Errorf("%s: %d tokens are charged and %d allowed, want 30", algorithm, charged, allowed)
		}
	}
}

// An event that is taken back, as by a second limit that refuses it, takes nothing from what the metrics
// count of other keys of its rule, also while its own key is used for nothing else.
func TestMetricsCountOtherKeysWhileOneGivesBack(t *testing.T) {
	for _, algorithm := range []string{"even", "request-weighted", "elastic", "exact", Auto} {
		now := second
		scope, e := tally.NewTestScope("", nil), newElsewhere(func() stage.Instant { return now })
		rule := dynamicconfig.Rule{Key: "k*", Limit: 0.001, Burst: 10, Algorithm: algorithm}
		g := NewGroup(snapshot(t, rule), 1, WithRemote("exact", e), WithRemote(Auto, e), WithScope(scope), WithBackground(func(f func()) { f() }))
		for _, key := range []string{"k1", "k2"} {
			takeAt(g.For(key), now, 1, 0) // so that neither is full, which would end with it
		}
		for i := range int64(4) {
			if i > 0 {
				takeAt(g.For("k1"), now, 1, 0)
				takeAt(g.For("k2"), now, 2, 0).settle(now, 0)
			}
			now += second
			g.Manual().Report(now)
			if got := counted(scope)["limiter.allowed/k*/"]; got != 2+i {
				t.Errorf("%s: %d tokens are counted as allowed, want %d", algorithm, got, 2+i)
			}
		}
	}
}
