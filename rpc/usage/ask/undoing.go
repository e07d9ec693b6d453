// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// undoAfter is how long a batch without an answer waits for the next call, which
// withdraws it. Then the Taker makes a call that only withdraws. The time doubles
// as long as there are such batches, up to maxUndoAfter.
const undoAfter = 200 * time.Millisecond

// maxUndoAfter has the Taker withdraw the last batch of a long outage more than once
// within underWayFor.
const maxUndoAfter = underWayFor / 4

// undo returns a function that withdraws the batches that no other call has
// withdrawn. It runs again after up to twice wait, for as long as messages of these
// batches may still arrive.
func (q *takeQueue) undo(t *Taker, wait time.Duration) func(ctx context.Context) {
	return func(ctx context.Context) {
		now := t.now()
		q.mu.Lock()
		if len(q.withdrawn) == 0 || q.forgotten || now-q.failedAt > underWayFor {
			q.undoing = false
			q.mu.Unlock()
			return
		}
		var b *takeBatch
		if len(q.underWay) == 0 { // else that call withdraws them
			b = q.cutLocked(t, now)
		}
		q.mu.Unlock()
		if b != nil {
			q.call(ctx, t, b, nil)
		}
		t.undoLater(q, min(2*wait, maxUndoAfter))
	}
}

// undoLater calls undo after about wait.
func (t *Taker) undoLater(q *takeQueue, wait time.Duration) {
	undo := q.undo(t, wait)
	if t.simulation != nil {
		t.simulation.Later(wait, func() { undo(context.Background()) })
		return
	}
	t.undoing.later(wait, undo)
}

// undoing is the calls of a Taker that only withdraw. The zero undoing is
// ready. It is safe for concurrent use.
type undoing struct {
	mu     sync.Mutex // protects following fields
	closed bool
	ctx    context.Context
	cancel context.CancelFunc
	calls  sync.WaitGroup
}

// later calls f after about wait, so that not all hosts call at once. Its
// context ends with close.
func (u *undoing) later(wait time.Duration, f func(ctx context.Context)) {
	time.AfterFunc(wait/2+rand.N(wait), func() {
		if ctx, ok := u.begin(); ok {
			defer u.calls.Done()
			f(ctx)
		}
	})
}

// begin counts a call. ok is false after close.
func (u *undoing) begin() (context.Context, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()

	if u.closed {
		return nil, false
	}
	if u.ctx == nil {
		u.ctx, u.cancel = context.WithCancel(context.Background())
	}
	u.calls.Add(1)
	return u.ctx, true
}

// close ends the calls and waits for them.
func (u *undoing) close() {
	u.mu.Lock()
	u.closed = true
	if u.cancel != nil {
		u.cancel()
	}
	u.mu.Unlock()
	u.calls.Wait()
}
