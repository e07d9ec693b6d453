// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/usage"
)

// leased is an Aggregator with one rule, r, for all keys, as Doorman's examples
// have it unless r says otherwise: leases of 60 s, refreshed every 8 s, no learning.
func leased(t testing.TB, r dynamicconfig.Rule, options ...Option) *Aggregator {
	t.Helper()
	return New(algorithm.Builtin(), snapshot(t, cadence, terms(r)), options...)
}

func terms(r dynamicconfig.Rule) dynamicconfig.Rule {
	if r.Key == "" {
		r.Key = "*"
	}
	r.Lease, r.Refresh = 60*time.Second, 8*time.Second
	if r.Learning == 0 {
		r.Learning = dynamicconfig.None
	}
	return r
}

// wants is a claim for key k.
func wants(host string, has, wants float64) claims.Claim {
	return claims.Claim{Key: "k", Host: host, Has: has, Bands: []claims.Band{{Clients: 1, Wants: wants}}}
}

// claimed is what one claim gets.
func claimed(t testing.TB, a *Aggregator, now time.Duration, c claims.Claim) claims.Lease {
	t.Helper()
	asked := &claims.Claims{Rows: []claims.Claim{c}}
	if err := asked.Check(); err != nil {
		t.Fatal(err)
	}
	leases := a.Claim(now, asked)
	if err := leases.Check(1); err != nil {
		t.Fatalf("the answer to %+v: %v", c, err)
	}
	return leases.Rows[0]
}

func TestClaimsAreAnsweredAsDoormanDoes(t *testing.T) {
	type claim struct {
		host     string
		has      float64
		wants    float64
		clients  int64
		priority int64
		gets     float64
	}
	const s = time.Second
	for _, tt := range []struct {
		name     string
		rule     dynamicconfig.Rule
		claims   []claim
		interval time.Duration
	}{
		{"proportional, one by one", dynamicconfig.Rule{Limit: 120, Algorithm: "proportional-share"}, []claim{
			{"a", 0, 60, 1, 0, 60}, {"b", 0, 75, 1, 0, 60}, {"c", 0, 10, 1, 0, 0},
		}, 0},
		{"proportional, settled", dynamicconfig.Rule{Limit: 120, Algorithm: "proportional-share"}, []claim{
			{"a", 0, 60, 1, 0, 60},
			{"b", 0, 60, 1, 0, 60},
			{"c", 0, 10, 1, 0, 0},
			{"a", 60, 60, 1, 0, 55},
			{"b", 60, 60, 1, 0, 55},
			{"c", 0, 10, 1, 0, 10},
		}, 6 * s},
		{"fair, of unequal clients", dynamicconfig.Rule{Limit: 100, Algorithm: "fair-share"}, []claim{
			{"a", 0, 1000, 10, 0, 100},
			{"b", 0, 30, 1, 0, 0},
			{"a", 100, 1000, 10, 0, 1000.0 / 11},
			{"b", 0, 30, 1, 0, 100.0 / 11},
		}, 6 * s},
		{"none", dynamicconfig.Rule{Limit: 10, Algorithm: "none"}, []claim{{"a", 0, 100, 1, 0, 100}, {"b", 0, 10, 1, 0, 10}}, 0},
		{"static", dynamicconfig.Rule{Limit: 100, Algorithm: "static"}, []claim{{"a", 0, 120, 1, 0, 100}, {"b", 0, 10, 1, 0, 10}, {"c", 0, 100, 1, 0, 100}}, 0},
		{"five seconds", dynamicconfig.Rule{Limit: 100, Algorithm: "fair-share"}, []claim{
			{"a", 0, 50, 1, 0, 50}, {"a", 50, 80, 1, 0, 50}, {"a", 50, 80, 1, 0, 50}, {"a", 50, 80, 1, 0, 80},
		}, 2 * s},
		{"not so often", dynamicconfig.Rule{Limit: 100, Algorithm: "fair-share", Recalculate: dynamicconfig.None}, []claim{
			{"a", 0, 50, 1, 0, 50}, {"a", 50, 80, 1, 0, 80},
		}, 0},
		{"higher bands first", dynamicconfig.Rule{Limit: 100, Algorithm: "fair-share"}, []claim{
			{"low", 0, 80, 1, 0, 80}, {"high", 0, 90, 1, 5, 20}, {"low", 80, 80, 1, 0, 10}, {"high", 20, 90, 1, 5, 90},
		}, 6 * s},
		{"a way of its own within a band", dynamicconfig.Rule{
			Limit: 100, Algorithm: "fair-share", Priorities: map[int64]string{1: "proportional-share"}, Recalculate: dynamicconfig.None, Overcommit: 1,
		}, []claim{
			{"a", 0, 40, 1, 1, 40}, {"b", 0, 100, 1, 1, 60}, {"c", 0, 100, 1, 1, 100.0/3 + 0}, {"b", 0, 100, 1, 1, 100.0 / 3},
		}, 0},
		{"slots are whole", dynamicconfig.Rule{Limit: 10, InFlight: true, Algorithm: "fair-share", Recalculate: dynamicconfig.None}, []claim{
			{"a", 0, 7, 1, 0, 7}, {"b", 0, 8, 1, 0, 3}, {"a", 7, 7, 1, 0, 5}, {"b", 3, 8, 1, 0, 3}, {"a", 5, 7, 1, 0, 5}, {"b", 3, 8, 1, 0, 5},
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := leased(t, tt.rule)
			for i, c := range tt.claims {
				got := claimed(t, a, time.Duration(i)*tt.interval, claims.Claim{
					Key: "k", Host: c.host, Has: c.has, Bands: []claims.Band{{Priority: c.priority, Clients: c.clients, Wants: c.wants}},
				})
				if tt.name == "a way of its own within a band" && i >= 2 {
					continue // proportional share's own tests have the numbers
				}
				if !near(got.Amount, c.gets) || got.Lasts != 60*s || got.Refresh != 8*s || got.Refused != "" {
					t.Errorf("claim %d, %+v: got %+v", i, c, got)
				}
			}
		})
	}
}

func TestANewOwnerHandsBackWhatHostsHave(t *testing.T) {
	a := leased(t, dynamicconfig.Rule{Limit: 120, Algorithm: "fair-share", Learning: 30 * time.Second})
	a.Moved(100 * time.Second)
	for _, tt := range []struct {
		at       time.Duration
		c        claims.Claim
		gets     float64
		learning bool
	}{
		{100, wants("a", 20, 30), 20, true},
		{101, wants("b", 90, 90), 90, true},
		{102, wants("new", 0, 50), 0, true},
		{131, wants("b", 90, 90), 45, false},
		{132, wants("a", 20, 30), 30, false},
		{133, wants("new", 0, 50), 45, false},
	} {
		got := claimed(t, a, tt.at*time.Second, tt.c)
		if !near(got.Amount, tt.gets) || got.Learning != tt.learning || got.Learns != 30*time.Second {
			t.Errorf("at %d s %s wants %v has %v: got %+v, want %v", tt.at, tt.c.Host, tt.c.Bands[0].Wants, tt.c.Has, got, tt.gets)
		}
	}
	if got := claimed(t, a, 140*time.Second, claims.Claim{Key: "another", Host: "a", Bands: []claims.Band{{Clients: 1, Wants: 5}}}); got.Amount != 5 || got.Learning {
		t.Errorf("a key that appears after the owner's learning: %+v", got)
	}
}

// While an owner learns, no host can say that it has more than the rule's limit leaves.
func TestWhatHostsSayThatTheyHaveIsBounded(t *testing.T) {
	for _, inFlight := range []bool{false, true} {
		a := leased(t, dynamicconfig.Rule{Limit: 120, InFlight: inFlight, Algorithm: "fair-share", Learning: 30 * time.Second})
		a.Moved(0)
		for _, tt := range []struct {
			host      string
			has, gets float64
		}{{"a", 20, 20}, {"liar", 1e9, 100}, {"b", 90, 0}} {
			if got := claimed(t, a, time.Second, wants(tt.host, tt.has, 50)); got.Amount != tt.gets {
				t.Errorf("in flight %v: %s, which has %v, gets %+v, want %v", inFlight, tt.host, tt.has, got, tt.gets)
			}
		}
	}
}

// Hosts hear of a new owner before it does. Once one of them says that it has a lease, the
// owner learns what the others have, and does not lease that a second time.
func TestAnOwnerThatHearsLateOfTheRingLearns(t *testing.T) {
	a := leased(t, dynamicconfig.Rule{Limit: 120, Algorithm: "fair-share", Learning: 30 * time.Second})
	a.Moved(-time.Hour)
	for _, tt := range []struct {
		at       time.Duration
		c        claims.Claim
		gets     float64
		learning bool
	}{
		{0, wants("a", 20, 120), 20, true},
		{1, wants("new", 0, 120), 0, true},
		{2, wants("b", 90, 120), 90, true},
		{31, wants("a", 20, 120), 30, false},
		{32, wants("new", 0, 120), 0, false},
		{33, wants("b", 90, 120), 40, false},
	} {
		if got := claimed(t, a, tt.at*time.Second, tt.c); !near(got.Amount, tt.gets) || got.Learning != tt.learning {
			t.Errorf("at %d s %s: %+v, want %v, learning %v", tt.at, tt.c.Host, got, tt.gets, tt.learning)
		}
	}
	// A key without leases is leased at once, and so is one whose rule learns nothing.
	b := leased(t, dynamicconfig.Rule{Limit: 120, Algorithm: "fair-share", Learning: 30 * time.Second})
	b.Moved(-time.Hour)
	none := leased(t, dynamicconfig.Rule{Limit: 120, Algorithm: "fair-share"})
	if new, old := claimed(t, b, 0, wants("a", 0, 120)), claimed(t, none, 0, wants("a", 20, 120)); new.Amount != 120 || old.Amount != 120 {
		t.Errorf("%+v and %+v, want all of it", new, old)
	}
}

// All hosts report within an interval, so an owner that they tell of grants learns no longer.
func TestHostsThatReportAreLearntInAnInterval(t *testing.T) {
	a := leased(t, dynamicconfig.Rule{Limit: 100, Algorithm: "fair-share", Learning: 30 * time.Second})
	a.Moved(-time.Hour)
	report := func(at time.Duration, host string, has float64) *usage.Grants {
		u := reportOf("fair-share", 100, 0, time.Second, "k")
		u.Weight[0] = has
		return step(t, a, at, host, u)
	}
	for _, tt := range []struct {
		at         time.Duration
		host       string
		has, gets  float64
		goesOnElse bool
	}{
		{0, "a", 0.3, 0.3, false},
		{0, "new", 0, 0, true},
		{0, "b", 0.6, 0.6, false},
		{cadence.UpdateInterval, "a", 0.3, 1. / 3, false},
		{cadence.UpdateInterval, "b", 0.6, 1. / 3, false},
		{cadence.UpdateInterval, "new", 0, 1. / 3, false},
	} {
		if g := report(tt.at, tt.host, tt.has); !near(g.Weight[0], tt.gets) || (g.Lease[0] == 0) != tt.goesOnElse {
			t.Errorf("at %v %s: %+v, want %v", tt.at, tt.host, g, tt.gets)
		}
	}
}

func TestAReleaseIsForOthersAtOnce(t *testing.T) {
	a := leased(t, dynamicconfig.Rule{Limit: 100, Algorithm: "fair-share"})
	claimed(t, a, 0, wants("a", 0, 100))
	if got := claimed(t, a, 0, wants("b", 0, 100)); got.Amount != 0 {
		t.Fatalf("handed out twice: %+v", got)
	}
	for range 2 { // again, and by nobody
		if got := claimed(t, a, time.Second, claims.Claim{Key: "k", Host: "a", Release: true}); got != (claims.Lease{}) {
			t.Errorf("the answer to a release is %+v", got)
		}
	}
	claimed(t, a, time.Second, claims.Claim{Key: "never seen", Host: "a", Release: true})
	if got := claimed(t, a, 6*time.Second, wants("b", 0, 100)); got.Amount != 100 {
		t.Errorf("what was released is not there: %+v", got)
	}
	if n := a.keys.Len(); n != 1 {
		t.Errorf("%d keys: a release made one", n)
	}
}

// Doorman's clients are told what the rule says; a decider below that waits for
// what others hold may ask while they come to give it back.
func TestWhoIsShortIsToldToAskSoon(t *testing.T) {
	for _, tt := range []struct {
		name        string
		recalculate time.Duration
		below       bool
		want        time.Duration
	}{
		{"a client", dynamicconfig.None, false, 8 * time.Second},
		{"a decider below", dynamicconfig.None, true, 2 * time.Second},
		{"where the answer would be the same", 5 * time.Second, true, 5 * time.Second},
	} {
		a := leased(t, dynamicconfig.Rule{Limit: 100, Algorithm: "fair-share", Recalculate: tt.recalculate})
		first, second := wants("a", 0, 100), wants("b", 0, 100)
		first.Headroom, second.Headroom = tt.below, tt.below
		if l := claimed(t, a, 0, first); l.Refresh != 8*time.Second {
			t.Errorf("%s that is not short is to refresh after %v", tt.name, l.Refresh)
		}
		if l := claimed(t, a, 0, second); l.Amount != 0 || l.Refresh != tt.want {
			t.Errorf("%s gets %+v, and is to refresh after %v", tt.name, l, tt.want)
		}
		claimed(t, a, 8*time.Second, first)
		if l := claimed(t, a, 8*time.Second, second); l.Amount != 50 || l.Refresh != 8*time.Second {
			t.Errorf("%s gets %+v when the other has given it back", tt.name, l)
		}
	}
}

func TestOnlyWhatWasMeasuredHasHeadroom(t *testing.T) {
	a := leased(t, dynamicconfig.Rule{Limit: 1000, Algorithm: "proportional-share"})
	below := wants("eu-west", 0, 100)
	below.Headroom = true
	if l := claimed(t, a, 0, below); !near(l.Amount, 110+890/2) {
		t.Errorf("a decider below that wants 100 gets %+v, and no other decider wants anything", l)
	}
	if l := claimed(t, a, 0, wants("client", 0, 100)); l.Amount != 100 {
		t.Errorf("a client that wants 100 gets %+v", l)
	}
	if g := step(t, a, 0, "host", reportOf("proportional-share", 100, 0, time.Second, "k")); !near(g.Weight[0], 0.11) {
		t.Errorf("a host that wants 100 gets %+v", g)
	}
	claimed(t, a, 0, wants("another", 0, 400))
	if l := claimed(t, a, 8*time.Second, below); !near(l.Amount, 110) {
		t.Errorf("a decider below that wants 100 gets %+v when more than half is wanted", l)
	}
}

func TestALeaseEndsByItself(t *testing.T) {
	a := leased(t, dynamicconfig.Rule{Limit: 100, Algorithm: "fair-share"})
	claimed(t, a, 0, wants("dead", 0, 100))
	claimed(t, a, time.Second, wants("b", 0, 100))
	if got := claimed(t, a, 59*time.Second, wants("b", 0, 100)); got.Amount != 0 {
		t.Errorf("before its end: %+v", got)
	}
	if got := claimed(t, a, 65*time.Second, wants("b", 0, 100)); got.Amount != 100 {
		t.Errorf("after its end: %+v", got)
	}
	a.GC(1000 * time.Second)
	if a.keys.Len() != 0 || a.keys.Hosts.Len() != 0 {
		t.Errorf("%d keys and %d hosts are left", a.keys.Len(), a.keys.Hosts.Len())
	}
}

func TestWhatClaimsSayAboutKeysThatAreNotLeased(t *testing.T) {
	a := leased(t, dynamicconfig.Rule{Key: "k", Limit: 100, Algorithm: "elastic"})
	if got := claimed(t, a, 0, wants("a", 0, 1)); !strings.Contains(got.Refused, "fair-share") || got.Amount != 0 {
		t.Errorf("an algorithm that does not lease: %+v", got)
	}
	c := wants("a", 0, 70)
	c.Key = "nobody's"
	if got := claimed(t, a, 0, c); got.Amount != 70 || !got.Unknown || got.Lasts <= 0 {
		t.Errorf("no rule: %+v", got)
	}
	released := c
	released.Release = true
	if got := claimed(t, a, 0, released); got != (claims.Lease{Unknown: true}) {
		t.Errorf("no rule, and released: %+v", got)
	}
	deny, err := dynamicconfig.Config{Properties: cadence, Rules: []dynamicconfig.Rule{{Key: "k", Limit: 1}}, Unmatched: dynamicconfig.UnmatchedDeny}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Configure(deny); err != nil {
		t.Fatal(err)
	}
	if got := claimed(t, a, 0, c); got.Amount != 0 || got.Refused == "" {
		t.Errorf("no rule, and that denies: %+v", got)
	}
}

// A host that claims keys that are decided elsewhere cannot fill the log with failures.
func TestKeysThatNoRegistryDecidesFailNobody(t *testing.T) {
	a, log := custom(t, cadence, onAverage(new(counting).weigh))
	for _, name := range []string{"exact", "even", "gossip"} {
		if err := a.Configure(snapshot(t, cadence, terms(dynamicconfig.Rule{Limit: 10, Algorithm: name}))); err != nil {
			t.Fatal(err)
		}
		if got := claimed(t, a, 0, wants("a", 0, 1)); got.Amount != 0 || !strings.Contains(got.Refused, name+" hands out no leases") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if text := log.String(); text != "" {
		t.Errorf("logged %s", text)
	}
}

func TestAnAlgorithmThatCannotBeBuiltLeasesNothing(t *testing.T) {
	a, log := custom(t, cadence, onAverage(new(counting).weigh))
	if err := a.Configure(snapshot(t, cadence, terms(dynamicconfig.Rule{Limit: 10, Algorithm: "fair-share", Parameters: map[string]string{"vavavoom": "11"}}))); err != nil {
		t.Fatal(err)
	}
	if got := claimed(t, a, 0, wants("a", 0, 1000)); got.Lasts != 0 || !strings.Contains(got.Refused, "parameters") {
		t.Errorf("got %+v", got)
	}
	if text := log.String(); !strings.Contains(text, "vavavoom") {
		t.Errorf("the log does not say why: %s", text)
	}
	elastic := snapshot(t, cadence, terms(dynamicconfig.Rule{Limit: 10, Algorithm: "elastic", Parameters: map[string]string{"overcommit": "1"}}))
	if err := a.Configure(elastic); err != nil {
		t.Fatal(err)
	}
	step(t, a, time.Second, "a", reportOf("elastic", 1, 0, time.Second, "other"))
}

// Hosts that report usage and hosts that claim share one account.
func TestUsageAndClaimsShareACapacity(t *testing.T) {
	a := leased(t, dynamicconfig.Rule{Limit: 100, Algorithm: "fair-share"})
	claimed(t, a, 0, wants("client", 0, 60))
	u := reportOf("fair-share", 0, 0, time.Second, "k")
	u.Wants = []float64{80}
	if g := step(t, a, time.Second, "host", u); !near(g.Weight[0], 0.4) || g.Lease[0] != time.Minute || g.Tokens != nil {
		t.Errorf("a host beside a client of 60 gets %+v", g)
	}
	if got := claimed(t, a, 6*time.Second, wants("client", 60, 60)); !near(got.Amount, 50) {
		t.Errorf("the client gets %v", got.Amount)
	}
	if g := step(t, a, 7*time.Second, "host", u); !near(g.Weight[0], 0.5) {
		t.Errorf("then the host gets %+v", g)
	}
}

func TestWhatIsSafeIsWhatTheFallbackSays(t *testing.T) {
	for _, tt := range []struct {
		rule dynamicconfig.Rule
		safe float64
	}{
		{dynamicconfig.Rule{}, 50},
		{dynamicconfig.Rule{Fallback: dynamicconfig.FallbackClosed}, 0},
		{dynamicconfig.Rule{Fallback: dynamicconfig.FallbackOpen}, 100},
		{dynamicconfig.Rule{Fallback: dynamicconfig.FallbackSafe, SafeCapacity: 7}, 7},
	} {
		tt.rule.Limit, tt.rule.Algorithm = 100, "fair-share"
		a := leased(t, tt.rule)
		claimed(t, a, 0, wants("a", 0, 1))
		if got := claimed(t, a, 0, wants("b", 0, 1)); got.Safe != tt.safe {
			t.Errorf("%+v: safe is %v", tt.rule, got.Safe)
		}
	}
}

func TestTooManyHostsOfAKeyAreRefusedWithAReason(t *testing.T) {
	p := cadence
	p.MaxHostsPerKey, p.MaxKeys = 2, 1
	a := New(algorithm.Builtin(), snapshot(t, p, terms(dynamicconfig.Rule{Limit: 100, Algorithm: "fair-share"})))
	for i, room := range []bool{true, true, false} {
		if got := claimed(t, a, 0, wants(fmt.Sprint(i), 0, 1)); (got.Refused == "") != room {
			t.Errorf("host %d: %+v", i, got)
		}
	}
	c := wants("0", 0, 1)
	c.Key = "another"
	if got := claimed(t, a, 0, c); !strings.Contains(got.Refused, "max_owned_keys") {
		t.Errorf("a key too many: %+v", got)
	}
	if a.keys.Hosts.Len() != 2 {
		t.Errorf("%d hosts are counted", a.keys.Hosts.Len())
	}
}

// tree is a parent with one child, which hands out what it gets.
type tree struct{ parent, child *Aggregator }

func newTree(t testing.TB, name string, limit rate.Limit) *tree {
	above := terms(dynamicconfig.Rule{Limit: limit, Algorithm: name, Recalculate: dynamicconfig.None})
	below := above
	below.Parent, below.Limit = true, 1000
	return &tree{leased(t, above), leased(t, below)}
}

// climb has the child ask the parent, which answers or not.
func (tr *tree) climb(now time.Duration, answers bool) {
	asked := tr.child.Parent().Ask(now, "region")
	switch {
	case asked == nil:
	case answers:
		tr.child.Parent().Hear(now, asked, tr.parent.Claim(now, asked), nil)
	default:
		errs := make([]error, len(asked.Rows))
		for i := range errs {
			errs[i] = errors.New("away")
		}
		tr.child.Parent().Hear(now, asked, nil, errs)
	}
}

func TestACapacityComesFromTheClusterAbove(t *testing.T) {
	const s = time.Second
	tr := newTree(t, "proportional-share", 100)
	if got := claimed(t, tr.child, 0, wants("a", 0, 80)); got.Amount != 0 || got.Refresh != s {
		t.Errorf("before the first answer: %+v", got)
	}
	tr.climb(0, true)
	if got := claimed(t, tr.child, s, wants("a", 0, 80)); !near(got.Amount, 80) || got.Lasts != 59*s || got.Refresh != 4*s {
		t.Errorf("a lease that ends with the one above, refreshed in half the time: %+v", got)
	}
	claimed(t, tr.parent, 2*s, wants("other region", 0, 1000))
	tr.climb(9*s, true) // 80 → 50
	if got := claimed(t, tr.child, 10*s, wants("a", 80, 80)); !near(got.Amount, 50) {
		t.Errorf("after a cut: %+v", got)
	}
	// The cluster above does not give others what hosts below still hold.
	if got := claimed(t, tr.parent, 11*s, wants("other region", 20, 1000)); got.Amount > 50+1e-9 {
		t.Errorf("above: %+v", got)
	}
	for now := 12 * s; now < 70*s; now += s {
		tr.climb(now, false)
	}
	if got := claimed(t, tr.child, 70*s, wants("a", 50, 80)); !(got.Amount > 0) || got.Amount > 100 {
		t.Errorf("when the lease from above has ended, what is safe: %+v", got)
	}
}

func TestARestartKeepsTheTreesGrants(t *testing.T) {
	const s = time.Second
	for _, who := range []string{"parent", "child"} {
		tr := newTree(t, "proportional-share", 100)
		claimed(t, tr.child, 0, wants("a", 0, 60))
		tr.climb(0, true)
		for now := s; now < 20*s; now += 2 * s {
			claimed(t, tr.child, now, wants("a", 60, 60))
			tr.climb(now, true)
		}
		rule := terms(dynamicconfig.Rule{Limit: 100, Algorithm: "proportional-share", Recalculate: dynamicconfig.None, Learning: 30 * s})
		if who == "child" {
			rule.Parent, rule.Limit = true, 1000
			tr.child = leased(t, rule)
			tr.child.Moved(20 * s)
		} else {
			tr.parent = leased(t, rule)
			tr.parent.Moved(20 * s)
		}
		for now := 20 * s; now < 80*s; now += 2 * s {
			if got := claimed(t, tr.child, now, wants("a", 60, 60)); !near(got.Amount, 60) {
				t.Fatalf("%s restarted: at %v the client has %v", who, now, got.Amount)
			}
			tr.climb(now, true)
		}
	}
}

// An owner that leaves in order tells the next what hosts hold and want: the next
// need not learn it.
func TestAHandoverLeavesNothingToLearn(t *testing.T) {
	const s = time.Second
	rule := dynamicconfig.Rule{Limit: 100, Algorithm: "fair-share", Learning: 60 * s}
	old := leased(t, rule)
	for round := range time.Duration(3) {
		for _, host := range []string{"a", "b", "c"} {
			claimed(t, old, (100+10*round)*s, wants(host, 0, 50))
		}
	}
	heir := leased(t, rule)
	heir.Moved(-100 * s) // long ago: the ring has not changed yet
	parts := old.Handover(121 * s)
	if len(parts) != 1 || len(parts[0].Rows) != 3 {
		t.Fatalf("handed over: %+v", parts)
	}
	if err := parts[0].Check(); err != nil {
		t.Fatal(err)
	}
	heir.Claim(121*s, parts[0])
	heir.Moved(122 * s)
	for _, host := range []string{"a", "b", "c"} {
		if got := claimed(t, heir, 125*s, wants(host, 100.0/3, 50)); !near(got.Amount, 100.0/3) || got.Learning {
			t.Errorf("%s gets %+v from the heir", host, got)
		}
	}
	claimed(t, heir, 126*s, claims.Claim{Key: "k", Host: "c", Release: true})
	if got := claimed(t, heir, 131*s, wants("a", 100.0/3, 50)); !near(got.Amount, 50) {
		t.Errorf("when c has left, a gets %+v", got)
	}
}

// However claims come, what is out is at most the capacity, but for a while
// after a cut or while learning.
func TestACapacityIsHandedOutOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom([]string{"proportional-share", "fair-share"}).Draw(rt, "algorithm")
		a := leased(t, dynamicconfig.Rule{Limit: 100, Algorithm: name, Recalculate: dynamicconfig.None})
		held, until := make(map[string]float64), make(map[string]time.Duration)
		now := time.Duration(0)
		for range rapid.IntRange(1, 60).Draw(rt, "claims") {
			now += time.Duration(rapid.IntRange(0, 20).Draw(rt, "s")) * time.Second
			host := fmt.Sprint(rapid.IntRange(0, 5).Draw(rt, "host"))
			c := wants(host, 0, rapid.Float64Range(0, 300).Draw(rt, "wants"))
			if now < until[host] {
				c.Has = held[host]
			}
			c.Bands[0].Clients = int64(rapid.IntRange(1, 9).Draw(rt, "clients"))
			c.Bands[0].Priority = int64(rapid.IntRange(0, 2).Draw(rt, "priority"))
			got := claimed(t, a, now, c)
			held[host], until[host] = got.Amount, now+got.Lasts
			sum := 0.0
			for h := range held {
				if now < until[h] {
					sum += held[h]
				}
			}
			if sum > 100*(1+1e-9) || got.Amount < 0 || got.Amount > c.Bands[0].Wants*(1+1e-9) || math.IsNaN(got.Amount) {
				rt.Fatalf("%v is out of 100 after %+v got %+v", sum, c, got)
			}
		}
	})
}
