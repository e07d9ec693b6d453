// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"context"
	"errors"
	"sync"
	"unsafe"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc/usage"
)

// errWithdrawn means that the caller has given up on this answer.
var errWithdrawn = errors.New("rpc: these takes were withdrawn meanwhile")

// takeID names a batch of takes.
type takeID struct{ caller, number uint64 }

// answeredTakes remembers the last batches of an edge: those under way, those that were
// answered with what undoes them, and those that were withdrawn. When the young ones
// take maxAnswered bytes, they become old, and the old ones are forgotten. The zero
// answeredTakes is ready. Safe for concurrent use.
type answeredTakes struct {
	mu         sync.Mutex // protects following fields, and all batches
	young, old map[takeID]*answered
	bytes      int // of young
}

// answered is one batch.
type answered struct {
	undo      []usage.Take
	answer    []byte        // a message of the type usage.TakenTypeURL
	ended     bool          // it is not under way any more
	withdrawn bool          // by its caller
	done      chan struct{} // closed when it ends; nil while no other call waits
}

const (
	// maxAnswered is how many bytes of batches become old together.
	maxAnswered = 8 << 20
	// bytesPerBatch is what a batch takes beside its rows: with its place in a map.
	bytesPerBatch = int(unsafe.Sizeof(answered{})+2*unsafe.Sizeof(takeID{})) + 32
	// bytesPerUndo is what a row takes beside its key.
	bytesPerUndo = int(unsafe.Sizeof(usage.Take{}))
)

// size is how much memory b takes.
func (b *answered) size() int {
	bytes := bytesPerBatch + len(b.answer) + len(b.undo)*bytesPerUndo
	for i := range b.undo {
		bytes += len(b.undo[i].Key)
	}
	return bytes
}

// begin returns the batch called id, and whether it has come before. Without a caller
// that is not known, and the batch is nil.
func (a *answeredTakes) begin(id takeID) (b *answered, again bool) {
	if id.caller == 0 {
		return nil, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()

	if b = a.findLocked(id); b != nil {
		return b, true
	}
	b = new(answered)
	a.putLocked(id, b)
	return b, false
}

// wait waits until b, which has come before, ends, and returns its answer. If b was
// undone and is forgotten, there is neither an answer nor an error.
func (a *answeredTakes) wait(ctx context.Context, b *answered) (*anypb.Any, error) {
	a.mu.Lock()
	if !b.ended && !b.withdrawn && b.done == nil {
		b.done = make(chan struct{})
	}
	done := b.done
	a.mu.Unlock()
	if done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()

	switch {
	case b.withdrawn:
		return nil, errWithdrawn
	case b.answer == nil:
		return nil, nil
	}
	return &anypb.Any{TypeUrl: usage.TakenTypeURL, Value: b.answer}, nil
}

// end ends b, which begin returned for id: with its answer and the rows that undo it,
// or with why its caller gets none. If the error is not nil, the batch is to be undone:
// its caller has given up, or withdrew it meanwhile.
func (a *answeredTakes) end(id takeID, b *answered, undo []usage.Take, answer *anypb.Any, failed error) error {
	if b == nil {
		return failed
	}
	a.mu.Lock()
	defer a.mu.Unlock()

	b.ended = true
	if b.done != nil {
		close(b.done)
	}
	now := a.findLocked(id) // another one than b if b was forgotten
	switch {
	case b.withdrawn || now != nil && now.withdrawn:
		b.withdrawn = true
		return errWithdrawn
	case failed != nil:
		if now == b {
			delete(a.young, id)
			delete(a.old, id)
		}
		return failed
	}
	b.undo, b.answer = undo, answer.GetValue()
	a.putLocked(id, b)
	return nil
}

// withdraw returns the rows that undo a batch, once, and whether it was answered here
// or withdrawn before. Another batch counts as withdrawn from now on.
func (a *answeredTakes) withdraw(id takeID) (undo []usage.Take, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()

	b := a.findLocked(id)
	if b == nil {
		b = new(answered)
	}
	known = b.ended || b.withdrawn // if withdrawn, elsewhere too, if it could be
	if !b.withdrawn {
		undo, b.undo, b.answer, b.withdrawn = b.undo, nil, nil, true
		a.putLocked(id, b)
	}
	return undo, known
}

func (a *answeredTakes) findLocked(id takeID) *answered {
	if b := a.young[id]; b != nil {
		return b
	}
	return a.old[id]
}

// putLocked makes b the youngest batch.
func (a *answeredTakes) putLocked(id takeID, b *answered) {
	size := b.size()
	if a.bytes += size; a.bytes > maxAnswered || a.young == nil {
		a.old, a.young, a.bytes = a.young, make(map[takeID]*answered), size
	}
	delete(a.old, id)
	a.young[id] = b
}
