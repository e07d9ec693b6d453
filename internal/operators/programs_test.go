// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/admin/api/busiest"
	"github.com/headgate/headgate/internal/admin/api/lasthour"
	"github.com/headgate/headgate/internal/bubble"
	"github.com/headgate/headgate/internal/daemon/callers"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/exact"
	"github.com/headgate/headgate/limiter/explain"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
	"github.com/headgate/headgate/shadow"
)

// edge is the only decider that a program knows.
type edge struct{ rpc.Decider }

func (edge) Owner(string) string                { return "edge" }
func (e edge) Peer(string) (rpc.Decider, error) { return e.Decider, nil }

// startProgram returns the limiters of a program that listens nowhere, and reports at the edge of node.
func startProgram(t *testing.T, node *headgate.Node, name string) *limiter.Group {
	t.Helper()
	to := edge{node.Edge(nil)}
	taker := &ask.Taker{Host: name, Placement: to, Peers: to}
	g := limiter.NewGroup(node.Limits().Current(), 2, limiter.WithMigration(shadow.Migrator()),
		limiter.WithRemote(exact.Name, exact.New(taker)), limiter.WithRemote(limiter.Auto, exact.NewAuto(taker)))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Run(ctx, &usage.Fanout{Host: name, Placement: to, Peers: to})
	}()
	t.Cleanup(func() { cancel(); <-done; taker.Close() })
	return g
}

// What programs do that listen nowhere, and report at a member's edge, is among the keys that are
// used most, in the series of a key and in the totals, under each way to be granted tokens.
func TestProgramsThatListenNowhereCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New()
		nodes, _ := bubble.Start(t, 1, `{defaults: {update_interval: 1s}, limits: [
			{key: elastic, limit: 10/s, burst: 10, algorithm: elastic}, {key: auto, limit: 10/s, burst: 10, algorithm: auto}, {key: exact, limit: 10/s, burst: 10, algorithm: exact}, {key: weighted, limit: 10/s, burst: 10, algorithm: request-weighted},
			{key: moved, limit: 10/s, burst: 10, migrate: {from: elastic, to: auto, mode: old-shadow-new}}, {key: here, limit: 10/s, burst: 10, algorithm: auto}]}`,
			headgate.WithAnswers(d.Answers()), headgate.WithEdgeCounts(d.EdgeCounts()))
		d.Open(nodes[0], nodes[0].Address(), nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); d.Run(ctx) }()
		defer func() { cancel(); <-done }()

		one, two := startProgram(t, nodes[0], "one"), startProgram(t, nodes[0], "two")
		keys := []string{"elastic", "auto", "exact", "weighted", "moved"}
		for range 90 * 10 { // 10 events a second at each
			for _, key := range keys {
				one.For(key).Allow()
				two.For(key).Allow()
			}
			nodes[0].For("here").Allow()
			time.Sleep(time.Second / 10)
		}

		now := time.Now().Truncate(time.Second)
		counts, hosts := past{d}.Busy(t.Context(), busiest.Wanted{Since: now.Add(-busiest.Periods * busiest.Step), Sort: "rejected", Most: 100})
		for _, key := range keys {
			i := slices.IndexFunc(counts, func(c busiest.Counts) bool { return c.Key == key })
			if i < 0 {
				t.Errorf("%s is not among those that are used", key)
				continue
			}
			if a, r := busiest.Rate(counts[i].Allowed), busiest.Rate(counts[i].Rejected); math.Abs(a-10) > 1 || math.Abs(r-10) > 1 {
				t.Errorf("%s: %.1f/s were allowed, and %.1f/s were rejected", key, a, r)
			}
			if key != "exact" && counts[i].Hosts != 2 { // to exact's owner, nobody reports
				t.Errorf("%s: %d hosts use it", key, counts[i].Hosts)
			}
		}
		if h := hosts[len(hosts)-1]; len(hosts) != 2 || h.Host != busiest.Programs || h.Keys != len(keys) || math.Abs(h.Allowed-50) > 5 || math.Abs(h.Rejected-50) > 5 {
			t.Errorf("%+v", hosts)
		}
		if h := hosts[0]; h.Keys != 1 || math.Abs(h.Allowed-10) > 1 {
			t.Errorf("the member itself: %+v", h)
		}

		for _, order := range []string{"allowed", "rejected", "used"} {
			w := httptest.NewRecorder()
			d.Handler(Config{Policy: func() *callers.Policy { return nil }, Log: slog.New(slog.DiscardHandler)}).
				ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/v1/keys?sort="+order, nil))
			var list struct{ Keys []explain.Key }
			if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list.Keys) != len(keys)+1 {
				t.Errorf("%s: %v, %s", order, err, w.Body)
			}
			for _, k := range list.Keys {
				if k.Key != "here" && (k.InUse || math.Abs(float64(k.Allowed)-900) > 50 || math.Abs(float64(k.Rejected)-900) > 50) {
					t.Errorf("%s: %+v", order, k)
				}
			}
		}

		series, _ := past{d}.Series(t.Context(), lasthour.Wanted{Key: "auto", Since: now.Add(-time.Minute)})
		var allowed, rejected float64
		for _, p := range series[busiest.Programs] {
			allowed, rejected = allowed+p.Allowed, rejected+p.Reject
		}
		if math.Abs(allowed-600) > 50 || math.Abs(rejected-600) > 50 {
			t.Errorf("in a minute, %.0f were allowed, and %.0f were rejected", allowed, rejected)
		}
		if totals, _, _ := (past{d}).Totals(t.Context()); len(totals) != len(keys)+1 {
			t.Errorf("%+v", totals)
		}

		time.Sleep(2 * time.Minute)
		if counts, hosts := (past{d}).Busy(t.Context(), busiest.Wanted{Since: time.Now().Add(-time.Minute), Most: 100}); len(hosts) != 1 {
			t.Errorf("after the programs do nothing: %+v, %+v", hosts, counts)
		}
	})
}

// Owners say what they gave before programs say what they asked for, and at another edge maybe.
func TestWhatIsGivenBeforeItIsReportedIsNotRefused(t *testing.T) {
	if got := refused([]float64{5, 0, 1, 1}, []float64{0, 5, 0, 4}); !slices.Equal(got, []float64{0, 0, 0, 2}) {
		t.Error(got)
	}
}
