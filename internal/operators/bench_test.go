// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/internal/admin/api/busiest"
	"github.com/headgate/headgate/internal/daemon/callers"
	"github.com/headgate/headgate/internal/nodeload/rusage"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/hosted"
)

// many is as many keys as a node has in use in the figures of docs/operators.md.
const many = 100_000

// desk returns a Desk whose node uses n keys. The node has no socket.
func desk(tb testing.TB, n int, options ...Option) *Desk {
	tb.Helper()
	limits, err := dynamicconfig.Parse("limits.yaml", []byte(`limits: [{key: "k:*", limit: 10/s, burst: 5}, {key: "off:*", limit: 0/s}, {key: "fast:*", limit: 1000000000/s, algorithm: elastic}]`))
	if err != nil {
		tb.Fatal(err)
	}
	members, err := hosted.New(ringpop.Host{Address: "127.0.0.1:1"})
	if err != nil {
		tb.Fatal(err)
	}
	d := New(options...)
	node, err := headgate.New(headgate.Config{Address: "127.0.0.1:1"}, memory.New(limits), members, headgate.WithAnswers(d.Answers()), headgate.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		tb.Fatal(err)
	}
	d.Open(node, "127.0.0.1:1", nil)
	for i := range n {
		for range i % 3 {
			node.For(fmt.Sprint("k:", i)).Allow()
		}
	}
	node.For("off:1").Allow()
	return d
}

// BenchmarkPages is how long a page takes, and an answer of the API, where 100,000 keys are in use, and of a
// processor's time, which is the same on a busy machine. Private keys are found by their hashes.
func BenchmarkPages(b *testing.B) {
	d := desk(b, many)
	handler := d.Handler(Config{Policy: func() *callers.Policy { return nil }, Log: slog.New(slog.DiscardHandler)})
	private, err := dynamicconfig.Parse("limits.yaml", []byte(`limits: [{key: "k:*", limit: 10/s, burst: 5, private: true}]`))
	if err != nil {
		b.Fatal(err)
	}
	page := func(name, path string) {
		b.Run(name, func(b *testing.B) {
			slowest := time.Duration(0)
			before, err := rusage.CPUTime()
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				began := time.Now()
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil))
				if w.Code != http.StatusOK {
					b.Fatalf("%d: %s", w.Code, w.Body)
				}
				slowest = max(slowest, time.Since(began))
			}
			after, err := rusage.CPUTime()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(slowest.Microseconds())/1000, "ms-slowest")
			b.ReportMetric(float64((after-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
	for _, path := range []string{
		"/", "/keys", "/keys?like=77", "/keys?sort=rejected&like=k:77", "/key?key=k:77", "/hosts", "/limits", "/migrations", "/events",
		"/v1/keys?sort=rejected", "/v1/keys?sort=used", "/v1/top", "/v1/top?like=77",
	} {
		page(path, path)
	}
	if err := d.node.Limits().Set(private); err != nil {
		b.Fatal(err)
	}
	d.node.Group().Configure(private)
	for _, path := range []string{"/keys?like=77", "/keys?sort=rejected&like=77", "/v1/top", "/v1/top?like=77"} {
		page("private"+path, path)
	}
}

// A member that has many keys keeps those that it answers, and no copy of all of them.
func TestTheBusiestKeysAreFoundWithoutACopyOfAll(t *testing.T) {
	const keys = 20_000
	d := desk(t, keys)
	about, err := json.Marshal(busiest.Wanted{Since: time.Now().Add(-time.Minute), Sort: "rejected", Most: 100})
	if err != nil {
		t.Fatal(err)
	}
	least := uint64(math.MaxUint64)
	for range 3 { // others allocate too
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := d.busy(t.Context(), about); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	if least > 50*keys {
		t.Errorf("it takes %d bytes for %d keys", least, keys)
	}
}

// BenchmarkCount is what history and metrics of keys take in a second in which 100,000 keys were
// used: 10 ms are 1% of a core.
func BenchmarkCount(b *testing.B) {
	d := desk(b, many, WithTopKeys(10))
	limiters := make([]*limiter.Limiter, many)
	for i := range limiters {
		limiters[i] = d.node.For(fmt.Sprint("k:", i))
	}
	now := time.Now()
	for b.Loop() {
		b.StopTimer()
		for _, l := range limiters {
			l.Allow()
		}
		now = now.Add(time.Second)
		b.StartTimer()
		d.count(now)
	}
}

// BenchmarkDecision is what a decision takes at a node with history and top keys, which looked at
// all keys just before, and at a node without, in turns. It reports the fastest turn of each: others
// wait for what else the machine does. The goal is that the first takes 2 ns more at most.
func BenchmarkDecision(b *testing.B) {
	const turn = 20_000
	desks := []*Desk{desk(b, 1000, WithoutPast()), desk(b, 1000, WithTopKeys(10))}
	fastest := []time.Duration{time.Hour, time.Hour}
	keys := make([]string, 10)
	for i := range keys {
		keys[i] = fmt.Sprint("fast:", i)
	}
	now := time.Now()
	for b.Loop() {
		now = now.Add(time.Second)
		desks[1].count(now)
		desks[1].programs.step(now)
		for i, d := range desks {
			began := time.Now()
			for n := range turn {
				d.node.For(keys[n%len(keys)]).Allow()
			}
			fastest[i] = min(fastest[i], time.Since(began))
		}
	}
	without, with := float64(fastest[0])/turn, float64(fastest[1])/turn
	b.ReportMetric(without, "ns-without")
	b.ReportMetric(with, "ns-with")
	b.ReportMetric(with-without, "ns-more")
}
