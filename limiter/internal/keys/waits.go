// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"context"
	"sync"

	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// waits are the calls that may wait for slots. The zero waits are none. It is safe for
// concurrent use.
type waits struct {
	mu  sync.Mutex // protects all
	all map[*wait]struct{}
}

// wait is one call. It waits for the slots of st.
type wait struct {
	k   *Key
	st  *State
	end context.CancelCauseFunc
}

func (w *waits) add(of *wait) {
	w.mu.Lock()
	defer w.mu.Unlock()

	if w.all == nil {
		w.all = make(map[*wait]struct{})
	}
	w.all[of] = struct{}{}
}

func (w *waits) remove(of *wait) {
	w.mu.Lock()
	defer w.mu.Unlock()

	delete(w.all, of)
}

// follow ends the waits for slots that do not answer any more. These calls look for the slots
// that decide now. All others keep their places.
func (w *waits) follow(now stage.Instant) {
	w.mu.Lock()
	defer w.mu.Unlock()

	for of := range w.all {
		if !of.k.Counts(now, of.st) {
			of.end(stage.ErrMoved)
		}
	}
}

// Acquire waits for n slots of st, which k decides by. The error is stage.ErrMoved once other
// slots decide for k.
func (k *Key) Acquire(ctx context.Context, st *State, n, priority int64) (stage.Hold, error) {
	if s, ok := st.Slots.(*share.Slots); ok {
		if h, ok := s.AcquireFast(n); ok {
			return h, nil
		}
	}
	waiting, end := context.WithCancelCause(ctx)
	defer end(nil)
	of := &wait{k, st, end}
	k.set.waits.add(of)
	defer k.set.waits.remove(of)
	if !k.Counts(stage.Now(), st) { // the rules changed before add
		return stage.Hold{}, stage.ErrMoved
	}
	h, err := st.Slots.Acquire(waiting, n, priority)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil { // not every stage.Slots looks for the cause
		return h, stage.ErrMoved
	}
	return h, err
}
