// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/uber-go/tally/v4"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/usage"
)

// counted is an Aggregator under rules, with what it counts.
func counted(t *testing.T, rules ...dynamicconfig.Rule) (*Aggregator, func(name string) int64) {
	t.Helper()
	scope := tally.NewTestScope("", nil)
	a := New(algorithm.Builtin(), snapshot(t, cadence, rules...), WithScope(scope))
	return a, func(name string) int64 { return scope.Snapshot().Counters()["aggregator."+name+"+"].Value() }
}

// always is a Placement with one owner.
type always string

func (o always) Owner(string) string { return string(o) }

// among tells who is one of hosts.
func among(hosts ...string) func(string) bool {
	return func(name string) bool { return slices.Contains(hosts, name) }
}

// Keys are handed over by members alone, and by those who were members lately.
func TestStrangersHandNothingOver(t *testing.T) {
	for _, tt := range []struct {
		name, from string
		want       float64
	}{{"a member", "old", 50}, {"a stranger", "stranger", 100}} {
		t.Run(tt.name, func(t *testing.T) {
			const limit = 1e-4
			old := under(t, exactRule(limit, 100))
			heir, count := counted(t, exactRule(limit, 100))
			network := rpctest.New(1)
			network.Host("heir").Serve(heir)
			heir.RingMoved(Cluster{Placement: always("heir"), Self: "heir", Member: among("heir", "old")})

			took(t, old, Now(), usage.Take{Tokens: 50})
			err := old.HandOver(t.Context(), Cluster{Placement: always("heir"), Peers: network.Host(tt.from).Peers(), Host: tt.from, Self: tt.from, Leaving: true})
			if err != nil {
				t.Fatal(err)
			}
			if got := left(t, heir, Now()); math.Abs(got-tt.want) > 0.1 {
				t.Errorf("%v left, want %v", got, tt.want)
			}
			if taken, refused := count("handovers"), count("handovers_refused"); taken+refused != 1 || (taken == 1) != (tt.want == 50) {
				t.Errorf("counted: %d taken, %d refused", taken, refused)
			}
		})
	}
}

// An owner that has handed its keys over grants nothing any more, and leases nothing:
// the next owner would not hear of it. A take that it answered before is answered again.
func TestAnOwnerThatHasLeftIsNotListenedTo(t *testing.T) {
	old, count := counted(t, dynamicconfig.Rule{Key: "exact", Limit: 1e-4, Burst: 10, Algorithm: algorithm.NameExact, Lease: time.Minute},
		dynamicconfig.Rule{Key: "shared", Limit: 10, Algorithm: algorithm.NameElastic, Lease: time.Minute},
		dynamicconfig.Rule{Key: "leased", Limit: 10, Algorithm: "fair-share", Lease: time.Minute, Refresh: 10 * time.Second})
	report := reportOf(algorithm.NameElastic, 1, 0, time.Second, "shared")
	claim := &claims.Claims{Rows: []claims.Claim{{Key: "leased", Host: "h", Bands: []claims.Band{{Clients: 1, Wants: 1}}}}}
	batch := func(number uint64) *usage.Takes {
		return &usage.Takes{Caller: 7, Batch: number, Rows: []usage.Take{{Key: "exact", Tokens: 4}}}
	}
	say := func(want error) {
		t.Helper()
		wire, err := usage.Columnar{}.EncodeReport(report)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := old.Update(t.Context(), "h", wire); !errors.Is(err, want) {
			t.Errorf("a report: %v, want %v", err, want)
		}
		wire, err = claims.Encode(claim)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := old.Update(t.Context(), "h", wire); !errors.Is(err, want) {
			t.Errorf("claims: %v, want %v", err, want)
		}
		if err := old.ReportHere(t.Context(), "h", report, new(usage.Grants)); !errors.Is(err, want) {
			t.Errorf("a report of this process: %v, want %v", err, want)
		}
		if _, err := old.ClaimHere(t.Context(), "h", claim); !errors.Is(err, want) {
			t.Errorf("claims of this process: %v, want %v", err, want)
		}
	}
	say(nil)
	if got := once(t, old, batch(1)); math.Abs(got-6) > 0.01 {
		t.Errorf("%v left", got)
	}
	network := rpctest.New(1)
	heir, began := counted(t, exactRule(1e-4, 10))
	network.Host("heir").Serve(rpc.DeciderFunc(func(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
		if payload.GetTypeUrl() == claims.TypeURL { // what is leased now is not in it
			if _, err := old.ClaimHere(ctx, "h", claim); !errors.Is(err, errLeft) {
				t.Errorf("claims while leases are handed over: %v", err)
			}
		}
		return heir.Update(ctx, host, payload)
	}))
	if err := old.HandOver(t.Context(), Cluster{Placement: always("heir"), Peers: network.Host("old").Peers(), Host: "old", Self: "old", Leaving: true}); err != nil {
		t.Fatal(err)
	}
	say(errLeft)
	if got := once(t, old, batch(1)); math.Abs(got-6) > 0.01 {
		t.Errorf("asked again: %v left", got)
	}
	if n := count("messages_after_leaving"); n != 5 {
		t.Errorf("%d messages were counted, want 5", n)
	}
	if began("keys_new")+began("keys_lost") != 0 || began("handovers") != 1 {
		t.Errorf("a key that is handed over counts as new (%d) or lost (%d)", began("keys_new"), began("keys_lost"))
	}
	if _, err := old.Update(t.Context(), "", nil); !errors.Is(err, rpc.ErrPayload) {
		t.Errorf("a host without a name: %v", err)
	}
}

// A key that is new everywhere, and one whose owner died, count apart.
func TestNewAndLostKeysCountApart(t *testing.T) {
	rule := func(name string) dynamicconfig.Rule {
		return dynamicconfig.Rule{Key: "*", Limit: 10, Burst: 10, Algorithm: name, Lease: time.Minute, Refresh: 10 * time.Second}
	}
	for _, tt := range []struct {
		name, algorithm string
		lost            bool
		say             func(a *Aggregator)
	}{
		{"a report", algorithm.NameElastic, false, func(a *Aggregator) { wanted(t, a, time.Minute, algorithm.NameElastic, "h", 5, 0) }},
		{"a report of a host with a grant", algorithm.NameElastic, true, func(a *Aggregator) { wanted(t, a, time.Minute, algorithm.NameElastic, "h", 5, 0.5) }},
		{"a take", algorithm.NameExact, false, func(a *Aggregator) { took(t, a, time.Minute, usage.Take{Tokens: 1}) }},
		{"a take of who was told of less", algorithm.NameExact, true, func(a *Aggregator) {
			took(t, a, time.Minute, usage.Take{Tokens: 1, By: 9, Told: 3, Ago: 100 * time.Millisecond})
		}},
		{"a take of who was told long ago", algorithm.NameExact, false, func(a *Aggregator) {
			took(t, a, time.Minute, usage.Take{Tokens: 1, By: 9, Told: 3, Ago: time.Second})
		}},
		{"a claim", "fair-share", false, func(a *Aggregator) { claimed(t, a, time.Minute, wants("h", 0, 5)) }},
		{"a claim of who has a lease", "fair-share", true, func(a *Aggregator) { claimed(t, a, time.Minute, wants("h", 5, 5)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, count := counted(t, rule(tt.algorithm))
			for range 2 { // the second time, the key is there
				tt.say(a)
			}
			want := [2]int64{1, 0}
			if tt.lost {
				want = [2]int64{0, 1}
			}
			if got := [2]int64{count("keys_new"), count("keys_lost")}; got != want {
				t.Errorf("new and lost: %v, want %v", got, want)
			}
		})
	}
}

// When the mode of a migration changes, the other algorithm is measured, with a new pool. Hosts were told of the one before, which
// is not lost.
func TestAPoolThatIsMeasuredAnewIsNotLost(t *testing.T) {
	rule := exactRule(10, 10)
	rule.Algorithm, rule.Migration = "", &dynamicconfig.Migration{From: algorithm.NameExact, To: algorithm.NameAuto, Mode: dynamicconfig.ModeNewShadowOld}
	a, count := counted(t, rule)
	took(t, a, time.Minute, usage.Take{Measured: true, Tokens: 1, By: a.number, Told: 3, Ago: 100 * time.Millisecond})
	if n := count("keys_lost"); n != 0 {
		t.Errorf("%d keys are lost", n)
	}
}

// Whatever hosts did, what is there after a hand-over is what was there before, and what
// hosts hold is not in it. So the sum of both stays.
func TestAHandOverKeepsTheSum(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.Float64Range(0.1, 1000).Draw(rt, "limit")
		burst := rapid.Float64Range(1, 5000).Draw(rt, "burst")
		rule := autoRule(1, burst)
		rule.Limit, rule.MaxDebt = rate.Limit(limit), time.Duration(rapid.IntRange(0, 5).Draw(rt, "max_debt"))*time.Second
		old, heir := under(t, rule), under(t, rule)
		now, holds := time.Minute, make(map[string]float64)
		for range rapid.IntRange(1, 30).Draw(rt, "messages") {
			host := fmt.Sprint("h", rapid.IntRange(0, 4).Draw(rt, "host"))
			if rapid.Bool().Draw(rt, "reports") {
				g := wanted(t, old, now, algorithm.NameAuto, host, rapid.Float64Range(0, 2*limit).Draw(rt, "wants"), holds[host])
				holds[host] = g.Weight[0]
			} else {
				took(t, old, now, usage.Take{
					Auto: true, Tokens: rapid.Float64Range(0, burst).Draw(rt, "tokens"),
					Spent: rapid.SampledFrom([]usage.Spent{usage.SpentNot, usage.SpentBeyond, usage.SpentApart}).Draw(rt, "spent"),
					More:  rapid.Float64Range(0, burst).Draw(rt, "more"),
				})
			}
			now += time.Duration(rapid.IntRange(0, 2000).Draw(rt, "ms")) * time.Millisecond
		}
		before := took(t, old, now, usage.Take{Auto: true}).Left
		held := took(t, old, now, usage.Take{Auto: true}).Left // asking changes nothing
		heir.Moved(now)
		rows := old.HandoverBuckets(now)                            // none of a full bucket of which nobody holds anything
		if len(rows) > 0 && rapid.Bool().Draw(rt, "a host first") { // which holds a grant of the earlier owner
			took(t, heir, now, usage.Take{Auto: true, More: 10})
		}
		for _, row := range rows {
			took(t, heir, now, row)
		}
		after := took(t, heir, now, usage.Take{Auto: true}).Left
		if tolerance := 1e-6 * (1 + burst); before != held || math.Abs(after-before) > tolerance {
			rt.Errorf("%v were there, and %v are there after the hand-over", before, after)
		}
		if again := took(t, old, now, usage.Take{Auto: true, Tokens: 1}); again.Decided {
			rt.Errorf("the earlier owner gives too: %+v", again)
		}
		// A message that comes twice gives nothing.
		took(t, heir, now, usage.Take{Auto: true, Told: before, Handed: true, By: old.number})
		if twice := took(t, heir, now, usage.Take{Auto: true}).Left; twice > after+1e-6*(1+burst) {
			rt.Errorf("%v are there when it is handed over again, and were %v", twice, after)
		}
	})
}
