// SPDX-License-Identifier: Apache-2.0

package ask_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// twoEdges are edges at "me" and "you" of the cluster whose owners are o and p.
func twoEdges(t testing.TB, begin float64) (first, second *ask.Forward, o, p *till, network *rpctest.Network) {
	t.Helper()
	first, o, p, _, network = edgeOf(t, begin)
	second = &ask.Forward{Taker: &ask.Taker{
		Host: "you", Placement: first.Taker.Placement, Peers: network.Host("you").Peers(), Self: "you",
	}}
	t.Cleanup(second.Taker.Close)
	first.Others, second.Others = func() []string { return []string{"you"} }, func() []string { return []string{"gone", "me"} }
	network.Host("me").Serve(ask.Withdrawn{Edge: first})
	network.Host("you").Serve(ask.Withdrawn{Edge: second})
	return first, second, o, p, network
}

var batch = usage.Takes{Caller: 1, Batch: 1, Rows: []usage.Take{{Key: "k", Tokens: 3}, {Key: "p", Tokens: -5}}}

func withdrawing(caller, number uint64) *usage.Takes {
	return &usage.Takes{Caller: caller, Batch: number + 1, Withdrawn: []uint64{number}}
}

// A host that is about to stop says so to hosts that ask whether it lives, and serves.
func TestAHostThatLeavesSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, _, _, _, network := twoEdges(t, 100)
		leaving := make(chan struct{})
		network.Host("me").Serve(ask.Withdrawn{Edge: first, Leaving: leaving})
		peer, err := network.Host("you").Peers().Peer("me")
		if err != nil {
			t.Fatal(err)
		}
		if err := ask.Ping(t.Context(), peer, "you"); err != nil {
			t.Error(err)
		}
		close(leaving)
		if err := ask.Ping(t.Context(), peer, "you"); !errors.Is(err, ask.ErrLeaves) {
			t.Errorf("it leaves, and says %v", err)
		}
	})
}

// The answer is lost on its way from one edge, and the caller says so at
// another.
func TestAnEdgeUndoesWhatIsWithdrawnAtAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, o, p, _ := twoEdges(t, 10)
		takeAt(t, first, &batch)
		if o.left["k"] != 7 || p.left["p"] != 15 {
			t.Fatalf("left: %v, %v", o.left, p.left)
		}
		takeAt(t, second, withdrawing(2, 1)) // another caller's
		takeAt(t, second, withdrawing(1, 7)) // another batch
		if o.left["k"] != 7 || p.left["p"] != 15 {
			t.Errorf("left: %v, %v", o.left, p.left)
		}
		for _, edge := range []*ask.Forward{second, first, second} { // once only, wherever
			takeAt(t, edge, withdrawing(1, 1))
			if o.left["k"] != 10 || p.left["p"] != 10 {
				t.Errorf("left: %v, %v", o.left, p.left)
			}
		}
	})
}

// The withdrawal overtakes the batch.
func TestAnEdgeUndoesABatchThatWasWithdrawnBefore(t *testing.T) {
	for name, at := range map[string]func(first, second *ask.Forward) *ask.Forward{
		"here":      func(first, _ *ask.Forward) *ask.Forward { return first },
		"elsewhere": func(_, second *ask.Forward) *ask.Forward { return second },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first, second, o, p, network := twoEdges(t, 10)
				network.SetFaults("me", "o", rpctest.Faults{Delay: 5 * time.Millisecond})
				payload, err := usage.EncodeTakes(&batch)
				if err != nil {
					t.Fatal(err)
				}
				var slow sync.WaitGroup
				slow.Go(func() {
					if _, err := first.Update(t.Context(), "client", payload); err == nil {
						t.Error("what was withdrawn is answered")
					}
				})
				time.Sleep(time.Millisecond)
				takeAt(t, at(first, second), withdrawing(1, 1))
				slow.Wait()
				if o.left["k"] != 10 || p.left["p"] != 10 {
					t.Errorf("left: %v, %v", o.left, p.left)
				}
			})
		})
	}
}

// silence notes calls, and answers none.
type silence struct{ *till }

func (s silence) Update(ctx context.Context, _ string, _ *anypb.Any) (*anypb.Any, error) {
	s.mu.Lock()
	s.sent = append(s.sent, usage.Takes{})
	s.mu.Unlock()
	<-ctx.Done()
	return nil, ctx.Err()
}

// Nobody waits for long for an edge that does not answer.
func TestWithdrawingElsewhereIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, second, o, _, network := twoEdges(t, 10)
		silent := &till{hang: true}
		network.Host("me").Serve(silence{silent})
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				began := time.Now()
				takes := withdrawing(uint64(i+1), 1)
				takes.Rows = []usage.Take{{Key: "k", Tokens: 0.1}}
				if taken := takeAt(t, second, takes); !taken.Rows[0].OK {
					t.Errorf("%+v", taken)
				}
				if waited := time.Since(began); waited > ask.DefaultTimeout {
					t.Errorf("waited for %v", waited)
				}
			})
		}
		all.Wait()
		if n := len(silent.calls()); n == 0 || n > 10 {
			t.Errorf("%d messages at once", n)
		}
		if left := o.left["k"]; left > 0.001 || left < -0.001 {
			t.Errorf("%v left", left)
		}
	})
}

// An owner is silent, and a caller withdraws all that the owner gave it before.
func TestACallerThatWithdrawsManyBatchesWaitsNoLongerForASilentOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		edge, _, p, _, network := edgeOf(t, 100)
		takes := &usage.Takes{Caller: 1, Batch: rpc.MaxWithdrawn + 1, Rows: []usage.Take{{Key: "p", Tokens: 1}}}
		for i := range uint64(rpc.MaxWithdrawn) {
			takeAt(t, edge, &usage.Takes{Caller: 1, Batch: i + 1, Rows: []usage.Take{{Key: "k", Tokens: 1}, {Key: "p", Tokens: 1}}})
			takes.Withdrawn = append(takes.Withdrawn, i+1)
		}
		network.Partition([]string{"me", "p"}, []string{"o"})
		began := time.Now()
		if taken := takeAt(t, edge, takes); !taken.Rows[0].OK {
			t.Errorf("%+v", taken.Rows)
		}
		if waited := time.Since(began); waited > 2*ask.DefaultTimeout {
			t.Errorf("waited for %v", waited)
		}
		if p.left["p"] != 99 {
			t.Errorf("%v left", p.left)
		}
	})
}

func TestAnEdgeRefusesWhatAreNoWithdrawals(t *testing.T) {
	first, _, _, _, _ := twoEdges(t, 1)
	of := func(m *headgatepb.Withdrawals) *anypb.Any {
		payload, err := anypb.New(m)
		if err != nil {
			t.Fatal(err)
		}
		return payload
	}
	for _, payload := range []*anypb.Any{
		nil,
		{TypeUrl: usage.TakesTypeURL},
		{TypeUrl: ask.WithdrawalsTypeURL, Value: []byte{1}},
		of(&headgatepb.Withdrawals{Batches: []uint64{1}}),
		of(&headgatepb.Withdrawals{Caller: 1, Batches: make([]uint64, rpc.MaxWithdrawn+1)}),
	} {
		if _, err := (ask.Withdrawn{Edge: first}).Update(t.Context(), "you", payload); !errors.Is(err, rpc.ErrPayload) {
			t.Errorf("%v: %v", payload, err)
		}
	}
	elsewhere := of(&headgatepb.Withdrawals{Caller: 1})
	elsewhere.TypeUrl = "example.com/headgate.v1.Withdrawals"
	if _, err := (ask.Withdrawn{Edge: first}).Update(t.Context(), "you", elsewhere); err != nil {
		t.Errorf("only what follows the last slash counts: %v", err)
	}
	if got := rpc.TypeURL(&headgatepb.Withdrawals{}); got != ask.WithdrawalsTypeURL {
		t.Errorf("withdrawals: %q", got)
	}
}

// A message with too many batches is refused before there is memory for them.
func TestTooManyWithdrawalsTakeNoMemory(t *testing.T) {
	first, _, _, _, _ := twoEdges(t, 1)
	payload, err := anypb.New(&headgatepb.Withdrawals{Caller: 1, Batches: make([]uint64, 4<<20)})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = ask.Withdrawn{Edge: first}.Update(t.Context(), "you", payload)
	if runtime.ReadMemStats(&after); !errors.Is(err, rpc.ErrPayload) || after.TotalAlloc-before.TotalAlloc > 1<<20 {
		t.Errorf("%v, and %d bytes for a message of %d", err, after.TotalAlloc-before.TotalAlloc, len(payload.GetValue()))
	}
}

func FuzzWithdrawals(f *testing.F) {
	for _, m := range []*headgatepb.Withdrawals{{Caller: 1}, {Caller: 1, Batches: []uint64{1, 2}}, {Batches: []uint64{1}}} {
		payload, err := anypb.New(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(payload.GetTypeUrl(), payload.GetValue())
	}
	first, _, o, p, _ := twoEdges(f, 100)
	f.Fuzz(func(t *testing.T, url string, value []byte) {
		answer, err := ask.Withdrawn{Edge: first}.Update(t.Context(), "you", &anypb.Any{TypeUrl: url, Value: value})
		if (answer == nil) == (err == nil) || err != nil && !errors.Is(err, rpc.ErrPayload) {
			t.Errorf("%v, %v", answer, err)
		}
		if len(o.sent)+len(p.sent) > 0 {
			t.Error("an owner gets back what nobody took")
		}
	})
}
