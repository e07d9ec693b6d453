// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
)

func TestAmountsAreAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]string{"100/s": "100/s", "5/m": "5/m", "7/h": "7/h", "60/m": "1/s", "90/m": "90/m", "0.5/s": "30/m", "0/s": "0/s", "2 in-flight": "2 in-flight", "0.3/h": "0.3/h", "5/d": "5/d", "1000000/s": "1000000/s", "0.3/d": "0.3/d"} {
		s, err := dynamicconfig.Parse("limits", []byte("limits: [{key: k, limit: "+text+"}]"))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Rules()[0].Amount(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "0s", 1234567: "1.23ms", 1500 * time.Millisecond: "1.5s", 12345 * time.Millisecond: "12.35s", 999: "1µs"} {
		if got := round(d).String(); got != want {
			t.Errorf("%v: %s, want %s", int64(d), got, want)
		}
	}
}

// Of all hosts, the sum says how many use the key, refuse, are silent, or are late.
func TestTheSumOfHosts(t *testing.T) {
	s, err := dynamicconfig.Parse("limits", []byte(`{limits: [{key: "k*", limit: 10/s, private: true}], unmatched: deny}`))
	if err != nil {
		t.Fatal(err)
	}
	g := limiter.NewGroup(s, 3)
	here := Here("c", g, s, 3, "k1")
	e := Sum(s, "k1", "b", []Host{here, {Host: "b", Error: "it is gone"}, {Host: "a", Limits: "older", Key: Key{InUse: true, Part: Part{Fallback: true}, Refuses: true}}})
	want := `the rule "k*" limits the key to 10/s; 1 of 3 hosts use it; 1 would refuse an event now; 1 goes by ` + "`fallback: even`" + `; the key's owner, b, does not answer; 1 host does not answer; 1 has another version of the limits`
	if e.Because != want || e.OwnerAnswers || e.Hosts[0].Host != "a" || strings.Contains(e.Key, "k1") || here.Key.InUse || here.Key.Because != "no caller uses the key at this host" {
		t.Errorf("%+v", e)
	}
	above, err := dynamicconfig.Parse("limits", []byte(`limits: [{key: k, limit: 10/s, parent: true}]`))
	if err != nil {
		t.Fatal(err)
	}
	if e := Sum(above, "k", "b", nil); !strings.Contains(e.Because, "to 10/s; by `parent: true`, it has what the cluster above leases to this one, and at most that;") {
		t.Error(e.Because)
	}
	if e := Sum(s, "other", "b", nil); e.Rule != nil || !strings.Contains(e.Because, "`unmatched: deny` refuses everything") {
		t.Errorf("%+v", e)
	}
	if e := Sum(s, "k*", "b", []Host{Here("c", g, s, 3, "k*")}); !strings.Contains(e.Because, "this is the pattern of a rule, and each key that it matches is limited alone: name one of these keys; 0 of 1 host uses it") {
		t.Error(e.Because)
	}
	if k := Look(g, s, 3, strings.Repeat("k", 1025)); !k.Refuses {
		t.Errorf("%+v", k)
	}
	long := strings.Repeat("x", 1<<20)
	if of, at := Sum(above, long, "b", nil).Key, Look(g, above, 3, long).Key; of != long[:1024]+"…" || at != of {
		t.Errorf("of a key of 1 MiB, %d bytes are shown, and %d of each host", len(of), len(at))
	}
}

// Under max_debt, events happen while the bucket is not in debt, also without a whole token, if
// enough fills in within max_debt.
func TestABucketThatMayBorrowRefusesInDebtOnly(t *testing.T) {
	for _, tt := range []struct {
		debt    time.Duration
		tokens  float64
		refuses bool
		want    string
	}{
		{0, 1, false, "1 of 3 tokens are there"},
		{0, 0.5, true, "all of it is used: the next token is there in 250ms"},
		{0, -2, true, "it has used more than that, and is 2 tokens in debt: the next is there in 1.5s"},
		{time.Second, 0.5, false, "0.5 of 3 tokens are there"},
		{time.Second, 0, false, "0 of 3 tokens are there"},
		{time.Second, -2, true, "it has used more than that, and is 2 tokens in debt: the debt is paid in 1s"},
		{100 * time.Millisecond, 0.5, true, "all of it is used: the next token is there in 150ms"}, // for an event borrows 0.2
		{100 * time.Millisecond, 0.9, false, "0.9 of 3 tokens are there"},
	} {
		limit, burst := 2.0, 3.0
		k := Key{Part: Part{Limit: &limit, Burst: &burst, Tokens: &tt.tokens}}
		if got := strings.Join(k.tokens(&dynamicconfig.Rule{MaxDebt: tt.debt}), "; "); got != tt.want || k.Refuses != tt.refuses {
			t.Errorf("%v: %q, refuses: %t; want %q", tt, got, k.Refuses, tt.want)
		}
	}
}

// A limit of 0 allows nothing, whatever may be owed.
func TestUnderALimitOfZeroNothingIsBorrowed(t *testing.T) {
	s, err := dynamicconfig.Parse("limits", []byte(`limits: [{key: k, limit: 0/s, max_debt: 2s, algorithm: even}]`))
	if err != nil {
		t.Fatal(err)
	}
	g := limiter.NewGroup(s, 1)
	if g.For("k").Allow() {
		t.Fatal("it is allowed")
	}
	if k := Look(g, s, 1, "k"); !k.Refuses || !strings.Contains(k.Because, "no tokens are there, and none come") {
		t.Errorf("%+v", k)
	}
}

// A key that an override lets everything through for is in use all the same.
func TestABypassedKeyIsInUse(t *testing.T) {
	s, err := dynamicconfig.Parse("limits", []byte(`{limits: [{key: k, limit: 10/s, algorithm: even}], overrides: [{all: true, limit: bypass, until: 2999-01-01T00:00:00Z, author: ada, reason: a test}]}`))
	if err != nil {
		t.Fatal(err)
	}
	s = s.At(time.Now())
	g := limiter.NewGroup(s, 3)
	g.For("k").Allow()
	if k := Look(g, s, 3, "k"); !k.InUse || k.Refuses || !strings.HasPrefix(k.Because, "everything is let through: bypass until 2999") {
		t.Errorf("%+v", k)
	}
}

// A decision that was let through is not explained by the part that is enforced now, after a
// change that is enforced in full.
func TestASoftDecisionIsExplainedAfterTheRuleIsEnforcedInFull(t *testing.T) {
	rules := func(more string) *dynamicconfig.Snapshot {
		s, err := dynamicconfig.Parse("limits", []byte(`{limits: [{key: k, limit: 1/h, algorithm: even`+more+`}]}`))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	g := limiter.NewGroup(rules(", enforce: 0%"), 1)
	g.Trace("k", true)
	g.For("k").Allow()
	g.For("k").Allow()
	for more, want := range map[string]string{
		", enforce: 10%": "over the limit, and let through: the rule is enforced for 10% only",
		"":               "over the limit, and let through: the rule was enforced for a part only then, and is enforced in full now",
	} {
		decisions, _ := Decisions(g, rules(more), "k")
		if len(decisions) != 2 || decisions[1].Because != want {
			t.Errorf("%q: %+v", more, decisions)
		}
	}
}

func TestADecisionWithoutARuleIsExplained(t *testing.T) {
	s, err := dynamicconfig.Parse("limits", []byte(`{limits: [{key: other, limit: 1/s}]}`))
	if err != nil {
		t.Fatal(err)
	}
	g := limiter.NewGroup(s, 1)
	g.Trace("k", true)
	g.For("k").Allow()
	const want = "allowed by `unmatched: allow`, as no rule matches the key"
	if decisions, _ := Decisions(g, s, "k"); len(decisions) != 1 || decisions[0].Because != want {
		t.Errorf("%+v, want %s", decisions, want)
	}
}

// A key that nobody used lately keeps its place, so max_keys does not refuse it.
func TestAKeyThatKeepsItsPlaceIsNotRefused(t *testing.T) {
	s, err := dynamicconfig.Parse("limits", []byte(`limits: [{key: "k*", limit: 10/s, algorithm: even, max_keys: 1}]`))
	if err != nil {
		t.Fatal(err)
	}
	g, now := limiter.NewGroup(s, 1), stage.Now()
	g.For("k1").Allow()
	interval := stage.Instant(g.Interval())
	for i := range stage.Instant(4) { // idle_after is 5 intervals
		driver.Of(g).Report(now + i*interval)
	}
	if _, live := g.Inspect("k1"); live {
		t.Fatal("it is in use still")
	}
	if k := Look(g, s, 1, "k1"); k.Refuses {
		t.Errorf("it keeps its place, and is said to be refused: %s", k.Because)
	}
	if k := Look(g, s, 1, "k2"); !k.Refuses || !strings.Contains(k.Because, "max_keys: 1, and 1 key uses it") {
		t.Errorf("there is no place: %s", k.Because)
	}
	if g.For("k2").Allow() || !g.For("k1").Allow() {
		t.Error("it is not as it was said")
	}
	soft, err := dynamicconfig.Parse("limits", []byte(`limits: [{key: "k*", limit: 10/s, algorithm: even, max_keys: 1, enforce: 0%}]`))
	if err != nil {
		t.Fatal(err)
	}
	g.Configure(soft)
	if k := Look(g, soft, 1, "k2"); k.Refuses || !g.For("k2").Allow() {
		t.Errorf("the rule is not enforced: %s", k.Because)
	}
}

// Keys in use when max_keys is lowered keep their places, also while they are idle.
func TestAKeyBeyondALowerMaxKeysIsNotRefused(t *testing.T) {
	parse := func(most int) *dynamicconfig.Snapshot {
		s, err := dynamicconfig.Parse("limits", fmt.Appendf(nil, `limits: [{key: "k*", limit: 10/s, algorithm: even, max_keys: %d}]`, most))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	g, now := limiter.NewGroup(parse(2), 1), stage.Now()
	g.For("k1").Allow()
	g.For("k2").Allow()
	s := parse(1)
	driver.Of(g).Configure(now, s)
	interval := stage.Instant(g.Interval())
	for i := range stage.Instant(4) { // idle_after is 5 intervals
		driver.Of(g).Report(now + i*interval)
	}
	if k := Look(g, s, 1, "k1"); k.InUse || k.Refuses || !g.For("k1").Allow() {
		t.Errorf("it keeps its place: %+v", k)
	}
}

// answersAll is a remote bucket that always answers the same.
type answersAll struct {
	stage.Outcome
	err error
}

func (a *answersAll) Do(context.Context, stage.Operation) (stage.Outcome, error) {
	return a.Outcome, a.err
}

// Large numbers are written out: 49000 of 50000 tokens, not 4.9e+04 of 5e+04.
func TestLargeNumbersHaveNoExponent(t *testing.T) {
	s, err := dynamicconfig.Parse("limits", []byte(`limits: [{key: k, limit: 50000/d, burst: 50000, algorithm: even}]`))
	if err != nil {
		t.Fatal(err)
	}
	g := limiter.NewGroup(s, 1)
	g.For("k").AllowN(time.Now(), 1000)
	if k := Look(g, s, 1, "k"); !strings.HasSuffix(k.Because, "; 49000 of 50000 tokens are there") {
		t.Errorf("%+v", k)
	}
}

// Only under exact is the remote bucket at the key's owner.
func TestARemoteBucketIsNotTheOwners(t *testing.T) {
	for name, want := range map[string]string{"redis": "the remote bucket", "mine": "the remote bucket", "gossip": "this host's bucket"} {
		s, err := dynamicconfig.Parse("limits", []byte(`limits: [{key: "k*", limit: 1/s, burst: 1, shared: true, algorithm: `+name+`}]`))
		if err != nil {
			t.Fatal(err)
		}
		of := &answersAll{Outcome: stage.Outcome{RetryAfter: time.Second}}
		g := limiter.NewGroup(s, 1, limiter.WithRemote(name, of))
		g.Trace("k", true)
		if g.For("k").Allow() {
			t.Fatal("it is allowed")
		}
		k := Look(g, s, 1, "k")
		if !strings.Contains(k.Because, want) || !strings.Contains(k.Because, "all of it is used") || !k.Refuses || strings.Contains(k.Because, "owner") {
			t.Errorf("%s: %+v", name, k)
		}
		if all, _ := Decisions(g, s, "k"); len(all) != 1 || !strings.Contains(all[0].Because, "refused: "+want+" has too few tokens") {
			t.Errorf("%s: %+v", name, all)
		}
		of.err = errors.New("no answer")
		g.For("k").Allow()
		if k := Look(g, s, 1, "k"); !strings.Contains(k.Because, "the remote bucket does not answer") {
			t.Errorf("%s: %+v", name, k)
		}
	}
}

// Programs read a Key as one object of JSON, whatever it consists of here.
func TestAKeyIsOneObject(t *testing.T) {
	one, at := 1.0, time.Unix(1, 0).UTC()
	got, err := json.Marshal(Key{
		Key: "k", InUse: true, Private: true, Rule: "k", Algorithm: "auto", Mode: "new",
		Part:   Part{Limit: &one, Burst: &one, Tokens: &one, Weight: 1, Lease: 1, Fallback: true, FallbackSince: &at, Passes: 1, Asks: true},
		Counts: Counts{Allowed: 1, Rejected: 1, Held: 1, Waiting: 1, Asked: 1, Granted: 1, Withheld: 1},
		UsedBy: 1, Refuses: true, Because: "so",
	})
	const want = `{"key":"k","in_use":true,"private":true,"rule":"k","algorithm":"auto","mode":"new",` +
		`"limit":1,"burst":1,"tokens":1,"weight":1,"lease_seconds":1,"fallback":true,"fallback_since":"1970-01-01T00:00:01Z","passes":1,"asks":true,` +
		`"allowed":1,"rejected":1,"held":1,"waiting":1,"asked":1,"granted":1,"withheld":1,"used_by":1,"refuses":true,"because":"so"}`
	if err != nil || string(got) != want {
		t.Errorf("%v: %s, want %s", err, got, want)
	}
}
