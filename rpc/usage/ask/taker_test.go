// SPDX-License-Identifier: Apache-2.0

package ask_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// till is a dumb owner: it has so many tokens of every key, and never gets
// more. It notes what it was sent.
type till struct {
	number uint32

	mu    sync.Mutex
	left  map[string]float64
	sent  []usage.Takes
	begin float64
	hang  bool // does not answer
}

func (o *till) take(t *usage.Take) usage.Took {
	if o.left == nil {
		o.left = make(map[string]float64)
	}
	if _, ok := o.left[t.Key]; !ok {
		o.left[t.Key] = o.begin
	}
	if t.Tokens > o.left[t.Key] && t.Spent == usage.SpentNot {
		return usage.Took{Decided: true, Retry: time.Second, Left: o.left[t.Key]}
	}
	o.left[t.Key] -= t.Tokens
	return usage.Took{Decided: t.Key != "undecided", OK: t.Key != "undecided"}
}

func (o *till) Update(ctx context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
	var takes usage.Takes
	if err := usage.DecodeTakes(payload, &takes); err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent = append(o.sent, takes)
	if o.hang {
		o.mu.Unlock()
		<-ctx.Done()
		o.mu.Lock()
		return nil, ctx.Err()
	}
	taken := usage.Taken{By: o.number}
	for i := range takes.Rows {
		taken.Rows = append(taken.Rows, o.take(&takes.Rows[i]))
		if taken.Rows[i].Decided {
			taken.Rows[i].Left = o.left[takes.Rows[i].Key]
		}
	}
	return usage.EncodeTaken(&taken, len(taken.Rows))
}

func (o *till) TakeHere(_ string, t usage.Take) (usage.Took, uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent = append(o.sent, usage.Takes{Rows: []usage.Take{t}})
	return o.take(&t), o.number
}

func (o *till) calls() []usage.Takes {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.sent)
}

// tills are a network with two owners, o and p, and who asks them.
func tills(t testing.TB, begin float64, delay time.Duration) (o, p *till, taker *ask.Taker, network *rpctest.Network) {
	t.Helper()
	network = rpctest.New(1)
	o, p = &till{number: 1, begin: begin}, &till{number: 3, begin: begin}
	network.Host("o").Serve(o)
	network.Host("p").Serve(p)
	network.SetFaults("me", "o", rpctest.Faults{Delay: delay})
	network.SetFaults("me", "p", rpctest.Faults{Delay: delay})
	taker = &ask.Taker{Host: "me", Placement: owners{"k": "o", "j": "o", "undecided": "o", "p": "p", "mine": "me"}, Peers: network.Host("me").Peers(), Self: "me"}
	t.Cleanup(taker.Close) // else a call that withdraws may outlive the bubble
	return o, p, taker, network
}

func TestTakesThatComeTogetherShareACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _, taker, _ := tills(t, 1000, 300*time.Microsecond)
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				if i > 0 {
					time.Sleep(100 * time.Microsecond)
				}
				began := time.Now()
				key := []string{"k", "j"}[i%2]
				if took, err := taker.Take(t.Context(), usage.Take{Key: key, Tokens: 1}); err != nil || !took.OK {
					t.Errorf("%+v, %v", took, err)
				}
				if waited := time.Since(began); waited > 600*time.Microsecond {
					t.Errorf("waited for %v", waited)
				}
			})
		}
		wg.Wait()
		calls := o.calls()
		if len(calls) != 2 || len(calls[0].Rows) != 1 || len(calls[1].Rows) != 99 {
			t.Fatalf("%d calls for 100 takes", len(calls))
		}
		if !slices.IsSortedFunc(calls[1].Rows, func(a, b usage.Take) int { return int(a.Key[0]) - int(b.Key[0]) }) {
			t.Error("takes of one key are not side by side")
		}
		if o.left["k"] != 950 || o.left["j"] != 950 {
			t.Errorf("left: %v", o.left)
		}
	})
}

// While a call takes long, those who wait for company do so for the window.
func TestCompanyIsWaitedForNoLongerThanTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _, taker, _ := tills(t, 1000, 5*time.Millisecond)
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 200 * time.Microsecond)
				began := time.Now()
				if _, err := taker.Take(t.Context(), usage.Take{Key: "k", Tokens: 1}); err != nil {
					t.Error(err)
				}
				if i < 8 {
					if waited := time.Since(began); waited > 5*time.Millisecond+ask.Window {
						t.Errorf("take %d waited for %v", i, waited)
					}
				}
			})
		}
		wg.Wait()
		if n := len(o.calls()); n != 5 { // four at once, and the rest when the first is back
			t.Errorf("%d calls", n)
		}
	})
}

func TestOwnKeysAreTakenInProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, taker, _ := tills(t, 2, time.Second)
		self := &till{number: 9, begin: 1}
		taker.Local = self
		for i, want := range []bool{true, false} {
			if took, err := taker.Take(t.Context(), usage.Take{Key: "mine", Tokens: 1}); err != nil || took.OK != want {
				t.Errorf("take %d: %+v, %v", i, took, err)
			}
		}
		if sent := self.calls(); sent[0].Rows[0].By != 0 || sent[1].Rows[0].By != 9 {
			t.Errorf("sent %+v", sent)
		}
	})
}

// The owner that hangs costs its own keys only, and for no longer than twice
// the timeout; soon it costs nothing. When it is back, it hears of what it was
// sent before.
func TestAnOwnerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _, taker, _ := tills(t, 1e6, 100*time.Microsecond)
		o.hang = true
		var wg sync.WaitGroup
		var failed, silent atomic.Int64
		for range 50 {
			wg.Go(func() {
				for range 20 {
					began := time.Now()
					_, err := taker.Take(t.Context(), usage.Take{Key: "k", Tokens: 1})
					if err == nil {
						t.Error("an answer of who hangs")
					}
					if errors.Is(err, ask.ErrSilent) {
						silent.Add(1)
					} else if !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					if waited := time.Since(began); waited > 2*ask.DefaultTimeout {
						t.Errorf("waited for %v", waited)
					}
					failed.Add(1)
					time.Sleep(time.Millisecond)

					began = time.Now()
					if _, err := taker.Take(t.Context(), usage.Take{Key: "p", Tokens: 1}); err != nil || time.Since(began) > 2*time.Millisecond {
						t.Errorf("another owner's key: %v after %v", err, time.Since(began))
					}
				}
			})
		}
		wg.Wait()
		if failed.Load() != 1000 || silent.Load() < 800 {
			t.Errorf("%d failed, of which %d at once", failed.Load(), silent.Load())
		}
		hung := len(o.calls())
		if hung > 16 {
			t.Errorf("%d calls to an owner that hangs", hung)
		}
		o.mu.Lock()
		o.hang = false
		o.mu.Unlock()
		time.Sleep(100 * time.Millisecond)
		// Events that a fallback let through meanwhile are spent apart, once.
		for _, want := range []usage.Spent{usage.SpentApart, usage.SpentBeyond} {
			take := func() error {
				_, err := taker.Take(t.Context(), usage.Take{Key: "k", Tokens: 7, Spent: usage.SpentBeyond})
				return err
			}
			err := take()
			for began := time.Now(); errors.Is(err, ask.ErrSilent) && time.Since(began) < time.Second; err = take() {
				time.Sleep(time.Millisecond) // a call that began before the owner was back may have failed last
			}
			if err != nil {
				t.Fatal(err)
			}
			calls := o.calls()
			last := calls[len(calls)-1]
			if last.Rows[0].Spent != want {
				t.Errorf("spent %v, want %v", last.Rows[0].Spent, want)
			}
			var without, withdrawn []uint64 // an answer
			for _, call := range calls[:hung] {
				without = append(without, call.Batch)
			}
			for _, call := range calls[hung:] {
				withdrawn = append(withdrawn, call.Withdrawn...)
			}
			slices.Sort(without)
			if slices.Sort(withdrawn); !slices.Equal(slices.Compact(withdrawn), without) {
				t.Errorf("withdrawn %v, want %v", withdrawn, without)
			}
			if want == usage.SpentBeyond && last.Settled != last.Batch {
				t.Errorf("all is settled but %d of %d", last.Settled, last.Batch)
			}
		}
	})
}

// All calls that are under way fail in a pause of their owner. That is one
// failure, so the owner is asked again at once.
func TestOnePauseDoesNotSilenceAnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _, taker, _ := tills(t, 1e6, 0)
		o.hang = true
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				if _, err := taker.Take(t.Context(), usage.Take{Key: "k", Tokens: 1}); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if calls := len(o.calls()); calls != 4 {
			t.Errorf("%d calls were under way", calls)
		}
		o.mu.Lock()
		o.hang = false
		o.mu.Unlock()
		if _, err := taker.Take(t.Context(), usage.Take{Key: "k", Tokens: 1}); err != nil {
			t.Error(err)
		}
	})
}

func TestTakesThatCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _, taker, network := tills(t, 1, 0)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := taker.Take(ctx, usage.Take{Key: "k"}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if _, err := taker.Take(t.Context(), usage.Take{Key: ""}); !errors.Is(err, rpc.ErrPayload) {
			t.Error(err)
		}
		if _, err := taker.Take(t.Context(), usage.Take{Key: "nobody's"}); !errors.Is(err, rpc.ErrNoOwner) {
			t.Error(err)
		}
		if _, err := taker.Take(t.Context(), usage.Take{Key: "undecided", Tokens: 1}); !errors.Is(err, ask.ErrUndecided) || !strings.Contains(err.Error(), "max_keys") {
			t.Error(err)
		}
		if len(o.calls()) != 1 {
			t.Errorf("%d calls", len(o.calls()))
		}
		network.Host("o").Serve(nil)
		if _, err := taker.Take(t.Context(), usage.Take{Key: "k", Tokens: 1}); !errors.Is(err, rpctest.ErrRefused) {
			t.Error(err)
		}
		network.Host("o").Serve(panics{})
		if _, err := taker.Take(t.Context(), usage.Take{Key: "k", Tokens: 1}); err == nil {
			t.Error("no error of a panic")
		}
	})
}

type panics struct{}

func (panics) Update(context.Context, string, *anypb.Any) (*anypb.Any, error) { panic("no") }

func TestNoMoreWaitThanFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, taker, _ := tills(t, 1e6, 10*time.Millisecond)
		var busy atomic.Int64
		var wg sync.WaitGroup
		const more = 89
		began := time.Now()
		for range 1 + ask.MaxQueue + more { // the first is under way
			wg.Go(func() {
				if _, err := taker.Take(t.Context(), usage.Take{Key: "k", Tokens: 1}); errors.Is(err, ask.ErrBusy) && time.Since(began) == 0 {
					busy.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if busy.Load() != more {
			t.Errorf("%d found no room", busy.Load())
		}
	})
}

// A caller has a token exactly if its answer is OK: over a network that loses,
// delays and reorders, with an owner that knows nothing of batches. What was
// lost on the way back has been taken for nobody.
func TestNobodyIsToldOfTheTokensOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tokens = 2000
		o, _, taker, network := tills(t, tokens, 0)
		faults := rpctest.Faults{Delay: 100 * time.Microsecond, Jitter: 2 * time.Millisecond, Drop: 0.02, Reorder: 0.1, HoldBack: 5 * time.Millisecond}
		network.SetFaults("me", "o", faults)
		network.SetFaults("o", "me", faults)
		var wg sync.WaitGroup
		var granted atomic.Int64
		for c := range 40 {
			wg.Go(func() {
				chance := rand.New(rand.NewPCG(1, uint64(c)))
				for range 60 {
					took, err := taker.Take(t.Context(), usage.Take{Key: "k", Tokens: 1})
					if err == nil && took.OK {
						granted.Add(1)
					}
					time.Sleep(time.Duration(chance.IntN(3000)) * time.Microsecond)
				}
			})
		}
		wg.Wait()
		if used := tokens - int64(o.left["k"]); granted.Load() > used || granted.Load() < used/2 {
			t.Errorf("%d granted, and the owner gave %d", granted.Load(), used)
		}
	})
}

// A key that migrates between exact and auto has another bucket for what is only measured, and what is
// left of the one says nothing about the other.
func TestWhatIsToldOfOneBucketIsNotOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _, taker, _ := tills(t, 1000, 300*time.Microsecond)
		for _, row := range []usage.Take{{Key: "k", Tokens: 1}, {Key: "k", Measured: true, Tokens: 2}, {Key: "k", Tokens: 1}} {
			if _, err := taker.Take(t.Context(), row); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		for i := range 9 { // of which all but the first come together
			wg.Go(func() {
				if _, err := taker.Take(t.Context(), usage.Take{Key: "k", Measured: i%2 == 0, Tokens: 1}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		calls := o.calls()
		if first := calls[1].Rows[0]; !first.Measured || first.By != 0 {
			t.Errorf("the first take from the second bucket is %+v", first)
		}
		if again := calls[2].Rows[0]; again.Measured || again.Told != 999 {
			t.Errorf("the next one from the first is %+v", again)
		}
		told := map[bool]int{}
		for _, row := range calls[len(calls)-1].Rows {
			if row.By != 0 {
				told[row.Measured]++
			}
		}
		if told[true] != 1 || told[false] != 1 {
			t.Errorf("of rows that tell, there are %v", told)
		}
	})
}

func TestHandedOverRowsGoToTheirOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, p, taker, _ := tills(t, 10, 0)
		rows := []usage.Take{{Key: "k", Told: 4, By: 7}, {Key: "p", Told: -2, By: 7}, {Key: "nobody's", Told: 1, By: 7}}
		if err := taker.Send(t.Context(), rows); !errors.Is(err, rpc.ErrNoOwner) {
			t.Error(err)
		}
		if got := o.calls(); len(got) != 1 || !slices.Equal(got[0].Rows, rows[:1]) {
			t.Errorf("o got %+v", got)
		}
		if got := p.calls(); len(got) != 1 || !slices.Equal(got[0].Rows, rows[1:2]) {
			t.Errorf("p got %+v", got)
		}
		gone := &ask.Taker{Host: "me", Placement: owners{"k": "gone"}, Peers: rpctest.New(1).Host("me").Peers()}
		if err := gone.Send(t.Context(), rows[:1]); err == nil || !strings.HasPrefix(err.Error(), `hand over the buckets of 1 key at "gone": `) {
			t.Errorf("the error says %v", err)
		}
	})
}

func ExampleTaker() {
	network := rpctest.New(1)
	network.Host("10.0.0.2:7500").Serve(&till{number: 1, begin: 1})
	taker := &ask.Taker{
		Host:      "10.0.0.1:7500",
		Placement: owners{"login:ada": "10.0.0.2:7500"},
		Peers:     network.Host("10.0.0.1:7500").Peers(),
	}
	for range 2 {
		took, err := taker.Take(context.Background(), usage.Take{Key: "login:ada", Tokens: 1})
		fmt.Println(took.OK, took.Retry, err)
	}
	// Output:
	// true 0s <nil>
	// false 1s <nil>
}

func BenchmarkTaker(b *testing.B) {
	_, _, taker, _ := tills(b, 1e18, 0)
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := taker.Take(b.Context(), usage.Take{Key: "k", Tokens: 1}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
