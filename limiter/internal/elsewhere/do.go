// SPDX-License-Identifier: Apache-2.0

package elsewhere

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
)

// Do asks a Remote. A Remote of another package may panic, mostly in the
// background, where that would end the process.
func Do(ctx context.Context, remote stage.Remote, op stage.Operation) (o stage.Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			o, err = stage.Outcome{}, panicked{&rpc.PanicError{Value: p, Stack: debug.Stack()}}
		}
	}()
	o, err = remote.Do(ctx, op)
	return sane(o, err)
}

// panicked is a panic in this process, and not one that a Remote reports.
type panicked struct{ *rpc.PanicError }

func (p panicked) Unwrap() error { return p.PanicError }

// Panicked reports whether err, which is of Do or DoAll, says that the code of the Remote has panicked.
func Panicked(err error) bool { return errors.As(err, new(panicked)) }

// sane is an answer, or stage.ErrNonsense.
func sane(o stage.Outcome, err error) (stage.Outcome, error) {
	if err == nil && !o.Valid() {
		return stage.Outcome{}, stage.ErrNonsense
	}
	return o, err
}

// Errors of operations that the code of a Remote says nothing of.
var (
	errUnanswered = errors.New("the charge was not answered")

	// ErrEnded means that the code of a Remote has ended its goroutine.
	ErrEnded = errors.New("the remote bucket ended its goroutine")
)

// longestBatch is how long Charges may take for one batch. A host that stops waits for that.
const longestBatch = 30 * time.Second

// DoAll has Charges carry out ops, and calls done once for each, also if their code does not, panics, or ends
// the goroutine.
func DoAll(to stage.Charges, ops []stage.Operation, done func(i int, o stage.Outcome, err error)) {
	ctx, cancel := context.WithTimeout(context.Background(), longestBatch)
	defer cancel()
	answered, failed := make([]bool, len(ops)), ErrEnded
	answer := func(i int, o stage.Outcome, err error) {
		if !answered[i] {
			answered[i] = true
			done(i, o, err)
		}
	}
	defer func() {
		if p := recover(); p != nil {
			failed = panicked{&rpc.PanicError{Value: p, Stack: debug.Stack()}}
		}
		for i := range ops {
			answer(i, stage.Outcome{}, failed)
		}
	}()
	to.DoAll(ctx, ops, func(i int, o stage.Outcome, err error) {
		o, err = sane(o, err)
		answer(i, o, err)
	})
	failed = errUnanswered
}
