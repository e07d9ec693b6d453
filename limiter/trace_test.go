// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
)

func traceLimits(t *testing.T, text string) *dynamicconfig.Snapshot {
	t.Helper()
	s, err := dynamicconfig.Parse("limits", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const traced = `
unmatched: deny
limits:
  - {key: plain, limit: 5/s, burst: 5, algorithm: even}
  - {key: costly, limit: 5/s, burst: 5, max_cost: 2, max_wait: 1s, algorithm: even}
  - {key: soft, limit: 1/s, burst: 1, enforce: 0%, algorithm: even}
  - {key: "shared:*", limit: 5/s, burst: 5, algorithm: even, shared: true}
  - {key: "few:*", limit: 5/s, max_keys: 1, algorithm: even}
  - {key: closed, limit: 5/s, algorithm: elastic, fallback: closed}
  - {key: moved, limit: 5/s, burst: 5, migrate: {from: even, to: elastic, mode: old-shadow-new}}
`

// A key that is traced decides as another host's does that is not, through config changes,
// and the trace has each decision.
func TestATraceHasEachDecisionAndChangesNone(t *testing.T) {
	s := traceLimits(t, traced)
	groups := [2]*limiter.Group{limiter.NewGroup(s, 1), limiter.NewGroup(s, 1)}
	groups[0].For("few:first").Allow()
	groups[1].For("few:first").Allow()
	names := []string{"plain", "costly", "soft", "shared:a", "few:second", "closed", "moved", "nobody"}
	at := time.Now()
	for _, name := range names {
		want := 0
		random := rand.New(rand.NewPCG(1, 2))
		for i := range 200 {
			switch i {
			case 20, 150:
				if !groups[0].Trace(name, true) {
					t.Fatal("no room")
				}
			case 100:
				groups[0].Trace(name, false)
				want = 0
			case 60, 170:
				for _, g := range groups {
					g.Configure(traceLimits(t, traced+fmt.Sprintf("  - {key: other%d, limit: 1/s}\n", i)))
				}
			}
			at = at.Add(time.Duration(random.IntN(200)) * time.Millisecond)
			cost := 1 + random.IntN(3)
			got, untraced := groups[0].For(name).AllowN(at, cost), groups[1].For(name).AllowN(at, cost)
			if got != untraced {
				t.Fatalf("%s, event %d: %t with a trace, and %t without", name, i, got, untraced)
			}
			all, ok := groups[0].Traced(name)
			if on := i >= 20 && i < 100 || i >= 150; ok != on {
				t.Fatalf("%s, event %d: traced: %t", name, i, ok)
			} else if !on {
				continue
			}
			if want++; len(all) != want {
				t.Fatalf("%s, event %d: %d decisions in the trace, want %d", name, i, len(all), want)
			}
			last := all[len(all)-1]
			if last.Cost != int64(cost) || (last.Reason <= limiter.Soft) != got || last.Time.Sub(at).Abs() > time.Millisecond {
				t.Errorf("%s, event %d of cost %d at %v, allowed: %t: the trace has %+v", name, i, cost, at, got, last)
			}
		}
	}
}

// The keys of a shared rule have one bucket, whose key is the pattern. Programs that report at an
// edge are asked to trace that.
func TestATraceOfASharedBucketHasDecisionsAboutAllItsKeys(t *testing.T) {
	g := limiter.NewGroup(traceLimits(t, traced), 1)
	g.For("shared:a").Allow()
	for _, name := range []string{"shared:*", "shared:a"} {
		g.Trace(name, true)
	}
	for _, name := range []string{"shared:a", "shared:b", "shared:*", "plain"} {
		g.For(name).Allow()
	}
	for _, name := range []string{"shared:a", "shared:b", "plain"} { // the rights of callers are of keys
		g.Denied(name, errors.New("another team's"))
	}
	for name, want := range map[string]int{"shared:*": 5, "shared:a": 2} {
		if all, _ := g.Traced(name); len(all) != want {
			t.Errorf("%s: %d decisions, want %d: %+v", name, len(all), want, all)
		}
	}
}

func TestTracesAreBounded(t *testing.T) {
	g := limiter.NewGroup(traceLimits(t, "limits: [{key: '*', limit: 1000/s, algorithm: even}]"), 1)
	for i := range limiter.MaxTraced {
		if !g.Trace(fmt.Sprint(i), true) {
			t.Fatalf("no room for the %dth", i+1)
		}
	}
	if g.Trace("one more", true) {
		t.Error("there was room for one more")
	}
	if !g.Trace("0", true) {
		t.Error("a key that is traced cannot be traced again")
	}
	l := g.For("0")
	for range 1000 {
		l.Allow()
	}
	all, _ := g.Traced("0")
	if len(all) != 256 {
		t.Errorf("%d decisions", len(all))
	}
	for i := 1; i < len(all); i++ {
		if all[i].Time.Before(all[i-1].Time) {
			t.Fatal("the decisions are not in their order")
		}
	}
	for i := range limiter.MaxTraced {
		g.Trace(fmt.Sprint(i), false)
	}
	if _, ok := g.Traced("0"); ok {
		t.Error("a key is still traced")
	}
	if !g.Trace("one more", true) {
		t.Error("there is no room")
	}
}

// Tracing begins and ends while other goroutines decide.
func TestTracingRacesWithDecisions(t *testing.T) {
	g := limiter.NewGroup(traceLimits(t, traced), 1)
	var loops sync.WaitGroup
	done := make(chan struct{})
	for _, name := range []string{"plain", "shared:a", "moved", "plain"} {
		loops.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					g.For(name).Allow()
				}
			}
		})
	}
	for i := range 200 {
		for _, name := range []string{"plain", "shared:a", "moved"} {
			g.Trace(name, i%2 == 0)
			g.Traced(name)
		}
	}
	close(done)
	loops.Wait()
}
