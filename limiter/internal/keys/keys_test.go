// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

const second = stage.Instant(time.Second)

func newSet(t testing.TB, rule dynamicconfig.Rule) *Set {
	t.Helper()
	snapshot, err := dynamicconfig.Config{
		Properties: dynamicconfig.Properties{UpdateInterval: time.Second},
		Rules:      []dynamicconfig.Rule{rule},
	}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Log: slog.New(slog.DiscardHandler), Scope: tally.NoopScope}, snapshot, 1).Set()
}

// allow takes a token of k at now.
func allow(k *Key, now stage.Instant) stage.Reason {
	st := k.Current(now)
	if st.Stage == nil {
		return st.Reason
	}
	v, _ := st.Stage.Take(context.Background(), stage.Request{Now: now, N: 1, Kind: stage.Final})
	return v.Reason
}

// An attacker can make up keys, so those beyond max_keys must be cheap.
func TestAKeyBeyondMaxKeysTakesNoLock(t *testing.T) {
	s := newSet(t, dynamicconfig.Rule{Key: "*", Limit: 10, Burst: 10, Algorithm: "even", MaxKeys: 1})
	allow(s.For("first"), 0)
	k := s.For("second")
	if r := allow(k, 0); r != stage.TooManyKeys {
		t.Fatal(r)
	}
	if k.state.Load() == nil {
		t.Error("each decision matches the key with the rules")
	}
	rules := s.settings.Load().rules
	snapshot := rules.snapshot
	rules.snapshot = nil // matching a key would panic
	if r := allow(k, 0); r != stage.TooManyKeys {
		t.Error(r)
	}
	rules.snapshot = snapshot
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freshMu.Lock()
	defer s.freshMu.Unlock()
	for _, k := range []*Key{k, s.For("third")} { // one that was refused before, and a new one
		p := s.table.Lock(k.name)
		decided := make(chan stage.Reason, 1)
		go func() { decided <- allow(k, 0) }()
		select {
		case r := <-decided:
			if r != stage.TooManyKeys {
				t.Error(r)
			}
		case <-time.After(time.Minute):
			t.Errorf("%q waits for a lock", k.name)
		}
		p.Unlock()
	}
}

// The common key of a shared rule was forgotten while another key, that was
// only looked at, is live: it takes up with the new common key.
func TestAKeyOfASharedRuleOutlivesTheCommonOne(t *testing.T) {
	s := newSet(t, dynamicconfig.Rule{Key: "*", Limit: 100, Shared: true, Algorithm: "request-weighted", IdleAfter: 2 * time.Second})
	k := s.For("a")
	allow(k, 0)
	grants := &usage.Grants{Weight: []float64{1}, Burst: []float64{100}, Used: []float64{0}, Lease: []time.Duration{time.Minute}}
	for _, b := range s.Reports().Report(second) {
		if err := s.Reports().Apply(second, b, nil, grants); err != nil {
			t.Fatal(err)
		}
	}
	for now := 2 * second; s.Live("*") != nil; now += second {
		if now > 20*second {
			t.Fatal("the common key stays")
		}
		s.Reports().Report(now)
		k.state.Load().touch() // a caller has just looked at it
	}
	decided := make(chan stage.Reason, 1)
	go func() { decided <- allow(k, 30*second) }()
	select {
	case r := <-decided:
		if r != stage.Granted {
			t.Error(r)
		}
	case <-time.After(time.Minute):
		t.Fatal("it never decides")
	}
}

// Two callers use a Key at the moment at which there is room for it. The one that
// saw none does not replace what decides for the other.
func TestARefusalDoesNotReplaceAnAdmission(t *testing.T) {
	s := newSet(t, dynamicconfig.Rule{Key: "*", Limit: 10, Algorithm: "even", MaxKeys: 1})
	rule := s.settings.Load().rules.match("k")
	for i := range 100_000 {
		k := &Key{set: s, name: "k"}
		rule.keys.Store(1)
		var callers sync.WaitGroup
		for range 2 {
			callers.Go(func() { k.Current(0) })
		}
		for range i % 64 {
			rule.key() // so that there is room at any moment
		}
		rule.keys.Store(0)
		callers.Wait()
		p := s.table.Lock("k")
		if p.Get() == k && k.state.Load() == rule.full {
			t.Fatalf("run %d: the key is live, and its callers are refused", i)
		}
		p.Delete()
		p.Unlock()
		s.fresh = nil
	}
}

// Another key took the last place between the caller's look at the rule and its lock: the
// refusal costs as little from then on as any other.
func TestAKeyThatLostTheLastPlaceRemembersIt(t *testing.T) {
	s := newSet(t, dynamicconfig.Rule{Key: "*", Limit: 10, Algorithm: "even", MaxKeys: 1})
	set, k := s.settings.Load(), s.For("second")
	rule := set.rules.match(k.name)
	allow(s.For("first"), 0)
	if st, born, ok := s.admit(0, k, set, rule, nil); st != rule.full || born || !ok {
		t.Fatalf("%+v, new: %v, decides: %v", st, born, ok)
	}
	if k.state.Load() != rule.full {
		t.Error("each decision asks for a place again")
	}
}

// A change of rules leaves the number of hosts as it is, for keys that are live and for new ones.
func TestAChangeOfRulesKeepsTheNumberOfHosts(t *testing.T) {
	rule := dynamicconfig.Rule{Key: "*", Limit: 10, Burst: 10, Algorithm: "even"}
	s := newSet(t, rule)
	s.SetHosts(0, 5)
	live := s.For("live")
	live.Current(0)
	rule.Limit, rule.Burst = 20, 20
	s.Configure(0, newSet(t, rule).settings.Load().rules.snapshot)
	for _, k := range []*Key{live, s.For("new")} {
		if level := k.Level(0); math.Abs(float64(level.Limit)-4) > 1e-6 {
			t.Errorf("%s: %v/s of 20/s, on one of 5 hosts", k.name, level.Limit)
		}
	}
}

func TestAHeldKeyDecidesThroughTwoOthersAtMost(t *testing.T) {
	s := newSet(t, dynamicconfig.Rule{Key: "*", Limit: 10, Algorithm: "request-weighted"})
	held, now := s.For("k"), stage.Instant(0)
	for range 100 {
		allow(s.For("k"), now) // somebody else is first
		allow(held, now)
		s.Reports().Report(now + second)
		now += 20 * second
		s.Reports().Report(now)
		now += second
	}
	n := 0
	for st := held.state.Load(); st != nil && st.forward != nil; st = st.forward.state.Load() {
		n++
	}
	if n > 2 {
		t.Errorf("it decides through %d others", n)
	}
}
