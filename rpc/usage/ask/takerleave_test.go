// SPDX-License-Identifier: Apache-2.0

package ask_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/rpc/usage"
)

// An ask_timeout may be ten seconds.
func TestACallerWithADeadlineDoesNotWaitForTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _, taker, _ := tills(t, 1e6, 0)
		o.hang = true
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := taker.TakeWithin(ctx, usage.Take{Key: "k", Tokens: 1}, 10*time.Second)
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("a caller whose context ends after 10ms waits for %v: %v", waited, err)
		}
		time.Sleep(10 * time.Second) // the call ends
	})
}

// A key with a long ask_timeout does not cost the others in its batch their answers.
func TestAnEdgeAnswersInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		edge, _, _, _, network := edgeOf(t, 5)
		network.SetFaults("me", "o", rpctest.Faults{Delay: time.Minute}) // never
		edge.Timeout = func(key string) time.Duration {
			if key == "k" {
				return time.Second
			}
			return 0
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		payload, err := usage.EncodeTakes(&usage.Takes{Rows: []usage.Take{{Key: "k", Tokens: 1}, {Key: "p", Tokens: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = edge.Update(ctx, "me", payload); err != nil {
			t.Errorf("the key of an owner that answers fails because of another's ask_timeout: %v", err)
		}
		time.Sleep(2 * time.Second) // the call ends
		edge.Taker.Close()
	})
}

// A caller who leaves gets nothing, and what the owner gave is given back.
func TestWhatComesTooLateIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _, taker, _ := tills(t, 100, 500*time.Millisecond)
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			if took, err := taker.TakeWithin(ctx, usage.Take{Key: "k", Tokens: 3}, 5*time.Second); err == nil {
				t.Fatal(took)
			}
			cancel()
		}
		time.Sleep(20 * time.Second)
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.left["k"] != 100 {
			t.Errorf("%v of 100 tokens are left, and nobody got one", o.left["k"])
		}
	})
}
