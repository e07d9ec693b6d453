// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/rpc/middleware/httplimit"
)

// discard is a ResponseWriter that costs as little as can be.
type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// grants are options under which requests are granted.
var grants = map[string]httplimit.Options{
	"reject": {Key: "calls:{header:X-Tenant}"},
	"queue":  {Key: "calls:{header:X-Tenant}", Throttle: httplimit.Queue},
}

// granted is a request that a Limit grants.
func granted(tb testing.TB, o httplimit.Options) (call func()) {
	l, err := httplimit.New(enginetest.Of(tb, "limits: [{key: '*', limit: 1e9/s, algorithm: even}]"), o)
	if err != nil {
		tb.Fatal(err)
	}
	h := l.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r := httptest.NewRequestWithContext(tb.Context(), "GET", "/p", http.NoBody)
	r.Header.Set("X-Tenant", "alice")
	w := discard{make(http.Header)}
	return func() { h.ServeHTTP(w, r) }
}

// BenchmarkGranted is what a Limit adds to a request.
func BenchmarkGranted(b *testing.B) {
	for name, o := range grants {
		b.Run(name, func(b *testing.B) {
			call := granted(b, o)
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}

// A request that is granted at once allocates no more than twice, so that a Limit costs a busy server little.
func TestAGrantedRequestAllocatesLittle(t *testing.T) {
	testrun.NotUnderRace(t, "pools forget what they hold")
	for name, o := range grants {
		if n := testing.AllocsPerRun(1000, granted(t, o)); n > 2 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
