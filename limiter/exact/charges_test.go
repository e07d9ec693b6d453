// SPDX-License-Identifier: Apache-2.0

package exact_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/exact"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// byLast are two owners, of the keys whose names end in an even and in an odd digit.
type byLast struct{}

func (byLast) Owner(key string) string {
	return []string{"even", "odd"}[key[len(key)-1]%2]
}

// ledger is an owner that notes what it is charged with for each key.
type ledger struct {
	mu      sync.Mutex
	refuses bool // answers nothing
	loses   int  // answers to charges, from now on
	calls   int  // with charges
	charged map[string]float64
	batches map[uint64][]usage.Take // of charges that were not withdrawn
}

func (l *ledger) Update(_ context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	var takes usage.Takes
	if err := usage.DecodeTakes(payload, &takes); err != nil {
		return nil, err
	}
	if l.refuses {
		return nil, rpc.Refuse("not now")
	}
	for _, number := range takes.Withdrawn {
		for _, row := range l.batches[number^takes.Caller] {
			l.charged[row.Key] -= row.Tokens
		}
		delete(l.batches, number^takes.Caller)
	}
	taken := usage.Taken{By: 1, Rows: make([]usage.Took, len(takes.Rows))}
	charges := false
	for i, row := range takes.Rows {
		taken.Rows[i] = usage.Took{Decided: true, OK: true, Left: 5}
		if row.Spent != usage.SpentNot {
			charges = true
			l.charged[row.Key] += row.Tokens
		}
	}
	if charges {
		l.calls++
		l.batches[takes.Batch^takes.Caller] = takes.Rows
		if l.loses > 0 {
			l.loses--
			return nil, rpc.Refuse("the answer is lost")
		}
	}
	return usage.EncodeTaken(&taken, len(taken.Rows))
}

// keys is how many keys it was charged for.
func (l *ledger) keys() int {
	l.mu.Lock()
	defer l.mu.Unlock()

	return len(l.charged)
}

// While owners do not answer, a host lets events of many keys through by their fallback. Then
// it charges their owners in a few calls, and each charge counts once, also if answers are
// lost.
func TestAHostChargesAnOwnerForManyKeysInFewCalls(t *testing.T) {
	const keys = 6000
	for _, row := range []struct {
		algorithm string
		lost      int
	}{{algorithm: exact.Name}, {algorithm: limiter.Auto}, {limiter.Auto, 2}} {
		synctest.Test(t, func(t *testing.T) {
			network := rpctest.New(1)
			owners := map[string]*ledger{}
			for _, name := range []string{"even", "odd"} {
				owners[name] = &ledger{refuses: true, charged: make(map[string]float64), batches: make(map[uint64][]usage.Take)}
				network.Host(name).Serve(owners[name])
				network.SetFaults("me", name, rpctest.Faults{Delay: time.Millisecond})
			}
			limits, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{{Key: "k:*", Limit: 10, Burst: 10, Algorithm: row.algorithm}}}.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			taker := &ask.Taker{Host: "me", Placement: byLast{}, Peers: network.Host("me").Peers()}
			defer taker.Close()
			group := limiter.NewGroup(limits, 1,
				limiter.WithRemote(exact.Name, exact.New(taker)), limiter.WithCharges(exact.Name, exact.New(taker)),
				limiter.WithRemote(limiter.Auto, exact.NewAuto(taker)), limiter.WithCharges(limiter.Auto, exact.NewAuto(taker)))
			for i := range keys {
				if d := group.For(fmt.Sprintf("k:%d", i)).Decide(t.Context(), 1, 0); !d.OK {
					t.Fatalf("%+v", d)
				}
			}
			for _, o := range owners {
				o.mu.Lock()
				o.refuses, o.loses = false, row.lost
				o.mu.Unlock()
			}
			passes := 0
			for ; passes < 100; passes++ {
				time.Sleep(15 * time.Second) // longer than a host waits after a failure
				for _, b := range driver.Of(group).Report(stage.Now()) {
					driver.Of(group).Fail(stage.Now(), b, nil)
					driver.Of(group).Done(b)
				}
				synctest.Wait()
				if owners["even"].keys()+owners["odd"].keys() == keys && passes > 2 {
					break
				}
			}
			time.Sleep(time.Second)
			for name, o := range owners {
				o.mu.Lock()
				defer o.mu.Unlock()
				t.Logf("%s, %d lost: %s was called %d times, in %d passes", row.algorithm, row.lost, name, o.calls, passes)
				if len(o.charged) != keys/2 || o.calls > 3+row.lost {
					t.Errorf("%s, %d lost: %s was charged for %d of %d keys in %d calls; they fit in 3", row.algorithm, row.lost, name, len(o.charged), keys/2, o.calls)
				}
				for key, n := range o.charged {
					if n != 1 {
						t.Fatalf("%s, %d lost: %s was charged %v times", row.algorithm, row.lost, key, n)
					}
				}
			}
		})
	}
}
