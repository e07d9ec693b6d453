// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
)

// The demand of many keys is looked at under one lock, some at a time. What is
// told about a key does not depend on where among them it stands.
func TestEveryKeyIsAskedOnceWhatItWants(t *testing.T) {
	const keys = 3*together + 1
	g := eagerGroup(t, dynamicconfig.Rule{Key: "*", Limit: 1e6}, 1)
	var now Instant
	for round := range 4 {
		now += 3 * second
		for i := range keys {
			take(g.For(fmt.Sprint(i)), now-second, 100+5*round)
		}
		for _, k := range g.live { // as if ticks had seen it come evenly
			k.core.shares[0].pulse.demand.fast = float64(100+5*round) / 3
		}
		batches := g.Report(now)
		if len(batches) != 1 || batches[0].Usage.Len() != keys {
			t.Fatalf("round %d: %d batches", round, len(batches))
		}
		b, answer := batches[0], rpc.Grants{}
		for i, wants := range b.Usage.Wants {
			if first := b.Usage.Wants[0]; wants != first || !(wants > 0) {
				t.Fatalf("round %d: key %d wants %v, and the first, which did the same, %v", round, i, wants, first)
			}
			answer.Weight, answer.Burst = append(answer.Weight, 0.5), append(answer.Burst, 1e6)
			answer.Used, answer.Tokens = append(answer.Used, 0), append(answer.Tokens, 1e5)
			answer.Lease = append(answer.Lease, time.Minute)
		}
		if err := g.Apply(now, b, nil, &answer); err != nil {
			t.Fatal(err)
		}
	}
}

// roundOf uses so many keys of g once, at so much cost, and answers its report.
func roundOf(t *testing.T, g *Group, now Instant, keys, cost int) *Batch {
	t.Helper()
	for i := range keys {
		g.For(fmt.Sprint(i)).AllowAt(now-second, cost)
	}
	batches := g.Report(now)
	if len(batches) != 1 || batches[0].Usage.Len() < keys {
		t.Fatalf("%d batches", len(batches))
	}
	b := batches[0]
	n := b.Usage.Len()
	for i, key := range b.Usage.Keys[:keys] {
		if key != fmt.Sprint(i) || b.Usage.Allowed[i] != int64(cost) || b.Usage.Rejected[i] != 0 {
			t.Errorf("row %d: %q used %d, want %d", i, key, b.Usage.Allowed[i], cost)
		}
	}
	if len(b.Usage.Wants) != n || (len(b.Usage.Cost) == n) != (cost > 1) {
		t.Errorf("%d wants and %d costs of %d keys that cost %d", len(b.Usage.Wants), len(b.Usage.Cost), n, cost)
	}
	if err := g.Apply(now, b, nil, manyGrants(n)); err != nil {
		t.Fatal(err)
	}
	return b
}

func manyGrants(n int) *rpc.Grants {
	return &rpc.Grants{
		Weight: slices.Repeat([]float64{0.5}, n), Burst: slices.Repeat([]float64{100}, n), Used: make([]float64, n),
		Lease: slices.Repeat([]time.Duration{time.Minute}, n), Tokens: slices.Repeat([]float64{50}, n),
	}
}

func TestTheNextReportTakesTheMemoryOfABatchThatIsDone(t *testing.T) {
	const keys = 3*together + 1
	g := eagerGroup(t, dynamicconfig.Rule{Key: "*", Limit: 1e6, IdleAfter: time.Hour}, 1)
	first := roundOf(t, g, 3*second, keys, 1)
	memory := &first.Usage.Keys[0]
	g.Done(first)
	again := roundOf(t, g, 6*second, keys, 1)
	if &again.Usage.Keys[0] != memory {
		t.Error("the memory of the first batch was not taken again")
	}
	if other := roundOf(t, g, 9*second, keys, 1); &other.Usage.Keys[0] == memory {
		t.Error("a batch that is not done lost its memory")
	}
	g.Done(again)
	if costly := roundOf(t, g, 12*second, keys, 3); &costly.Usage.Keys[0] != memory {
		t.Error("the memory was not taken a third time")
	}
}

func TestABatchThatIsDoneIsNotAnswered(t *testing.T) {
	g := eagerGroup(t, dynamicconfig.Rule{Key: "*", Limit: 1e6, IdleAfter: time.Hour}, 1)
	b := roundOf(t, g, 3*second, 2, 1)
	g.Done(b)
	g.Done(b)
	if err := g.Apply(4*second, b, []int{1}, manyGrants(1)); err == nil {
		t.Error("it was answered")
	}
	g.Fail(4*second, b, []int{1})
	roundOf(t, g, 6*second, 2, 1)
}

// Nothing is kept for a time when there is more to say.
func TestMemoryThatNoReportTakesIsGivenUp(t *testing.T) {
	const keys = 100
	g := eagerGroup(t, dynamicconfig.Rule{Key: "*", Limit: 1e6, IdleAfter: time.Hour}, 1)
	g.Done(roundOf(t, g, 3*second, keys, 1))
	if b := g.spare["lending"]; b == nil || cap(b.rows) < keys {
		t.Fatal("nothing was kept")
	}
	for now := 6 * second; len(g.live) > 0; now += 3 * second {
		for _, b := range g.Report(now) {
			if err := g.Apply(now, b, nil, manyGrants(b.Usage.Len())); err != nil {
				t.Fatal(err)
			}
			g.Done(b)
		}
	}
	for now := 3000 * second; now < 3010*second; now += 3 * second {
		g.Report(now)
	}
	if len(g.spare) > 0 {
		t.Errorf("%d rows are kept", cap(g.spare["lending"].rows))
	}
}

// A report that is shorter than the one before keeps nothing of that alive.
func TestRowsBehindTheLastAreForgotten(t *testing.T) {
	const keys = 100
	g := eagerGroup(t, dynamicconfig.Rule{Key: "*", Limit: 1e6, IdleAfter: time.Hour}, 1)
	g.Done(roundOf(t, g, 3*second, keys, 1))
	b := roundOf(t, g, 6*second, keys/2, 1)
	// Those that nobody used say once more that they want less, then nothing.
	for now := 9 * second; b.Usage.Len() > keys/2; now += 3 * second {
		g.Done(b)
		b = roundOf(t, g, now, keys/2, 1)
	}
	for i := b.Usage.Len(); i < cap(b.rows); i++ {
		if b.rows[:i+1][i].share != nil {
			t.Fatalf("row %d of %d still has its share", i, b.Usage.Len())
		}
	}
	for i, key := range b.room.Keys[b.Usage.Len():] {
		if key != "" {
			t.Fatalf("row %d of %d still has its key", b.Usage.Len()+i, b.Usage.Len())
		}
	}
	if cap(b.rows) < keys {
		t.Error("that was other memory")
	}
}
