// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// A take whose answer is lost is given back, although its host asks for nothing
// more, asks an owner for other keys only, or the key has another owner by then.
func TestATakeWithoutAnAnswerIsGivenBackWithoutAnotherTake(t *testing.T) {
	for _, moves := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := &exactCluster{network: rpctest.New(1), names: []string{"owner", "asker", "next"}}
			c.owner.Store(&c.names[0])
			a := bucketed(t, 0.001, 5)
			c.network.Host("owner").Serve(a)
			c.network.Host("next").Serve(bucketed(t, 0.001, 5))
			taker := &ask.Taker{Host: "asker", Placement: &c.owner, Peers: c.network.Host("asker").Peers(), Self: "asker"}
			defer taker.Close()
			if _, err := taker.Take(t.Context(), usage.Take{Key: "k", Tokens: 1}); err != nil {
				t.Fatal(err)
			}
			c.network.Cut("owner", "asker")
			if _, err := taker.Take(t.Context(), usage.Take{Key: "k", Tokens: 3}); err == nil {
				t.Fatal("its answer is not lost")
			}
			time.Sleep(time.Second) // and so are those to the first calls that withdraw it
			c.network.Heal("owner", "asker")
			if moves {
				c.owner.Store(&c.names[2])
			}
			for range 5 {
				time.Sleep(time.Second)
				a.GC(Now())
			}
			if got := left(t, a, Now()); got < 4 || got > 4.1 {
				t.Errorf("moved %v: %v tokens are left of 5 after one was used", moves, got)
			}
		})
	}
}
