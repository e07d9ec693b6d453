// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/hosted"
)

// willing is a Remote that allows all, or nothing.
type willing struct{ atomic.Bool }

func (w *willing) Do(context.Context, stage.Operation) (stage.Outcome, error) {
	return stage.Outcome{OK: w.Load()}, nil
}

func TestANodesMetricsSayWhatEachRuleDecided(t *testing.T) {
	const text = `
defaults: {update_interval: 100ms, algorithm: even}
limits:
  - {key: moving, limit: 1/h, burst: 10, migrate: {from: even, to: redis, mode: new-shadow-old}}
  - {key: plain, limit: 1/h, burst: 5}
  - {key: slow, limit: 1/h, burst: 1, max_wait: 10h}
  - {key: soft, limit: 1/h, burst: 1, enforce: 0%}
  - {key: "many:*", limit: 1/h, burst: 5, max_keys: 1}
unmatched: deny
`
	l, scope, remote := listen(t), tally.NewTestScope("orders", nil), new(willing)
	var mu sync.Mutex
	events := make(map[limiter.EventKind]int)
	n := startNode(t, l.Addr().String(), text, membersAt(t, l), headgate.WithListen(l),
		headgate.WithScope(scope), headgate.WithRemote("redis", remote),
		headgate.WithLimiter(limiter.WithListener(func(batch []limiter.Event) {
			mu.Lock()
			defer mu.Unlock()
			for _, e := range batch {
				events[e.Kind]++
			}
		})))
	ask := func(key string, cost int, want bool) {
		t.Helper()
		if d := n.For(key).Decide(t.Context(), cost, 0); d.OK != want {
			t.Errorf("%d of %s: %+v", cost, key, d)
		}
	}
	// The old side has 10 tokens; the new one is asked first.
	for _, row := range []struct {
		cost int
		new  bool
	}{{3, true}, {7, false}, {2, true}, {1, false}} {
		remote.Store(row.new)
		ask("moving", row.cost, row.new)
	}
	ask("plain", 4, true)
	ask("plain", 2, false)
	ask("plain", 9, false)
	ask("soft", 1, true)
	ask("soft", 1, true)
	for range 3 { // all but the first wait
		if d := n.For("slow").Decide(t.Context(), 1, 10*time.Hour); !d.OK {
			t.Errorf("%+v", d)
		}
	}
	n.For("slow").Charge(4)
	ask("many:a", 1, true)
	ask("many:b", 1, false)
	ask("none", 1, false)

	const prefix = "orders.headgate.limiter."
	want := map[string]int64{
		"allowed+rule=moving":                            5,
		"rejected+reason=limited,rule=moving":            8,
		"divergence+allowed_by=both,rule=moving":         3,
		"divergence+allowed_by=only_old,rule=moving":     7,
		"divergence+allowed_by=only_new,rule=moving":     2,
		"divergence+allowed_by=neither,rule=moving":      1,
		"divergence+allowed_by=not_measured,rule=moving": 0,
		"allowed+rule=plain":                             4,
		"rejected+reason=limited,rule=plain":             2,
		"rejected+reason=too-costly,rule=plain":          9,
		"allowed+rule=slow":                              7,
		"waited+rule=slow":                               2,
		"charged+rule=slow":                              4,
		"waited+rule=plain":                              0,
		"charged+rule=plain":                             0,
		"allowed+rule=soft":                              1,
		"soft+rule=soft":                                 1,
		"allowed+rule=many:*":                            1,
		"rejected+reason=too-many-keys,rule=many:*":      1,
		"rejected+reason=unmatched,rule=(none)":          1,
		"unmatched_keys+":                                1,
	}
	var got map[string]int64
	defer func() {
		for name, n := range want {
			if t.Failed() && got[prefix+name] != n {
				t.Logf("%s: %d, want %d", name, got[prefix+name], n)
			}
		}
	}()
	eventually(t, "all metrics are what was decided", func() bool {
		got = counters(scope)
		for name, n := range want {
			if got[prefix+name] != n {
				return false
			}
		}
		return true
	})
	eventually(t, "the listener has all events", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return events[limiter.EventServed] == 7 && events[limiter.EventWaited] == 2 && events[limiter.EventTimedOut] == 3 &&
			events[limiter.EventTooLarge] == 1 && events[limiter.EventNoBucket] == 2
	})
	if st, ok := n.Group().Inspect("moving"); !ok || st.Divergence != (stage.Divergence{Both: 3, OnlyOld: 7, OnlyNew: 2, Neither: 1}) {
		t.Errorf("divergence %+v", st.Divergence)
	}
	snapshot := scope.Snapshot()
	for name := range snapshot.Counters() {
		checkPrefix(t, name)
	}
	for name := range snapshot.Gauges() {
		checkPrefix(t, name)
	}
}

func checkPrefix(t *testing.T, name string) {
	t.Helper()
	if !strings.HasPrefix(name, "orders.headgate.") || strings.Count(name, "headgate") != 1 {
		t.Errorf("%s: want headgate once, below the service's prefix", name)
	}
}

// Most keys have nothing to give back when their host stops. What was decided since the
// last report counts all the same.
func TestStopCountsWhatWasDecidedLast(t *testing.T) {
	const text = `
defaults: {update_interval: 1h, lease: 2h}
limits:
  - {key: even, limit: 1/h, burst: 5, algorithm: even}
  - {key: elastic, limit: 1/h, burst: 5, algorithm: elastic}
  - {key: exact, limit: 1/h, burst: 5, algorithm: exact}
  - {key: gossip, limit: 1/h, burst: 5, algorithm: gossip}
  - {key: moving, limit: 1/h, burst: 5, migrate: {from: even, to: elastic, mode: old-shadow-new}}
`
	l, scope := listen(t), tally.NewTestScope("", nil)
	n := startNode(t, l.Addr().String(), text, membersAt(t, l), headgate.WithListen(l), headgate.WithScope(scope))
	keys := []string{"even", "elastic", "exact", "gossip", "moving"}
	for _, key := range keys {
		for range 7 {
			n.For(key).Allow()
		}
	}
	for range 2 { // the second has nothing new to count
		if err := n.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got := counters(scope)
	for _, key := range keys {
		allowed, rejected := got["headgate.limiter.allowed+rule="+key], got["headgate.limiter.rejected+reason=limited,rule="+key]
		if allowed != 5 || rejected != 2 {
			t.Errorf("%s: %d allowed and %d rejected, want 5 and 2", key, allowed, rejected)
		}
	}
	both, neither := got["headgate.limiter.divergence+allowed_by=both,rule=moving"], got["headgate.limiter.divergence+allowed_by=neither,rule=moving"]
	if both != 5 || neither != 2 {
		t.Errorf("both sides allowed %d and rejected %d, want 5 and 2", both, neither)
	}
}

func TestANodesMetricsSayThatItsLimitsAreRefused(t *testing.T) {
	members, err := hosted.New(ringpop.Host{Address: "127.0.0.1:7933"})
	if err != nil {
		t.Fatal(err)
	}
	source, scope := memory.New(limits(t, "limits: []")), tally.NewTestScope("", nil)
	n, err := headgate.New(headgate.Config{Address: "127.0.0.1:7933"}, source, members,
		headgate.WithTransport(&late{starts: 1}), headgate.WithScope(scope), quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	says := func(newest float64, applied, refused int64) func() bool {
		return func() bool {
			s := scope.Snapshot()
			g, a, r := s.Gauges()["headgate.config.newest_in_force+"], s.Counters()["headgate.config.applied+"], s.Counters()["headgate.config.refused+"]
			return g != nil && g.Value() == newest && a.Value() == applied && r.Value() == refused
		}
	}
	eventually(t, "the first limits are in force", says(1, 0, 0))
	source.Set(limits(t, "limits: [{key: a, limit: 1/s, algorithm: no-such}]"))
	eventually(t, "the newest limits are refused", says(0, 0, 1))
	source.Set(limits(t, "limits: [{key: a, limit: 1/s}]"))
	eventually(t, "the newest limits are in force", says(1, 1, 1))
}
