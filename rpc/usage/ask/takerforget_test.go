// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/breaker"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// nowhere has every key at an owner of that name, whom nobody reaches.
type nowhere struct{}

func (nowhere) Owner(key string) string { return key }

func (nowhere) Peer(string) (rpc.Decider, error) { return nil, errors.New("nobody is there") }

// Addresses come and go while a process lives, and owners may end in the middle
// of a call.
func TestOwnersThatAreGoneAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taker := &Taker{Host: "me", Placement: nowhere{}, Peers: nowhere{}}
		rounds := 3
		if testing.Short() {
			rounds = 1
		}
		for round := range rounds {
			for i := range 2 * maxQueues {
				if _, err := taker.Take(t.Context(), usage.Take{Key: fmt.Sprint(round, "-", i), Tokens: 1}); err == nil {
					t.Fatal("nobody took anything")
				}
			}
			if n := len(taker.queues.byID); n < 2*maxQueues {
				t.Fatalf("%d queues: batches are not withdrawn for as long as they may be under way", n)
			}
			time.Sleep(underWayFor + time.Second)
			if _, err := taker.Take(t.Context(), usage.Take{Key: fmt.Sprint(round, " next"), Tokens: 1}); err == nil {
				t.Fatal("nobody took anything")
			}
			if n := len(taker.queues.byID); n != 1 {
				t.Fatalf("%d queues of one owner", n)
			}
			time.Sleep(underWayFor + time.Second)
		}
	})
}

// A caller that comes just when a queue is forgotten uses the next one.
func TestATakeIsNotLostWithItsQueue(t *testing.T) {
	taker := &Taker{Host: "me", Placement: nowhere{}, Peers: nowhere{}}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 2000 {
				_, err := taker.Take(t.Context(), usage.Take{Key: "k", Tokens: 1})
				if err == nil || errors.Is(err, errForgotten) {
					t.Error(err)
					return
				}
			}
		})
		wg.Go(func() {
			for range 2000 {
				q := taker.queues.queue(queueID{"k", DefaultTimeout}, taker)
				q.mu.Lock()
				q.withdrawn, q.breaker = nil, breaker.New(silence)
				q.mu.Unlock()
				taker.queues.mu.Lock()
				taker.queues.forgetLocked(taker)
				taker.queues.mu.Unlock()
			}
		})
	}
	wg.Wait()
}
