// SPDX-License-Identifier: Apache-2.0

package doorman_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

const limits = `
defaults: {update_interval: 200ms}
limits:
  - {key: "fair", limit: 120/s, algorithm: fair-share, lease: 60s, refresh: 8s, learning: 0s}
  - {key: "fair-learns", limit: 120/s, algorithm: fair-share, lease: 60s, refresh: 8s}
  - {key: "fair-1000", limit: 1000/s, algorithm: fair-share, lease: 60s, refresh: 8s, learning: 0s}
  - {key: "proportional", limit: 120/s, algorithm: proportional-share, lease: 60s, refresh: 8s, learning: 0s}
  - {key: "proportional-100", limit: 100/s, algorithm: proportional-share, lease: 60s, refresh: 8s, learning: 0s}
  - {key: "proportional-learns", limit: 120/s, algorithm: proportional-share, lease: 60s, refresh: 8s}
  - {key: "static", limit: 100/s, algorithm: static, lease: 60s, refresh: 8s, learning: 0s}
  - {key: "none", limit: 100/s, algorithm: none, lease: 60s, refresh: 8s, learning: 0s}
  - {key: "short", limit: 100/s, algorithm: fair-share, lease: 4s, refresh: 500ms, learning: 0s, recalculate: 0s}
  - {key: "one-band", limit: 120/s, algorithm: fair-share, lease: 60s, refresh: 8s, learning: 0s, one_band: true}
  - {key: "safe", limit: 100/s, algorithm: fair-share, lease: 60s, refresh: 8s, learning: 0s, fallback: safe, safe_capacity: 5/s}
  - {key: "subsecond", limit: 100/s, algorithm: fair-share, lease: 600ms, refresh: 300ms, learning: 0s, recalculate: 0s}
  - {key: "deep*", limit: 100/s, algorithm: fair-share, lease: 60s, refresh: 8s, learning: 0s}
`

// conformance is what a client written from the wire contract alone may
// expect. It runs against a small ledger and against real nodes.
var conformance = map[string]func(t *testing.T, w *world){
	"discovery names who was asked":                     discovery,
	"leases have ends in whole seconds":                 wholeSeconds,
	"fair share":                                        fairShare,
	"proportional share, one by one":                    oneByOne,
	"proportional share":                                proportionalShare,
	"static and none":                                   staticAndNone,
	"many resources in one request":                     manyResources,
	"a new owner hands back what clients have":          learning,
	"a change of kind does not end or prolong learning": kindWhileLearning,
	"what one says to have by an old lease is nobody":   expiredHas,
	"released capacity is free":                         release,
	"capacity of the silent is free after the lease":    expiry,
	"unknown resources get what they ask":               unknown,
	"asking within five seconds changes nothing":        fiveSeconds,
	"higher priorities first":                           priorities,
	"one band, whatever the priorities":                 oneBand,
	"servers downstream, by subclients":                 subclients,
	"servers downstream, by band":                       serverBands,
	"servers downstream know how to share":              serverAlgorithm,
	"a restart keeps the tree's grants":                 serverRestart,
	"a restart keeps what servers do not say they have": serverOfOld,
	"servers downstream, what is safe":                  serverSafe,
	"a short lease ends later than it begins":           shortLease,
	"a server is not the client of its name":            namesakes,
	"globs match slashes":                               slashes,
	"shrunk capacity is never below zero":               shrunk,
}

func TestConformanceOnLoopback(t *testing.T) {
	for name, check := range conformance {
		t.Run(name, func(t *testing.T) { check(t, onLoopback(t, limits)) })
	}
}

func discovery(t *testing.T, w *world) {
	response, err := w.client.Discovery(t.Context(), &doormanpb.DiscoveryRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if !response.GetIsMaster() || response.GetMastership().GetMasterAddress() != w.address {
		t.Errorf("%v, want master %s", response, w.address)
	}
}

func wholeSeconds(t *testing.T, w *world) {
	r := w.get("a", "fair", 10, nil)
	if got, want := r.GetGets().GetExpiryTime(), w.now().Add(time.Minute).Unix(); got != want {
		t.Errorf("ends at %d, want %d", got, want)
	}
	if r.GetGets().GetRefreshInterval() != 8 || r.GetGets().GetCapacity() != 10 {
		t.Errorf("gets %v", r.GetGets())
	}
	if r.SafeCapacity == nil || r.GetSafeCapacity() != 120 {
		t.Errorf("safe: %v, want 120 by the only client", r.SafeCapacity)
	}
	if r = w.get("b", "fair", 10, nil); r.GetSafeCapacity() != 60 {
		t.Errorf("safe: %v, want 60 each by two clients", r.GetSafeCapacity())
	}
	r = w.get("a", "short", 10, nil)
	if r.GetGets().GetRefreshInterval() != 1 {
		t.Errorf("refresh after %d s; 0 would be a busy loop", r.GetGets().GetRefreshInterval())
	}
	if ends := time.Unix(r.GetGets().GetExpiryTime(), 0); ends.After(w.now().Add(4*time.Second)) || !ends.After(w.now().Add(3*time.Second)) {
		t.Errorf("a lease of 4s at %v ends at %v: later than the owner's, or more than a second before", w.now(), ends)
	}
}

// settles wants the clients to have this at most so many refreshes later, and
// never more than capacity together on the way.
func settles(t *testing.T, c *crowd, capacity float64, want map[string]float64) {
	t.Helper()
	for range 6 {
		c.refresh(1)
		if c.sum() > capacity+1e-6 {
			t.Fatalf("leased %v of %v", c.sum(), capacity)
		}
	}
	for name, amount := range want {
		if got := c.has[name].GetCapacity(); !near(got, amount) {
			t.Errorf("%s wants %v, gets %v; want %v", name, c.wants[name], got, amount)
		}
	}
}

func fairShare(t *testing.T, w *world) {
	settles(t, w.crowd("fair", map[string]float64{"a": 1000, "b": 60, "c": 10}), 120, map[string]float64{"a": 55, "b": 55, "c": 10})
	settles(t, w.crowd("fair-1000", map[string]float64{"a": 100, "b": 100, "c": 100, "d": 100, "e": 1000, "f": 2000}), 1000,
		map[string]float64{"a": 100, "b": 100, "c": 100, "d": 100, "e": 300, "f": 300})
}

func oneByOne(t *testing.T, w *world) {
	for _, row := range []struct {
		name        string
		wants, gets float64
	}{{"a", 60, 60}, {"b", 75, 60}, {"c", 10, 0}} {
		if got := w.get(row.name, "proportional", row.wants, nil).GetGets().GetCapacity(); !near(got, row.gets) {
			t.Errorf("%s wants %v, gets %v; want %v", row.name, row.wants, got, row.gets)
		}
	}
}

func proportionalShare(t *testing.T, w *world) {
	settles(t, w.crowd("proportional", map[string]float64{"a": 1000, "b": 50, "c": 10}), 120,
		map[string]float64{"a": 69.690721649, "b": 40.309278351, "c": 10})
	settles(t, w.crowd("proportional-100", map[string]float64{"a": 10, "b": 10, "c": 10, "d": 10, "e": 500, "f": 1000}), 100,
		map[string]float64{"a": 10, "b": 10, "c": 10, "d": 10, "e": 25.454545455, "f": 34.545454545})
}

func staticAndNone(t *testing.T, w *world) {
	settles(t, w.crowd("static", map[string]float64{"a": 100, "b": 10, "c": 120}), 210, map[string]float64{"a": 100, "b": 10, "c": 100})
	settles(t, w.crowd("none", map[string]float64{"a": 10, "b": 100}), 110, map[string]float64{"a": 10, "b": 100})
}

func manyResources(t *testing.T, w *world) {
	request := &doormanpb.GetCapacityRequest{ClientId: new("a")}
	names := []string{"fair", "nobody-knows-it", "static", "proportional", "fair-1000"}
	for i, name := range names {
		request.Resource = append(request.Resource, &doormanpb.ResourceRequest{ResourceId: &name, Priority: new(int64(0)), Wants: new(float64(i + 1))})
	}
	response, err := w.client.GetCapacity(t.Context(), request)
	if err != nil || len(response.GetResponse()) != len(names) {
		t.Fatal(response, err)
	}
	for i, r := range response.GetResponse() {
		if r.GetResourceId() != names[i] || r.GetGets().GetCapacity() != float64(i+1) {
			t.Errorf("answer %d: %v", i, r)
		}
	}
	empty, err := w.client.GetCapacity(t.Context(), &doormanpb.GetCapacityRequest{ClientId: new("a")})
	if err != nil || len(empty.GetResponse()) != 0 {
		t.Errorf("asked for nothing: %v %v", empty, err)
	}
}

func learning(t *testing.T, w *world) {
	for _, resource := range []string{"fair-learns", "proportional-learns"} {
		w.restart()
		later := w.now().Add(time.Minute)
		for _, row := range []struct {
			name             string
			wants, has, gets float64
		}{{"a", 30, 20, 20}, {"b", 90, 90, 90}, {"c", 50, 0, 0}} {
			var has *doormanpb.Lease
			if row.has > 0 {
				has = lease(row.has, later)
			}
			if got := w.get(row.name, resource, row.wants, has).GetGets().GetCapacity(); got != row.gets {
				t.Errorf("%s: %s wants %v has %v, gets %v; want %v", resource, row.name, row.wants, row.has, got, row.gets)
			}
		}
		w.pass(61 * time.Second)
		if got := w.get("a", resource, 30, nil).GetGets().GetCapacity(); got != 30 {
			t.Errorf("%s: after learning gets %v, want 30", resource, got)
		}
	}
}

// In Doorman, learning ends at a time that follows from when the master was elected.
func kindWhileLearning(t *testing.T, w *world) {
	for _, from := range []string{"fair-share", "proportional-share", "static", "none"} {
		for _, to := range []string{"fair-share", "proportional-share", "static", "none"} {
			w.configure(strings.Replace(limits, `"fair-learns", limit: 120/s, algorithm: fair-share`, `"fair-learns", limit: 120/s, algorithm: `+from, 1))
			w.restart()
			later := w.now().Add(10 * time.Minute)
			w.get("a", "fair-learns", 30, lease(20, later))
			w.pass(25 * time.Second)
			w.configure(strings.Replace(limits, `"fair-learns", limit: 120/s, algorithm: fair-share`, `"fair-learns", limit: 120/s, algorithm: `+to, 1))
			w.pass(25 * time.Second)
			if got := w.get("a", "fair-learns", 30, lease(20, later)).GetGets().GetCapacity(); got != 20 {
				t.Errorf("%s to %s: after 50 of 60 s it has 20 and gets %v", from, to, got)
			}
			w.pass(15 * time.Second)
			if got := w.get("a", "fair-learns", 30, lease(20, later)).GetGets().GetCapacity(); got != 30 {
				t.Errorf("%s to %s: after 65 of 60 s it wants 30 and gets %v", from, to, got)
			}
		}
	}
}

func expiredHas(t *testing.T, w *world) {
	w.restart()
	for _, ends := range []time.Time{w.now(), w.now().Add(-time.Hour), time.Unix(0, 0), time.Unix(math.MinInt64, 0)} {
		if got := w.get("a", "fair-learns", 30, lease(20, ends)).GetGets().GetCapacity(); got != 0 {
			t.Errorf("a lease that ended at %v brings %v", ends, got)
		}
	}
}

func release(t *testing.T, w *world) {
	w.get("a", "fair", 120, nil)
	if got := w.get("b", "fair", 100, nil).GetGets().GetCapacity(); got != 0 {
		t.Errorf("all is leased, and b gets %v", got)
	}
	w.release("a", "", "fair", "fair", "never-asked-for")
	w.pass(6 * time.Second)
	if got := w.get("b", "fair", 100, nil).GetGets().GetCapacity(); got != 100 {
		t.Errorf("all is released, and b gets %v", got)
	}
	w.release("a", "fair") // again
	w.release("never-seen", "fair")
	w.release("a", "")
	w.release("a")
	w.pass(6 * time.Second)
	if got := w.get("c", "fair", 100, nil).GetGets().GetCapacity(); got != 20 {
		t.Errorf("b has 100 of 120, and c gets %v", got)
	}
}

func expiry(t *testing.T, w *world) {
	w.get("dead", "fair", 120, nil)
	alive := w.get("alive", "fair", 120, nil)
	for range 9 {
		w.pass(8 * time.Second)
		alive = w.get("alive", "fair", 120, alive.GetGets())
	}
	if alive.GetGets().GetCapacity() != 120 {
		t.Errorf("after 72s the dead client's lease of 60s still counts: %v", alive)
	}
}

func unknown(t *testing.T, w *world) {
	for _, wants := range []float64{0, 1, 12345.5} {
		r := w.get("a", "nobody-knows-it", wants, nil)
		if r.GetGets().GetCapacity() != wants || r.GetGets().GetExpiryTime() <= w.now().Unix() || r.GetGets().GetRefreshInterval() < 1 || r.SafeCapacity != nil {
			t.Errorf("wants %v, gets %v", wants, r)
		}
	}
	if n := w.counters()["doorman.resources_unknown"]; n != 3 {
		t.Errorf("%d unknown resources were counted", n)
	}
}

func fiveSeconds(t *testing.T, w *world) {
	first := w.get("a", "fair", 10, nil)
	w.pass(4 * time.Second)
	second := w.get("a", "fair", 80, first.GetGets())
	if second.GetGets().GetCapacity() != 10 {
		t.Errorf("4s later gets %v, want the same 10", second.GetGets().GetCapacity())
	}
	w.pass(2 * time.Second)
	if third := w.get("a", "fair", 80, second.GetGets()); third.GetGets().GetCapacity() != 80 {
		t.Errorf("6s later gets %v, want 80", third.GetGets().GetCapacity())
	}
}

func priorities(t *testing.T, w *world) {
	has := make(map[string]*doormanpb.Lease)
	for range 6 {
		for _, row := range []struct {
			name     string
			priority int64
			wants    float64
		}{{"low", -5, 100}, {"high", 10, 70}, {"middle", 0, 40}} {
			has[row.name] = w.getAt(row.name, "fair", row.priority, row.wants, has[row.name]).GetGets()
		}
		w.pass(8 * time.Second)
	}
	if h, m, l := has["high"].GetCapacity(), has["middle"].GetCapacity(), has["low"].GetCapacity(); !near(h, 70) || !near(m, 40) || !near(l, 10) {
		t.Errorf("high %v, middle %v, low %v; want 70, 40, 10", h, m, l)
	}
}

// Servers of 2016 ask with priority 1 for clients that say 0.
func oneBand(t *testing.T, w *world) {
	var direct, server *doormanpb.Lease
	for range 6 {
		server = w.getServer("x", "one-band", server, [3]float64{1, 2, 1000}).GetGets()
		direct = w.getAt("a", "one-band", 0, 1000, direct).GetGets()
		w.pass(8 * time.Second)
	}
	if !near(server.GetCapacity(), 80) || !near(direct.GetCapacity(), 40) {
		t.Errorf("a server with two clients has %v, and a client has %v; want 80 and 40", server.GetCapacity(), direct.GetCapacity())
	}
}

// subclients is max-min by what each server speaks for, exactly.
func subclients(t *testing.T, w *world) {
	for _, row := range []struct {
		resource string
		servers  map[string][3]float64
		want     map[string]float64
	}{
		{"fair-1000", map[string][3]float64{"x": {0, 10, 2000}, "y": {0, 10, 500}, "z": {0, 30, 700}}, map[string]float64{"x": 200, "y": 200, "z": 600}},
		{"deep-down", map[string][3]float64{"x": {0, 10, 1000}, "y": {0, 1, 30}}, map[string]float64{"x": 1000. / 11, "y": 100. / 11}},
	} {
		has := make(map[string]*doormanpb.Lease)
		for range 6 {
			for _, name := range []string{"x", "y", "z"} {
				if band, ok := row.servers[name]; ok {
					has[name] = w.getServer(name, row.resource, has[name], band).GetGets()
				}
			}
			w.pass(8 * time.Second)
		}
		for name, want := range row.want {
			if got := has[name].GetCapacity(); !near(got, want) {
				t.Errorf("%s: %s gets %v, want %v", row.resource, name, got, want)
			}
		}
	}
}

func serverBands(t *testing.T, w *world) {
	var x, y *doormanpb.Lease
	for range 6 {
		x = w.getServer("x", "fair", x, [3]float64{10, 2, 50}, [3]float64{0, 1, 100}).GetGets()
		y = w.getServer("y", "fair", y, [3]float64{0, 3, 300}, [3]float64{10, 1, 30}).GetGets()
		w.pass(8 * time.Second)
	}
	// Band 10 takes 50 and 30; the 40 that are left go 1:3 by clients.
	if !near(x.GetCapacity(), 60) || !near(y.GetCapacity(), 60) {
		t.Errorf("x %v, y %v; want 50+10 and 30+30", x.GetCapacity(), y.GetCapacity())
	}
	if idle := w.getServer("idle", "fair", nil); idle.GetGets().GetCapacity() != 0 {
		t.Errorf("wants nothing, gets %v", idle)
	}
}

func serverAlgorithm(t *testing.T, w *world) {
	for resource, kind := range map[string]doormanpb.Algorithm_Kind{
		"fair-learns": doormanpb.Algorithm_FAIR_SHARE, "proportional": doormanpb.Algorithm_PROPORTIONAL_SHARE,
		"static": doormanpb.Algorithm_STATIC, "none": doormanpb.Algorithm_NO_ALGORITHM, "nobody-knows-it": doormanpb.Algorithm_NO_ALGORITHM,
	} {
		r := w.getServer("x", resource, nil, [3]float64{0, 1, 10})
		a := r.GetAlgorithm()
		if a.GetKind() != kind {
			t.Errorf("%s: %v, want %v", resource, a.GetKind(), kind)
		}
		own := time.Unix(r.GetGets().GetExpiryTime(), 0).Sub(w.now()).Seconds()
		if last := float64(r.GetGets().GetRefreshInterval() + a.GetLeaseLength()); a.GetLeaseLength() < 30 || last > own+1 {
			t.Errorf("%s: leases of %d s, given out until the server's next refresh, end after %v s; its own after %v", resource, a.GetLeaseLength(), last, own)
		}
		if a.GetRefreshInterval() != r.GetGets().GetRefreshInterval()/2 {
			t.Errorf("%s: clients refresh every %d s, their server every %d; want half", resource, a.GetRefreshInterval(), r.GetGets().GetRefreshInterval())
		}
		if resource == "fair-learns" && a.GetLearningModeDuration() != 60 {
			t.Errorf("%s: learns for %v", resource, a.LearningModeDuration)
		}
		if resource == "static" && (a.LearningModeDuration == nil || a.GetLearningModeDuration() != 0) {
			t.Errorf("%s: learns for %v, the rule says not at all", resource, a.LearningModeDuration)
		}
	}
}

func serverRestart(t *testing.T, w *world) {
	has := lease(80, w.now().Add(time.Minute))
	w.restart()
	if got := w.getServer("x", "fair-learns", has, [3]float64{0, 5, 100}).GetGets().GetCapacity(); got != 80 {
		t.Errorf("the owner restarted, and x has %v of its 80", got)
	}
	if got := w.getServer("y", "fair-learns", nil, [3]float64{0, 5, 100}).GetGets().GetCapacity(); got > 40 {
		t.Errorf("y gets %v of the 40 that nobody has", got)
	}
}

// A server of 2016 does not say what it has. The edge that told it knows.
func serverOfOld(t *testing.T, w *world) {
	w.getServer("x", "fair-learns", nil, [3]float64{1, 5, 80})
	w.pass(time.Minute)
	if got := w.getServer("x", "fair-learns", nil, [3]float64{1, 5, 80}).GetGets().GetCapacity(); got != 80 {
		t.Fatalf("x gets %v of the 80 that it wants", got)
	}
	w.restart()
	for range 3 {
		w.pass(8 * time.Second)
		if got := w.getServer("x", "fair-learns", nil, [3]float64{1, 5, 80}).GetGets().GetCapacity(); got != 80 {
			t.Errorf("the owner restarted, and x has %v of its 80", got)
		}
		if got := w.getServer("y", "fair-learns", nil, [3]float64{1, 5, 80}).GetGets().GetCapacity(); got != 0 {
			t.Errorf("the owner learns, and y, which is new, gets %v", got)
		}
	}
}

// A server of 2016 gives each of its clients the safe capacity that it is told.
func serverSafe(t *testing.T, w *world) {
	if got := w.getServer("x", "safe", nil, [3]float64{1, 8, 60}, [3]float64{0, 2, 10}).GetSafeCapacity(); got != 5 {
		t.Errorf("safe for each of 10 clients: %v, the rule says 5", got)
	}
	w.getServer("x", "fair", nil, [3]float64{0, 10, 60})
	w.get("a", "fair", 10, nil)
	w.get("b", "fair", 10, nil)
	if got := w.getServer("x", "fair", nil, [3]float64{0, 10, 60}).GetSafeCapacity(); !near(got, 10) {
		t.Errorf("safe for each of 12 clients of 120: %v", got)
	}
}

func shortLease(t *testing.T, w *world) {
	for range 5 {
		if got := w.get("a", "subsecond", 10, nil); got.GetGets().GetExpiryTime() <= w.now().Unix() || got.GetGets().GetExpiryTime() > w.now().Unix()+1 {
			t.Errorf("at %v: %v", w.now(), got)
		}
		w.pass(300 * time.Millisecond)
	}
}

func namesakes(t *testing.T, w *world) {
	w.get("x", "fair", 60, nil)
	w.getServer("x", "fair", nil, [3]float64{0, 1, 60})
	if got := w.get("y", "fair", 60, nil).GetGets().GetCapacity(); got != 0 {
		t.Errorf("client x and server x have 60 of 120 each, and y gets %v", got)
	}
	w.release("x", "fair")
	w.pass(6 * time.Second)
	if got := w.get("y", "fair", 60, nil).GetGets().GetCapacity(); got != 60 {
		t.Errorf("client x released its 60, and y gets %v", got)
	}
	w.pass(6 * time.Second)
	if got := w.get("z", "fair", 60, nil).GetGets().GetCapacity(); got != 0 {
		t.Errorf("server x released nothing, and z gets %v", got)
	}
}

func slashes(t *testing.T, w *world) {
	for _, resource := range []string{"deep/a/b", "deep/../x", "deep:é/\n", "deep" + strings.Repeat("/", 1000)} {
		if got := w.get("a", resource, 1000, nil).GetGets().GetCapacity(); got != 100 {
			t.Errorf("%.20q gets %v, want the rule's 100", resource, got)
		}
	}
}

func shrunk(t *testing.T, w *world) {
	c := w.crowd("proportional-100", map[string]float64{"a": 25, "b": 25, "c": 25, "d": 25})
	settles(t, c, 100, map[string]float64{"a": 25, "b": 25, "c": 25, "d": 25})
	w.configure(strings.Replace(limits, "limit: 100/s, algorithm: proportional-share", "limit: 40/s, algorithm: proportional-share", 1))
	before := c.sum()
	for range 8 {
		c.refresh(1)
		for name, l := range c.has {
			if l.GetCapacity() < 0 {
				t.Fatalf("%s has %v", name, l.GetCapacity())
			}
		}
		if c.sum() > before+1e-6 {
			t.Errorf("leased %v after %v: it grows while there is too little", c.sum(), before)
		}
		before = max(c.sum(), 40)
	}
	settles(t, c, 40, map[string]float64{"a": 10, "b": 10, "c": 10, "d": 10})
}
