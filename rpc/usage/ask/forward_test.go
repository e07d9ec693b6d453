// SPDX-License-Identifier: Apache-2.0

package ask_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// takeAt sends takes to d and returns its answer.
func takeAt(t *testing.T, d rpc.Decider, takes *usage.Takes) usage.Taken {
	t.Helper()
	payload, err := usage.EncodeTakes(takes)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := d.Update(t.Context(), "client", payload)
	if err != nil {
		t.Fatal(err)
	}
	var taken usage.Taken
	if err := usage.DecodeTaken(answer, len(takes.Rows), &taken); err != nil {
		t.Fatal(err)
	}
	return taken
}

// edgeOf is an edge at the host "me", which owns the key "mine" itself, and
// tills at o and p.
func edgeOf(t testing.TB, begin float64) (edge *ask.Forward, o, p, me *till, network *rpctest.Network) {
	t.Helper()
	o, p, taker, network := tills(t, begin, 100*time.Microsecond)
	me = &till{number: 5, begin: begin}
	taker.Local = me
	return &ask.Forward{Taker: taker}, o, p, me, network
}

// What a program says of loans and of earlier answers is not what the edge's host says: owners lend to hosts, and
// learn of the last answer of the edge.
func TestAnOwnerHearsWhatTheEdgeKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		edge, o, _, _, _ := edgeOf(t, 100)
		takeAt(t, edge, &usage.Takes{Rows: []usage.Take{{Key: "k", Tokens: 1}}})
		own := usage.Take{Key: "k", Tokens: 1, More: 5, Wants: 5, Handed: true, Rates: .5, Kept: 5, Told: -7, By: 99}
		takeAt(t, edge, &usage.Takes{Rows: []usage.Take{own, own, own}})
		for _, call := range o.calls() {
			for _, row := range call.Rows {
				if row.More != 0 || row.Wants != 0 || row.Handed || row.Rates != 0 || row.Kept != 0 || row.Told < 0 || row.By == 99 {
					t.Errorf("%+v", row)
				}
			}
		}
	})
}

func TestAnEdgeTakesFromTheOwnerOfEachKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		edge, o, p, me, _ := edgeOf(t, 2)
		taken := takeAt(t, edge, &usage.Takes{Caller: 1, Batch: 1, Rows: []usage.Take{
			{Key: "k", Tokens: 2}, {Key: "mine", Tokens: 1}, {Key: "p", Tokens: 3}, {Key: "undecided", Tokens: 1}, {Key: "mine", Tokens: 2}, {Key: "nobody's", Tokens: 1},
		}})
		want := []usage.Took{
			{Decided: true, OK: true, Left: 0},
			{Decided: true, OK: true, Left: 0}, // a till's own answer says nothing of what is left
			{Decided: true, Retry: time.Second, Left: 2},
			{},
			{Decided: true, Retry: time.Second, Left: 1},
			{},
		}
		for i, row := range taken.Rows {
			if row != want[i] {
				t.Errorf("row %d: %+v; want %+v", i, row, want[i])
			}
		}
		if o.left["k"] != 0 || p.left["p"] != 2 || me.left["mine"] != 1 {
			t.Errorf("left: %v, %v, %v", o.left, p.left, me.left)
		}
		for by, key := range map[uint32]string{1: "k", 3: "p", 5: "mine"} {
			if taken := takeAt(t, edge, &usage.Takes{Rows: []usage.Take{{Key: key}, {Key: key}}}); taken.By != by {
				t.Errorf("%s was decided by %d; want %d", key, taken.By, by)
			}
		}
		if taken.By == 1 || taken.By == 3 || taken.By == 5 {
			t.Errorf("several owners speak as %d", taken.By)
		}
	})
}

// Programs own no keys, and so hand none over, whatever they say.
func TestAnEdgeHandsNothingOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		edge, o, _, _, _ := edgeOf(t, 10)
		takeAt(t, edge, &usage.Takes{Rows: []usage.Take{{Key: "k", Told: 5, By: 9, Handed: true, Rates: 0.5}}})
		if got := o.calls(); len(got) != 1 || len(got[0].Rows) != 1 || got[0].Rows[0].Handed || got[0].Rows[0].Rates != 0 {
			t.Errorf("the owner got %+v", got)
		}
	})
}

func TestAnOwnerThatIsSilentCostsItsOwnKeysAtAnEdge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		edge, _, p, _, network := edgeOf(t, 10)
		network.Partition([]string{"me", "p"}, []string{"o"})
		for range 5 {
			began := time.Now()
			taken := takeAt(t, edge, &usage.Takes{Rows: []usage.Take{{Key: "k", Tokens: 1}, {Key: "p", Tokens: 1}}})
			if taken.Rows[0].Decided || !taken.Rows[1].OK {
				t.Errorf("%+v", taken.Rows)
			}
			if waited := time.Since(began); waited > 2*ask.DefaultTimeout {
				t.Errorf("waited for %v", waited)
			}
		}
		if p.left["p"] != 5 {
			t.Errorf("%v left", p.left)
		}
	})
}

func TestAnEdgeUndoesWhatNobodyHearsOf(t *testing.T) {
	takes := &usage.Takes{Caller: 1, Batch: 1, Rows: []usage.Take{
		{Key: "k", Tokens: 3}, {Key: "mine", Tokens: 2}, {Key: "p", Tokens: -5}, {Key: "j", Tokens: 20}, {Key: "k", Tokens: 1, Spent: usage.SpentBeyond},
	}}
	check := func(t *testing.T, o, p, me *till, k, mine, own float64) {
		t.Helper()
		if o.left["k"] != k || me.left["mine"] != mine || p.left["p"] != own || o.left["j"] != 10 {
			t.Errorf("left: %v, %v, %v", o.left, p.left, me.left)
		}
	}
	t.Run("withdrawn", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			edge, o, p, me, _ := edgeOf(t, 10)
			takeAt(t, edge, takes)
			check(t, o, p, me, 6, 8, 15)
			takeAt(t, edge, &usage.Takes{Caller: 2, Batch: 2, Withdrawn: []uint64{1}})
			check(t, o, p, me, 6, 8, 15) // another's batch has that number
			for range 2 {                // and once only
				takeAt(t, edge, &usage.Takes{Caller: 1, Batch: 2, Withdrawn: []uint64{1, 7}})
				check(t, o, p, me, 10, 10, 10)
			}
		})
	})
	for _, caller := range []uint64{takes.Caller, 0} { // one without a number cannot withdraw
		synctest.Test(t, func(t *testing.T) {
			edge, o, p, me, network := edgeOf(t, 10)
			network.SetFaults("me", "p", rpctest.Faults{Delay: 5 * time.Millisecond})
			payload, err := usage.EncodeTakes(&usage.Takes{Caller: caller, Batch: 1, Rows: takes.Rows})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
			defer cancel()
			if _, err := edge.Update(ctx, "client", payload); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
			check(t, o, p, me, 10, 10, 10)
			takeAt(t, edge, &usage.Takes{Caller: 1, Batch: 2, Withdrawn: []uint64{1}})
			check(t, o, p, me, 10, 10, 10)
		})
	}
}

// Tokens that were given back are taken again though they are spent by now, and what was
// spent apart comes back as far as it was taken.
func TestAnEdgeUndoesWhatMayBeUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		edge, o, p, _, _ := edgeOf(t, 10)
		takeAt(t, edge, &usage.Takes{Caller: 1, Batch: 1, Rows: []usage.Take{{Key: "p", Tokens: -5}, {Key: "k", Tokens: 4, Spent: usage.SpentApart}}})
		takeAt(t, edge, &usage.Takes{Caller: 2, Batch: 1, Rows: []usage.Take{{Key: "p", Tokens: 15}}})
		takeAt(t, edge, &usage.Takes{Caller: 1, Batch: 2, Withdrawn: []uint64{1}})
		if p.left["p"] != -5 || o.left["k"] != 10 {
			t.Errorf("left: %v, %v", o.left, p.left)
		}
	})
}

// An owner and the edge are new, and the client is not.
func TestANewOwnerLearnsAtAnEdgeFromWhatClientsWereTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		edge, o, _, me, _ := edgeOf(t, 10)
		row := usage.Take{Key: "k", Told: 4, Ago: 3 * time.Millisecond, By: 99}
		mine := usage.Take{Key: "mine", Told: 5, By: 98}
		takeAt(t, edge, &usage.Takes{Rows: []usage.Take{row, mine}})
		if got := o.calls()[0].Rows[0]; got.Told != 4 || got.By != 99 || got.Ago < row.Ago || got.Ago > row.Ago+time.Millisecond {
			t.Errorf("the owner hears %+v", got)
		}
		if got := me.calls()[0].Rows[0]; got.Told != 5 || got.By != 98 {
			t.Errorf("this host hears %+v", got)
		}
		takeAt(t, edge, &usage.Takes{Rows: []usage.Take{row}})
		if got := o.calls()[1].Rows[0]; got.Told != 10 || got.By != 1 {
			t.Errorf("the edge has heard itself, and the owner hears %+v", got)
		}
	})
}

func TestAnEdgeRefusesWhatAreNoTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		edge, o, _, _, _ := edgeOf(t, 1)
		for _, payload := range []*anypb.Any{nil, {TypeUrl: usage.ReportTypeURL}, {TypeUrl: usage.TakesTypeURL, Value: []byte{1}}} {
			if _, err := edge.Update(t.Context(), "client", payload); !errors.Is(err, rpc.ErrPayload) {
				t.Errorf("%v: %v", payload, err)
			}
		}
		if len(o.calls()) != 0 {
			t.Error("and asks")
		}
	})
}

// twice is delivered to an edge two times. Its second row is refused.
var twice = usage.Takes{Caller: 1, Batch: 1, Rows: []usage.Take{{Key: "k", Tokens: 3}, {Key: "p", Tokens: 20}, {Key: "mine", Tokens: 2}}}

func TestAnEdgeAnswersABatchThatComesTwiceAsItDidBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		edge, o, p, me, _ := edgeOf(t, 10)
		first := takeAt(t, edge, &twice)
		p.left["p"] = 30 // what was refused before would not be now
		for range 3 {
			if again := takeAt(t, edge, &twice); again.By != first.By || !slices.Equal(again.Rows, first.Rows) {
				t.Errorf("%+v; before %+v", again, first)
			}
		}
		if o.left["k"] != 7 || p.left["p"] != 30 || me.left["mine"] != 8 {
			t.Errorf("left: %v, %v, %v", o.left, p.left, me.left)
		}
		takeAt(t, edge, withdrawing(1, 1))
		if o.left["k"] != 10 || me.left["mine"] != 10 {
			t.Errorf("left: %v, %v", o.left, me.left)
		}
		payload, err := usage.EncodeTakes(&twice)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := edge.Update(t.Context(), "client", payload); err == nil || o.left["k"] != 10 {
			t.Errorf("a withdrawn batch comes again: %v, %v left", err, o.left)
		}
	})
}

func TestABatchThatComesAgainWhileAnEdgeIsAtItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		edge, o, p, _, network := edgeOf(t, 10)
		network.SetFaults("me", "p", rpctest.Faults{Delay: 5 * time.Millisecond})
		payload, err := usage.EncodeTakes(&twice)
		if err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if _, err := edge.Update(t.Context(), "client", payload); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Millisecond)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := edge.Update(ended, "client", payload); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		both.Wait()
		if o.left["k"] != 7 || len(p.calls()) != 1 {
			t.Errorf("%v left, %d calls", o.left, len(p.calls()))
		}
	})
}

// The connection of the first delivery breaks, and the network delivers again.
func TestABatchThatComesAgainTakesWhatItsFirstDeliveryGaveBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		edge, o, _, _, network := edgeOf(t, 10)
		network.SetFaults("me", "p", rpctest.Faults{Delay: 5 * time.Millisecond})
		payload, err := usage.EncodeTakes(&twice)
		if err != nil {
			t.Fatal(err)
		}
		broken, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
		defer cancel()
		var first sync.WaitGroup
		first.Go(func() {
			if _, err := edge.Update(broken, "client", payload); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
		time.Sleep(time.Millisecond)
		if taken := takeAt(t, edge, &twice); !taken.Rows[0].OK {
			t.Errorf("%+v", taken)
		}
		first.Wait()
		if o.left["k"] != 7 {
			t.Errorf("%v left", o.left)
		}
	})
}
