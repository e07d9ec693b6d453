// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"bytes"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// One message must not close a key for ever: who was charged with anything, or
// heard of anything, comes out of debt soon.
func TestWhatOneMessageMayOweIsBounded(t *testing.T) {
	const limit, burst = 10, 20
	for name, take := range map[string]usage.Take{
		"charged": {Tokens: rpc.MaxTokens, Spent: usage.SpentBeyond},
		"told":    {Told: -1e300, By: 77},
		"apart":   {Tokens: rpc.MaxTokens, Spent: usage.SpentApart},
	} {
		for _, rule := range []dynamicconfig.Rule{exactRule(limit, burst), autoRule(limit, burst)} {
			for _, how := range []struct {
				wait, debt time.Duration
				cost, want float64
			}{
				{want: -burst - burst},
				{wait: 3 * time.Second, want: -burst - 3*limit - burst},
				{debt: 4 * time.Second, cost: 50, want: -burst - 4*limit - 50},
				{wait: -1, cost: 5, want: -burst - 5},
			} {
				rule.MaxWait, rule.MaxDebt, rule.MaxCost = how.wait, how.debt, how.cost
				a, want := under(t, rule), how.want
				take.Auto = rule.Algorithm == algorithm.NameAuto
				if take.Spent == usage.SpentApart {
					want = -burst
				}
				for range 2 { // and no deeper the second time
					if got := took(t, a, 0, take); got.Left != want {
						t.Errorf("%s, %s, %+v: %v left, want %v", name, rule.Algorithm, how, got.Left, want)
					}
				}
				now := time.Duration((1-want)/limit*float64(time.Second)) + time.Microsecond
				if got := took(t, a, now, usage.Take{Tokens: 1, Auto: take.Auto}); !got.OK {
					t.Errorf("%s, %s, %+v: after %v got %+v", name, rule.Algorithm, how, now, got)
				}
			}
		}
	}
}

// What waits or was charged may be below that already: it is neither forgiven
// nor does it grow.
func TestNothingIsForgivenByTheBoundOfDebt(t *testing.T) {
	a := bucketed(t, 10, 20)
	for range 10 {
		took(t, a, 0, usage.Take{Tokens: 20, Longest: -1})
	}
	for _, take := range []usage.Take{{Tokens: 5, Spent: usage.SpentBeyond}, {Told: -1e9, By: 77}} {
		if got := took(t, a, 0, take); got.Left != -180 {
			t.Errorf("%+v: %v left, want -180", take, got.Left)
		}
	}
}

// Undoing a charge or a refund moves only the tokens that it had moved.
func TestOnlyWhatMovedIsUndone(t *testing.T) {
	charge := []usage.Take{{Key: "k", Tokens: 100, Spent: usage.SpentBeyond}}
	refund := []usage.Take{{Key: "k", Tokens: -10}}
	for name, tt := range map[string]struct {
		rows []usage.Take
		want float64
	}{"charge": {charge, -20}, "refund": {refund, 10}} {
		synctest.Test(t, func(t *testing.T) {
			c := &exactCluster{network: rpctest.New(1), names: []string{"owner", "edge"}}
			c.owner.Store(&c.names[0])
			a := bucketed(t, 0.001, 10)
			c.network.Host("owner").Serve(a)
			edge := &ask.Forward{Taker: &ask.Taker{Host: "edge", Placement: &c.owner, Peers: c.network.Host("edge").Peers(), Self: "edge"}}
			defer edge.Taker.Close()
			if name == "charge" {
				once(t, edge, &usage.Takes{Caller: 1, Batch: 1, Rows: tt.rows})
			}
			once(t, edge, &usage.Takes{Caller: 1, Batch: 2, Rows: tt.rows})
			once(t, edge, &usage.Takes{Caller: 1, Batch: 3, Withdrawn: []uint64{2}, Rows: []usage.Take{{Key: "k"}}})
			if got := left(t, a, Now()); math.Abs(got-tt.want) > 0.01 {
				t.Errorf("%s at an edge: %v left, want %v", name, got, tt.want)
			}
			b := bucketed(t, 0.001, 10)
			once(t, b, &usage.Takes{Caller: 1, Batch: 2, Rows: tt.rows})
			before := 10.0
			once(t, b, &usage.Takes{Caller: 1, Batch: 3, Withdrawn: []uint64{2}, Rows: []usage.Take{{Key: "k"}}})
			if got := left(t, b, Now()); math.Abs(got-before) > 0.01 {
				t.Errorf("%s at the owner: %v left, want %v", name, got, before)
			}
		})
	}
}

// A peer that errs for ever does not fill the log, nor does its name.
func TestRefusalsAreLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(bytes.Buffer)
		a := New(algorithm.Builtin(), snapshot(t, cadence, every("elastic")), WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		good, err := (usage.Columnar{}).EncodeReport(reportOf("elastic", 1, 0, s, "k"))
		if err != nil {
			t.Fatal(err)
		}
		bad := &anypb.Any{TypeUrl: good.GetTypeUrl(), Value: []byte("nonsense")}
		for range 100 {
			for _, host := range []string{"h", strings.Repeat("\x00", 64<<10)} {
				for _, payload := range []*anypb.Any{good, bad} {
					if _, err = a.Update(t.Context(), host, payload); err != nil && len(err.Error()) > 1000 {
						t.Fatalf("an error of %d bytes", len(err.Error()))
					}
				}
			}
		}
		if log.Len() > 1000 || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("%d bytes of log: %.500s", log.Len(), log)
		}
		time.Sleep(2 * refusalsEvery)
		if _, err := a.Update(t.Context(), "h", bad); err == nil || !strings.Contains(log.String(), "refused_since_last_line=299") {
			t.Errorf("%v; log: %s", err, log)
		}
	})
}

// A charge that was made in part is given back in that part when the batch is
// withdrawn.
func TestOnlyWhatWasChargedIsGivenBack(t *testing.T) {
	a := bucketed(t, 1e-4, 20)
	once(t, a, &usage.Takes{Caller: 1, Batch: 1, Rows: []usage.Take{{Key: "k", Tokens: 15}}})
	once(t, a, &usage.Takes{Caller: 1, Batch: 2, Rows: []usage.Take{{Key: "k", Tokens: 1e6, Spent: usage.SpentBeyond}}})
	once(t, a, &usage.Takes{Caller: 1, Batch: 3, Withdrawn: []uint64{2}, Rows: []usage.Take{{Key: "k"}}})
	if got := left(t, a, Now()); math.Abs(got-5) > 0.01 {
		t.Errorf("%v left of 20 after 15", got)
	}
}
