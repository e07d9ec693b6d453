// SPDX-License-Identifier: Apache-2.0

package exact_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/exact"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// slow is an owner that does not answer.
type slow struct{}

func (slow) Owner(string) string { return "o" }

func (slow) Peer(string) (rpc.Decider, error) { return slow{}, nil }

func (slow) Update(ctx context.Context, _ string, _ *anypb.Any) (*anypb.Any, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A queue that is full says nothing about the owner's health.
func TestAFullQueueIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taker := &ask.Taker{Host: "me", Placement: slow{}, Peers: slow{}}
		defer taker.Close()
		owners := exact.New(taker)
		op := stage.Operation{Key: "k", Rule: &dynamicconfig.Rule{AskTimeout: 50 * time.Millisecond}, N: 1}
		var wg sync.WaitGroup
		for range 1 + ask.MaxQueue { // the first is under way
			wg.Go(func() { _, _ = owners.Do(context.Background(), op) })
		}
		synctest.Wait()
		if _, err := owners.Do(context.Background(), op); !errors.Is(err, stage.ErrBusy) || !errors.Is(err, ask.ErrBusy) {
			t.Errorf("the queue is full: %v", err)
		}
		wg.Wait()
	})
}
