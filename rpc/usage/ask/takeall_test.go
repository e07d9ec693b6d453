// SPDX-License-Identifier: Apache-2.0

package ask_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// fewOwners: names of keys begin with their owner's.
type fewOwners struct{}

func (fewOwners) Owner(key string) string {
	if key[0] == '-' {
		return ""
	}
	return key[:1]
}

// Takes of many keys go to their owners in few calls, each gets the answer to it, and those
// whose owner does not answer cost the others nothing.
func TestManyTakesGetTheirAnswersInFewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := rpctest.New(1)
		tills := map[string]*till{"o": {number: 1, begin: 10}, "p": {number: 2, begin: 10}, "q": {number: 3, hang: true}, "m": {number: 4, begin: 10}}
		for name, till := range tills {
			network.Host(name).Serve(till)
		}
		taker := &ask.Taker{Host: "m", Placement: fewOwners{}, Peers: network.Host("m").Peers(), Self: "m", Local: tills["m"]}
		defer taker.Close()
		var takes []usage.Take
		for i := range 6000 {
			takes = append(takes, usage.Take{Key: fmt.Sprintf("%c%d", "opqm-"[i%5], i), Tokens: float64(i % 10), Spent: usage.SpentBeyond})
		}
		takes[0].Key = ""
		answers := make([]int, len(takes))
		var failed int
		taker.TakeAll(t.Context(), takes, 20*time.Millisecond, func(i int, took usage.Took, err error) {
			answers[i]++
			switch owner := "opqm-"[i%5]; {
			case i == 0:
				if err == nil {
					t.Error("a take of no key has an answer")
				}
			case owner == '-':
				if !errors.Is(err, rpc.ErrNoOwner) {
					t.Errorf("without an owner: %v", err)
				}
			case owner == 'q':
				if failed++; err == nil {
					t.Error("an owner that hangs has answered")
				}
			case err != nil || !took.OK || owner != 'm' && took.Left != 10-takes[i].Tokens:
				t.Errorf("%+v: %+v, %v", takes[i], took, err)
			}
		})
		for i, n := range answers {
			if n != 1 {
				t.Fatalf("take %d has %d answers", i, n)
			}
		}
		for name, want := range map[string]int{"o": 2, "p": 2, "q": 1, "m": 1200} {
			if got := len(tills[name].calls()); got != want {
				t.Errorf("%s was called %d times, want %d", name, got, want)
			}
		}
		if failed != 1200 {
			t.Errorf("%d takes failed", failed)
		}
	})
}

// No caller waits for the answer to takes that are settled late, so an owner that is slow has more time for them
// than for an event.
func TestTakesThatNobodyWaitsForHaveTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := rpctest.New(1)
		network.Host("o").Serve(&till{number: 1, begin: 10})
		network.SetFaults("m", "o", rpctest.Faults{Delay: 5 * ask.DefaultTimeout})
		taker := &ask.Taker{Host: "m", Placement: fewOwners{}, Peers: network.Host("m").Peers()}
		defer taker.Close()
		taker.TakeAll(t.Context(), []usage.Take{{Key: "o", Tokens: 1, Spent: usage.SpentBeyond}}, 0, func(_ int, took usage.Took, err error) {
			if err != nil || !took.OK {
				t.Errorf("%+v, %v", took, err)
			}
		})
	})
}
