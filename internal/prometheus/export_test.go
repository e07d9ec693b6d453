// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/internal/waittest"
)

func TestMain(m *testing.M) { waittest.Main(m) }

func TestWhatIsCountedIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused atomic.Int64
		e, err := New(func(error) { refused.Add(1) })
		if err != nil {
			t.Fatal(err)
		}
		scope := e.Scope().SubScope("headgate").SubScope("limiter")
		scope.Gauge("keys").Update(3)
		scope.Counter("idle")
		counter := scope.Tagged(map[string]string{"reason": "too-many \"keys\""}).Counter("refused")
		latency := scope.Histogram("latency_seconds", tally.DurationBuckets{time.Millisecond, time.Second})
		read := func() string {
			w := httptest.NewRecorder()
			e.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
			return w.Body.String()
		}
		for round := range 2 {
			counter.Inc(2)
			latency.RecordDuration(20 * time.Millisecond)
			time.Sleep(every + time.Millisecond)
			text := read()
			if problems, err := promlint.New(strings.NewReader(text)).Lint(); err != nil || len(problems) > 0 {
				t.Errorf("promlint: %v, %v", problems, err)
			}
			for _, want := range []string{
				"\nheadgate_limiter_keys 3\n", "\nheadgate_limiter_idle_total 0\n", "\nprocess_open_fds ", "\ngo_goroutines ",
				"\nheadgate_limiter_refused_total{reason=\"too-many \\\"keys\\\"\"} " + string(rune('2'+2*round)) + "\n",
				"\nheadgate_limiter_latency_seconds_bucket{le=\"0.001\"} 0\n",
				"\nheadgate_limiter_latency_seconds_bucket{le=\"1\"} " + string(rune('1'+round)) + "\n",
				"\nheadgate_limiter_latency_seconds_count " + string(rune('1'+round)) + "\n",
				"\n# TYPE headgate_limiter_refused_total counter\n",
			} {
				if !strings.Contains("\n"+text, want) {
					t.Errorf("round %d: there is no %q in\n%s", round, want, text)
				}
			}
		}
		// Other tags than before: told, and no reason to panic.
		scope.Tagged(map[string]string{"who": "me"}).Counter("refused").Inc(1)
		if refused.Load() != 1 {
			t.Errorf("%d metrics refused", refused.Load())
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A read that timed out goes on, and the next one does not do the same work beside it.
func TestTheNextReadSharesTheWorkOfASlowOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := New(func(err error) { t.Error(err) })
		if err != nil {
			t.Fatal(err)
		}
		var reads atomic.Int64
		if err := e.Gauge("slow", func() float64 {
			time.Sleep(longest + longest/2)
			return float64(reads.Add(1))
		}); err != nil {
			t.Fatal(err)
		}
		read := func() *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			e.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
			return w
		}
		if w := read(); w.Code != 503 {
			t.Errorf("the first read is answered %d", w.Code)
		}
		if w := read(); w.Code != 200 || !strings.Contains(w.Body.String(), "\nheadgate_slow 1\n") {
			t.Errorf("the next read is answered %d", w.Code)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}
