// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"math"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/usage"
)

// bucketed is an Aggregator with one exact rule for all keys.
func bucketed(t testing.TB, limit rate.Limit, burst float64) *Aggregator {
	t.Helper()
	return New(algorithm.Builtin(), snapshot(t, cadence, exactRule(limit, burst)))
}

func exactRule(limit rate.Limit, burst float64) dynamicconfig.Rule {
	return dynamicconfig.Rule{Key: "*", Limit: limit, Burst: burst, Algorithm: algorithm.NameExact, Lease: time.Minute}
}

// took is what one take of key k gets.
func took(t testing.TB, a *Aggregator, now time.Duration, take usage.Take) usage.Took {
	t.Helper()
	if take.Key == "" {
		take.Key = "k"
	}
	takes, taken := &usage.Takes{Rows: []usage.Take{take}}, new(usage.Taken)
	if err := takes.Check(); err != nil {
		t.Fatal(err)
	}
	a.Take(now, "h", takes, taken)
	if err := taken.Check(1); err != nil {
		t.Fatalf("the answer to %+v: %v", take, err)
	}
	return taken.Rows[0]
}

func left(t testing.TB, a *Aggregator, now time.Duration) float64 {
	t.Helper()
	return took(t, a, now, usage.Take{}).Left
}

func TestABucketAtTheOwner(t *testing.T) {
	a := bucketed(t, 10, 5)
	for i, step := range []struct {
		at   time.Duration
		take usage.Take
		want usage.Took
	}{
		{0, usage.Take{Tokens: 4}, usage.Took{Decided: true, OK: true, Left: 1}},
		{0, usage.Take{Tokens: 2}, usage.Took{Decided: true, Retry: 100 * time.Millisecond, Left: 1}},
		{0, usage.Take{Tokens: 2, Longest: -1}, usage.Took{Decided: true, OK: true, Wait: 100 * time.Millisecond, Left: -1}},
		{0, usage.Take{Tokens: 6, Longest: -1}, usage.Took{Decided: true, Retry: rpc.MaxWait, Left: -1}},
		{0, usage.Take{Tokens: -2}, usage.Took{Decided: true, OK: true, Left: 1}},
		{0, usage.Take{Tokens: 30, Spent: usage.SpentApart}, usage.Took{Decided: true, OK: true, Left: -5, Short: 24}},
		{0, usage.Take{Tokens: 30, Spent: usage.SpentBeyond}, usage.Took{Decided: true, OK: true, Left: -10, Short: 25}},
		{4 * time.Second, usage.Take{Tokens: 1}, usage.Took{Decided: true, OK: true, Left: 4}},
	} {
		if got := took(t, a, step.at, step.take); got != step.want {
			t.Errorf("step %d, %+v: got %+v, want %+v", i, step.take, got, step.want)
		}
	}
}

func TestKeysThatAreNotForABucketAreNotDecided(t *testing.T) {
	p := cadence
	p.MaxKeys = 2
	shared, migrates := exactRule(1, 1), exactRule(1, 1)
	shared.Key, shared.Algorithm = "shared", algorithm.NameRequestWeighted
	migrates.Key, migrates.Migration = "migrates", &dynamicconfig.Migration{From: algorithm.NameElastic, To: algorithm.NameExact, Mode: dynamicconfig.ModeOldShadowNew}
	exact := exactRule(1, 1)
	exact.Key = "e*"
	a := New(algorithm.Builtin(), snapshot(t, p, shared, migrates, exact))
	for _, row := range []struct {
		key  string
		want bool
	}{{"shared", false}, {"nobody's", false}, {"migrates", true}, {"e1", true}, {"e2", false}} {
		if got := took(t, a, 0, usage.Take{Key: row.key, Measured: row.key == "migrates", Tokens: 1}); got.Decided != row.want {
			t.Errorf("%s: %+v", row.key, got)
		}
	}
	a.GC(2 * time.Second) // both are full again
	if got := took(t, a, 2*time.Second, usage.Take{Key: "e2", Tokens: 1}); !got.OK {
		t.Errorf("no room although all buckets are full: %+v", got)
	}
	a.GC(2 * time.Second)
	if a.keys.Len() != 1 {
		t.Errorf("%d keys after one was used", a.keys.Len())
	}
}

func TestAChangeOfLimitKeepsTheTokensOfABucket(t *testing.T) {
	a := bucketed(t, 10, 100)
	took(t, a, 0, usage.Take{Tokens: 70})
	a.Core.Configure(0, snapshot(t, cadence, exactRule(1000, 1000)))
	if got := left(t, a, 0); got != 30 {
		t.Errorf("%v left", got)
	}
	a.Core.Configure(0, snapshot(t, cadence, exactRule(1, 10)))
	if got := left(t, a, 0); got != 10 {
		t.Errorf("%v left of a burst of 10", got)
	}
}

// A caller tells the new owner what it was told. What comes in between is
// accounted for, whoever tells first.
func TestANewOwnerLearnsFromWhatCallersWereTold(t *testing.T) {
	const by = 2 // even, and so no Aggregator's
	now := time.Minute
	a := bucketed(t, 10, 100)
	if got := took(t, a, now, usage.Take{Tokens: 20, Told: 50, Ago: time.Second, By: by}); got.Left != 50+10-20 {
		t.Errorf("the first to tell: %v left", got.Left)
	}
	if got := took(t, a, now, usage.Take{Told: 30, Ago: time.Second, By: by}); got.Left != 30+10-20 {
		t.Errorf("who knows of less: %v left", got.Left)
	}
	if got := took(t, a, now, usage.Take{Told: 90, Ago: time.Second, By: by}); got.Left != 20 {
		t.Errorf("who knows of more: %v left", got.Left)
	}
	if got := took(t, a, now, usage.Take{Told: -100, By: a.number}); got.Left != 20 {
		t.Errorf("what this owner told itself: %v left", got.Left)
	}
	now += time.Second
	// It was told while this owner had the key too: nobody knows what of
	// those takes was before.
	took(t, a, now, usage.Take{Tokens: 5})
	if got := took(t, a, now, usage.Take{Told: 22, Ago: 500 * time.Millisecond, By: by}); got.Left != 25 {
		t.Errorf("told meanwhile: %v left", got.Left)
	}
	// The key was elsewhere again, and came back.
	now += 5 * time.Second
	if got := took(t, a, now, usage.Take{Told: 3, By: by, Ago: time.Second}); got.Left != 13 {
		t.Errorf("told after the last take: %v left", got.Left)
	}
	took(t, a, now, usage.Take{Tokens: 4})
	if got := took(t, a, now, usage.Take{Told: 1, By: by, Ago: time.Second}); got.Left != 7 {
		t.Errorf("told less: %v left", got.Left)
	}
}

func TestBucketsAreHandedOver(t *testing.T) {
	a, heir := bucketed(t, 10, 100), bucketed(t, 10, 100)
	took(t, a, 0, usage.Take{Tokens: 130, Spent: usage.SpentBeyond})
	took(t, a, 0, usage.Take{Key: "full", Tokens: 1})
	rows := a.HandoverBuckets(time.Second)
	if len(rows) != 1 || rows[0].Key != "k" {
		t.Fatalf("handed over: %+v", rows)
	}
	if got := took(t, a, time.Second, usage.Take{Tokens: 1}); got.Decided {
		t.Errorf("decided by who has left: %+v", got)
	}
	took(t, heir, time.Hour, rows[0])
	if got := left(t, heir, time.Hour); got != -20 {
		t.Errorf("the heir has %v left", got)
	}
}

// once sends one batch to a, and returns what is left of k, or NaN.
func once(t testing.TB, a rpc.Decider, takes *usage.Takes) float64 {
	t.Helper()
	payload, err := usage.EncodeTakes(takes)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := a.Update(t.Context(), "host", payload)
	if err != nil {
		return math.NaN()
	}
	var taken usage.Taken
	if err := usage.DecodeTaken(answer, len(takes.Rows), &taken); err != nil {
		t.Fatal(err)
	}
	if len(taken.Rows) == 0 {
		return 0
	}
	return taken.Rows[0].Left
}

func TestWhatIsDeliveredTwiceIsTakenOnce(t *testing.T) {
	a := bucketed(t, 1e-4, 100)
	takes := func(batch, settled uint64, withdrawn ...uint64) *usage.Takes {
		return &usage.Takes{Caller: 1, Batch: batch, Settled: settled, Withdrawn: withdrawn, Rows: []usage.Take{{Key: "k", Tokens: 1}, {Key: "k", Tokens: -0.5}, {Key: "j", Tokens: 3, Spent: usage.SpentBeyond}}}
	}
	refused := math.NaN()
	// left is how many tokens are left, in halves: a slow machine gives the bucket time to fill a little.
	left := func(takes *usage.Takes) float64 { return math.Round(2*once(t, a, takes)) / 2 }
	for i, step := range []struct {
		takes *usage.Takes
		want  float64
	}{
		{takes(1, 1), 99},
		{takes(1, 1), 99},   // again
		{takes(2, 1), 98.5}, // 99.5 - 1
		{takes(3, 3), 98},
		{takes(2, 1), refused},       // too late
		{takes(4, 3, 3), 98},         // 3 is withdrawn
		{takes(5, 3, 3), 97.5},       // told twice
		{takes(3, 3), refused},       // and delivered after that
		{takes(7, 3, 3, 6), 97},      // 6 is withdrawn before it came
		{takes(6, 3), refused},       // there it is
		{takes(8, 8), 96.5},          // all is settled
		{takes(6, 3), refused},       // and still is
		{takes(9, 1, 7), 96},         // what is settled cannot be withdrawn
		{takes(1<<40, 0), 95.5},      // numbers need not follow
		{takes(1<<40, 0), 95.5},      // each other
		{takes(10, 8), 95},           // nor be in order
		{takes(10, 10, 10), refused}, // withdrawn by itself
		{takes(11, 10), 95},
	} {
		got := left(step.takes)
		if got != step.want && !(math.IsNaN(got) && math.IsNaN(step.want)) {
			t.Fatalf("step %d: %v left, want %v", i, got, step.want)
		}
	}
	other := takes(1, 0)
	other.Caller = 2
	if got := left(other); got != 94.5 {
		t.Errorf("another caller's batch 1: %v left", got)
	}
	nobody := takes(1, 0)
	nobody.Caller = 0
	left(nobody)
	if got := left(nobody); got != 93.5 {
		t.Errorf("without a caller nothing is remembered: %v left", got)
	}
}

func BenchmarkTakeHere(b *testing.B) {
	a := bucketed(b, 1e9, 1e9)
	b.ReportAllocs()
	for b.Loop() {
		a.TakeHere("h", usage.Take{Key: "k", Tokens: 1})
	}
}

func BenchmarkTakesOf64(b *testing.B) {
	a := bucketed(b, 1e9, 1e9)
	takes := &usage.Takes{Caller: 1}
	for range 64 {
		takes.Rows = append(takes.Rows, usage.Take{Key: "login:2001:db8::1/64", Tokens: 1})
	}
	b.ReportAllocs()
	for b.Loop() {
		takes.Batch++
		takes.Settled = takes.Batch
		payload, err := usage.EncodeTakes(takes)
		if err == nil {
			_, err = a.Update(b.Context(), "host", payload)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// A bucket whose capacity comes from a cluster above has what that leases out,
// and asks it for what is asked of it.
func TestABucketWithAClusterAbove(t *testing.T) {
	rule := exactRule(100, 100)
	rule.Parent = true
	a := New(algorithm.Builtin(), snapshot(t, cadence, rule))
	if got := took(t, a, 0, usage.Take{Tokens: 1}); got.OK {
		t.Errorf("taken before the cluster above gave anything: %+v", got)
	}
	for range 30 {
		took(t, a, 0, usage.Take{Tokens: 1})
	}
	a.GC(time.Second)
	asked := a.Parent().Ask(time.Second, "below")
	if asked == nil || len(asked.Rows) != 1 || len(asked.Rows[0].Bands) != 1 || asked.Rows[0].Bands[0].Wants != 31./2 {
		t.Fatalf("asked %+v", asked)
	}
	a.Parent().Hear(time.Second, asked, &claims.Leases{Rows: []claims.Lease{{Amount: 20, Lasts: 10 * time.Second, Refresh: time.Second}}}, nil)
	if got := left(t, a, time.Second); got != 0 {
		t.Errorf("%v left at once", got)
	}
	if got := left(t, a, 1500*time.Millisecond); math.Abs(got-10) > 1e-9 {
		t.Errorf("%v left after half a second of 20/s", got)
	}
	if got := left(t, a, 9*time.Second); got != 20 {
		t.Errorf("%v left of a fifth of the burst", got)
	}
}
