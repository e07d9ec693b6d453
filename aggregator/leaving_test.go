// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/usage"
)

// writer calls itself for each line of a log.
type writer func()

func (w writer) Write(line []byte) (int, error) { w(); return len(line), nil }

// leavesAt is an Aggregator under rules that hands all keys over, to nobody, when it
// logs its first line.
func leavesAt(t *testing.T, registry *algorithm.Registry, rules ...dynamicconfig.Rule) *Aggregator {
	t.Helper()
	var a *Aggregator
	left := false
	log := writer(func() {
		if !left {
			left = true
			network := rpctest.New(1)
			if err := a.HandOver(t.Context(), Cluster{Placement: always("heir"), Peers: network.Host("old").Peers(), Host: "old", Self: "old", Leaving: true}); err != nil {
				t.Log(err)
			}
		}
	})
	a = New(registry, snapshot(t, dynamicconfig.Properties{}, rules...), WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	t.Cleanup(func() {
		if !left {
			t.Error("the owner did not leave in the middle of a message")
		}
	})
	return a
}

// broken is a weigher whose keys cost the owner a line in the log.
func broken(float64, []algorithm.Demand, []float64) { panic("broken") }

// An owner leaves while it answers a message of many claims. Those that come after it has
// told the next owner what is leased get no lease, because the next owner would lease the
// same amount again.
func TestNoLeaseIsGrantedAfterTheHandOver(t *testing.T) {
	a := leavesAt(t, registryWith(t, "broken", broken),
		dynamicconfig.Rule{Key: "bad", Limit: 100, Algorithm: "claims/broken", Learning: dynamicconfig.None},
		dynamicconfig.Rule{Key: "good", Limit: 100, Algorithm: "fair-share", Learning: dynamicconfig.None})
	asked := new(claims.Claims)
	for _, key := range []string{"bad", "good"} {
		asked.Rows = append(asked.Rows, claims.Claim{Key: key, Host: "h", Bands: []claims.Band{{Clients: 1, Wants: 50}}})
	}
	leases, err := a.ClaimHere(t.Context(), "h", asked)
	if err != nil {
		t.Fatal(err)
	}
	if err := leases.Check(2); err != nil {
		t.Error(err)
	}
	if l := leases.Rows[1]; l.Refused == "" || l.Amount != 0 {
		t.Errorf("after the hand-over: %+v", l)
	}
	for _, l := range a.keys.Leases(Now(), a.settings.Load()) {
		if l.Key == "good" {
			t.Errorf("the next owner does not know of %+v", l)
		}
	}
}

// The same of a report: an owner grants nothing after it has told what is left.
func TestNothingIsGrantedAfterTheHandOver(t *testing.T) {
	calls := 0
	fails := func(c float64, d []algorithm.Demand, p []float64) {
		if calls++; calls == 1 {
			panic("broken")
		}
		algorithm.RequestWeighted(c, d, p)
	}
	a := leavesAt(t, registryWith(t, "fails", fails), dynamicconfig.Rule{Key: "*", Limit: 100, Algorithm: "average/fails"})
	grants := new(usage.Grants)
	if err := a.ReportHere(t.Context(), "h", reportOf("average/fails", 5, 5, time.Second, "bad", "good"), grants); err != nil {
		t.Fatal(err)
	}
	if grants.Lease[1] != 0 {
		t.Errorf("after the hand-over: weight %v for %v", grants.Weight[1], grants.Lease[1])
	}
}

// The next owner of some leases does not answer. That of a bucket hears at once what is left in it.
func TestANextOwnerThatHangsKeepsNoOtherWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := rpctest.New(1)
		network.Cut("old", "mute")
		handed := time.Duration(-1)
		began := time.Now()
		network.Host("heir").Serve(rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) {
			handed = time.Since(began)
			return usage.EncodeTaken(&usage.Taken{By: 1, Rows: make([]usage.Took, 1)}, 1)
		}))
		leases, bucket := terms(dynamicconfig.Rule{Key: "mute", Limit: 100, Algorithm: "fair-share"}), exactRule(1, 100)
		bucket.Key = "heir"
		a := New(algorithm.Builtin(), snapshot(t, cadence, leases, bucket))
		a.Claim(Now(), &claims.Claims{Rows: []claims.Claim{{Key: "mute", Host: "h", Bands: []claims.Band{{Clients: 1, Wants: 50}}}}})
		a.TakeHere("h", usage.Take{Key: "heir", Tokens: 50})
		err := a.HandOver(t.Context(), Cluster{Placement: named{}, Peers: network.Host("old").Peers(), Host: "old", Self: "old", Leaving: true})
		if err == nil || handed < 0 || handed > handOverWithin/2 {
			t.Errorf("the bucket was handed over after %v, and the error is %v", handed, err)
		}
	})
}

// named are keys whose owners have their names.
type named struct{}

func (named) Owner(key string) string { return key }
