// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/edge"
)

const (
	// batchGoroutines is how many asks of one batch wait for owners at the same time,
	// and maxGoroutines how many those of all batches. Beyond that, a batch waits for
	// one answer after the other.
	batchGoroutines = 256
	maxGoroutines   = 4096
)

// DecideAll decides about asks, and returns a Decision for each, in their order. Asks
// for one key are decided one after the other, in their order too. Asks that wait for
// the owners of different keys wait at the same time, and share calls.
func (e *Engine) DecideAll(ctx context.Context, asks []edge.Ask) []edge.Decision {
	decisions := make([]edge.Decision, len(asks))
	var waits map[string][]int // the indices of asks, by key
	for i := range asks {
		a := &asks[i]
		waiting := a.Kind <= edge.Hold && len(asks) > 1 && e.group.Elsewhere(a.Key)
		if !waiting && waits[a.Key] == nil {
			decisions[i] = e.Decide(ctx, *a)
			continue
		}
		if waits == nil {
			waits = make(map[string][]int)
		}
		waits[a.Key] = append(waits[a.Key], i)
	}
	chains := slices.Collect(maps.Values(waits))
	e.each(len(chains), func(chain int) {
		for _, i := range chains[chain] {
			decisions[i] = e.Decide(ctx, asks[i])
		}
	})
	return decisions
}

// each calls f for all numbers below n, on this goroutine and on others. If f panics, so
// does each, with the first *rpc.PanicError, once all have ended.
func (e *Engine) each(n int, f func(i int)) {
	var next atomic.Int64
	var panicked atomic.Pointer[error]
	work := func() {
		var err error
		defer func() {
			if err != nil {
				panicked.CompareAndSwap(nil, &err)
			}
		}()
		defer rpc.Recovered(&err)
		for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
			f(int(i))
		}
	}
	var others sync.WaitGroup
	for range min(n, batchGoroutines) - 1 {
		select {
		case e.spare <- struct{}{}:
			others.Go(func() {
				defer func() { <-e.spare }()
				work()
			})
			continue
		default:
		}
		break
	}
	work()
	others.Wait()
	if err := panicked.Load(); err != nil {
		panic(*err)
	}
}
