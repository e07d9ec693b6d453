// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/rpc/edge"
	"github.com/headgate/headgate/rpc/middleware/httplimit"
	"github.com/headgate/headgate/rpc/middleware/internal/askingtest"
)

func TestMain(m *testing.M) { waittest.Main(m) }

const limits = `
defaults: {algorithm: even}
limits:
  - {key: "api:*", limit: 1/s, burst: 2, max_keys: 2}
  - {key: "soft:*", limit: 1/s, enforce: 0%}
unmatched: deny
`

func wrap(t testing.TB, b edge.Engine, o httplimit.Options) http.Handler {
	t.Helper()
	o.Random = func() float64 { return 0 }
	l, err := httplimit.New(b, o)
	if err != nil {
		t.Fatal(err)
	}
	return l.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }))
}

func ask(h http.Handler, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), "GET", "/p", http.NoBody)
	change(r)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func tenant(name string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("X-Tenant", name) }
}

func TestRejecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scope := tally.NewTestScope("", nil)
		h := wrap(t, enginetest.Of(t, limits), httplimit.Options{Key: "{header:X-Group}:{header:X-Tenant}", Scope: scope})
		for _, tc := range []struct {
			group, tenant string
			status        int
			fields, body  string
		}{
			{"api", "a", 200, `"default";q=2;w=2 "default";r=1;t=1 `, "served"},
			{"api", "a", 200, `"default";q=2;w=2 "default";r=0;t=2 `, "served"},
			{"api", "a", 429, `"default";q=2;w=2 "default";r=0;t=2 1`, `"reason":"limited"`},
			{"api", "b", 200, `"default";q=2;w=2 "default";r=1;t=1 `, "served"},
			{"api", "c", 429, `  `, `"reason":"too-many-keys"`},
			{"api:a", "", 403, `  `, `"reason":"unmatched"`}, // and not a's
			{"soft", "x", 200, `"default";q=1;w=1 "default";r=0;t=1 `, "served"},
			{"soft", "x", 200, `"default";q=1;w=1 "default";r=0;t=1 `, "served"},
		} {
			w := ask(h, func(r *http.Request) { r.Header.Set("X-Group", tc.group); r.Header.Set("X-Tenant", tc.tenant) })
			fields := w.Header().Get("RateLimit-Policy") + " " + w.Header().Get("RateLimit") + " " + w.Header().Get("Retry-After")
			if w.Code != tc.status || fields != tc.fields || !strings.Contains(w.Body.String(), tc.body) {
				t.Errorf("%s %s: %d %q %s", tc.group, tc.tenant, w.Code, fields, w.Body)
			}
			if w.Code >= 400 && w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s", w.Header())
			}
		}
		for reason, want := range map[string]int64{"granted": 4, "limited": 1, "soft": 1, "unmatched": 1, "too-many-keys": 1} {
			if got := scope.Snapshot().Counters()["httplimit.requests+reason="+reason].Value(); got != want {
				t.Errorf("%s: %d", reason, got)
			}
		}
	})
}

func TestQueueing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := enginetest.Of(t, limits)
		h := wrap(t, b, httplimit.Options{Key: "api:{header:X-Tenant}", Throttle: httplimit.Queue, MaxWait: 1500 * time.Millisecond})
		began := time.Now()
		for i, want := range []struct {
			status int
			at     time.Duration
		}{{200, 0}, {200, 0}, {200, time.Second}, {200, 2 * time.Second}} {
			if w := ask(h, tenant("a")); w.Code != want.status || time.Since(began) != want.at {
				t.Errorf("%d: %d after %v", i, w.Code, time.Since(began))
			}
		}
		for range 2 { // one waits for 1 s, the next would wait for 2
			go ask(h, tenant("a"))
			synctest.Wait()
		}
		if w := ask(h, tenant("a")); w.Code != 429 || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%d %s", w.Code, w.Header())
		}
		time.Sleep(2 * time.Second) // until those that wait are served
	})
}

// A request that ends while it waits is not always a client that has gone: it may
// be the server's own deadline or shutdown, and then the client reads an answer.
func TestARequestThatEndsInTheQueueIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, scope := enginetest.Of(t, limits), tally.NewTestScope("", nil)
		h := wrap(t, b, httplimit.Options{Key: "api:{header:X-Tenant}", Throttle: httplimit.Queue, MaxWait: 1500 * time.Millisecond, Scope: scope})
		ask(h, tenant("a"))
		ask(h, tenant("a"))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		w := ask(h, func(r *http.Request) { tenant("a")(r); *r = *r.WithContext(ctx) })
		if w.Code != 503 || !strings.Contains(w.Body.String(), `"reason":"canceled"`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if d := b.Decide(t.Context(), edge.Ask{Key: "api:a"}); d.Left < 0 {
			t.Errorf("what it waited for was not given back: %v are left", d.Left)
		}
		for reason, want := range map[string]int64{"granted": 2, "canceled": 1} {
			if got := scope.Snapshot().Counters()["httplimit.requests+reason="+reason].Value(); got != want {
				t.Errorf("%s: %d, want %d", reason, got, want)
			}
		}
	})
}

// A request whose turn comes after its deadline is refused at once, and holds no
// turn that another could have.
func TestARequestWithTooLittleTimeDoesNotQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := wrap(t, enginetest.Of(t, limits), httplimit.Options{Key: "api:{header:X-Tenant}", Throttle: httplimit.Queue, MaxWait: 1500 * time.Millisecond})
		ask(h, tenant("a"))
		ask(h, tenant("a"))
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		w := ask(h, func(r *http.Request) { tenant("a")(r); *r = *r.WithContext(ctx) })
		if w.Code != 429 || w.Header().Get("Retry-After") != "1" || time.Since(began) != 0 {
			t.Errorf("%d %s after %v", w.Code, w.Header(), time.Since(began))
		}
		if w := ask(h, tenant("a")); w.Code != 200 || time.Since(began) != time.Second {
			t.Errorf("a patient one: %d after %v", w.Code, time.Since(began))
		}
	})
}

// Over a real connection, as only that shows what the client sees.
func TestDropping(t *testing.T) {
	server := httptest.NewServer(wrap(t, enginetest.Of(t, limits), httplimit.Options{Key: "api:{header:X-Tenant}", Throttle: httplimit.Drop}))
	defer server.Close()
	get := func() (int, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody) // which is not tried again
		if err != nil {
			t.Fatal(err)
		}
		answer, err := server.Client().Do(r)
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	for range 2 {
		if status, err := get(); status != 200 || err != nil {
			t.Fatal(status, err)
		}
	}
	if status, err := get(); err == nil {
		t.Errorf("an answer: %d", status)
	}
}

func TestAddresses(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
	for _, tc := range []struct {
		remote    string
		forwarded []string
		trusted   []netip.Prefix
		want      string
	}{
		{"192.0.2.1:5", nil, nil, "192.0.2.1"},
		{"192.0.2.1:5", []string{"203.0.113.9"}, nil, "192.0.2.1"},
		{"192.0.2.1:5", []string{"203.0.113.9"}, proxies, "192.0.2.1"},
		{"10.0.0.1:5", []string{"203.0.113.9"}, proxies, "203.0.113.9"},
		{"10.0.0.1:5", []string{"1.1.1.1, 203.0.113.9 ,10.0.0.2"}, proxies, "203.0.113.9"},
		{"10.0.0.1:5", []string{"1.1.1.1", "203.0.113.9", "10.0.0.2"}, proxies, "203.0.113.9"},
		{"10.0.0.1:5", []string{"203.0.113.9, nonsense, 10.0.0.2"}, proxies, "10.0.0.2"},
		{"10.0.0.1:5", []string{"203.0.113.9:51234"}, proxies, "203.0.113.9"},
		{"10.0.0.1:5", []string{"[2001:db9::7]:443"}, proxies, "2001%3Adb9%3A%3A7"},
		{"10.0.0.1:5", []string{"[2001:db9::7]"}, proxies, "2001%3Adb9%3A%3A7"},
		{"10.0.0.1:5", []string{"203.0.113.9:1, 10.0.0.2:2"}, proxies, "203.0.113.9"},
		{"10.0.0.1:5", []string{"203.0.113.9, ", ""}, proxies, "203.0.113.9"},
		{"10.0.0.1:5", []string{"unknown"}, proxies, "10.0.0.1"},
		{"10.0.0.1:5", nil, proxies, "10.0.0.1"},
		{"[2001:db8::1]:5", []string{"203.0.113.9"}, proxies, "203.0.113.9"},
		{"[::ffff:10.0.0.1]:5", []string{"203.0.113.9"}, proxies, "203.0.113.9"},
		{"@", []string{"203.0.113.9"}, proxies, "%40"},
	} {
		seen := &askingtest.Noting{Decision: edge.Decision{OK: true}}
		h := wrap(t, seen, httplimit.Options{Key: "{ip}", TrustedProxies: tc.trusted})
		ask(h, func(r *http.Request) {
			r.RemoteAddr = tc.remote
			for _, f := range tc.forwarded {
				r.Header.Add("X-Forwarded-For", f)
			}
		})
		if want := strings.ReplaceAll(tc.want, "%40", "@"); seen.Key != want {
			t.Errorf("%s, forwarded %q: %s, want %s", tc.remote, tc.forwarded, seen.Key, want)
		}
	}
}

// What comes by a Unix socket has no address. It is believed only if the service
// says that nothing but a proxy connects there.
func TestAddressesAtAUnixSocket(t *testing.T) {
	for _, tc := range []struct {
		network   string
		forwarded []string
		trust     bool
		want      string
	}{
		{"unix", []string{"1.1.1.1, 203.0.113.9"}, true, "203.0.113.9"},
		{"unix", []string{"203.0.113.9, 10.0.0.2"}, true, "203.0.113.9"},
		{"unix", []string{"203.0.113.9"}, false, "@"},
		{"unix", nil, true, "@"},
		{"tcp", []string{"203.0.113.9"}, true, "@"},
	} {
		seen := &askingtest.Noting{Decision: edge.Decision{OK: true}}
		h := wrap(t, seen, httplimit.Options{Key: "{ip}", TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, TrustUnixSocket: tc.trust})
		ask(h, func(r *http.Request) {
			r.RemoteAddr = "@"
			*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{Net: tc.network}))
			for _, f := range tc.forwarded {
				r.Header.Add("X-Forwarded-For", f)
			}
		})
		if seen.Key != tc.want {
			t.Errorf("%+v: %s", tc, seen.Key)
		}
	}
}

// However a client writes a path, {route} is that of the pattern it matches.
func TestRoutesAreOneKeyHoweverTheyAreWritten(t *testing.T) {
	seen := &askingtest.Noting{Decision: edge.Decision{OK: true}}
	inside := wrap(t, seen, httplimit.Options{Key: "{route}"})
	mux := http.NewServeMux()
	mux.Handle("GET /login", inside)
	mux.Handle("/users/{id}", inside)
	around := wrap(t, seen, httplimit.Options{Key: "{method}:{route}", Route: func(r *http.Request) string { _, pattern := mux.Handler(r); return pattern }})
	for _, tc := range []struct {
		h          http.Handler
		path, want string
	}{
		{mux, "/login", "/login"},
		{mux, "/users/1", "/users/%7Bid%7D"},
		{mux, "/users/2", "/users/%7Bid%7D"},
		{around, "/login", "GET:GET%20/login"},
		{around, "//login", "GET:GET%20/login"},
		{around, "/./login", "GET:GET%20/login"},
		{around, "/none", "GET:"},
	} {
		ask(tc.h, func(r *http.Request) { r.URL.Path = tc.path })
		if seen.Key != tc.want {
			t.Errorf("%s: %s, want %s", tc.path, seen.Key, tc.want)
		}
	}
}

func TestAttributesAndCosts(t *testing.T) {
	seen := &askingtest.Noting{Decision: edge.Decision{OK: true}}
	h := wrap(t, seen, httplimit.Options{
		Key:  "{method}:{path}:{header:host}:{user}",
		User: func(r *http.Request) string { return r.Header.Get("X-User") },
		Cost: func(*http.Request) int64 { return 7 },
	})
	ask(h, func(r *http.Request) { r.Header.Set("X-User", "u:1"); r.Host = "h" })
	if seen.Key != "GET:/p:h:u%3A1" || seen.Cost != 7 {
		t.Errorf("%+v", seen)
	}
}

func TestBadOptions(t *testing.T) {
	for want, o := range map[string]httplimit.Options{
		"has 0 bytes":   {},
		"no Throttle 9": {Key: "k", Throttle: 9},
		"a MaxWait of":  {Key: "k", MaxWait: -1},
	} {
		if _, err := httplimit.New(enginetest.Of(t, limits), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := httplimit.New(nil, httplimit.Options{Key: "k"}); err == nil || !strings.Contains(err.Error(), "use engine.New") {
		t.Errorf("without an engine: %v", err)
	}
}
