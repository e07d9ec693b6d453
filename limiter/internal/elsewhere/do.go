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

// panicked is a panic in this process, and not one that a Remote tells of.
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

// errUnanswered means that Charges did not say how a charge ended.
var errUnanswered = errors.New("the charge was not answered")

// longestBatch is how long Charges may take for one batch. A host that stops waits for that.
const longestBatch = 30 * time.Second

// DoAll has Charges, whose code may panic, carry out ops. The error is for those that it did not
// tell done of.
func DoAll(to stage.Charges, ops []stage.Operation, done func(i int, o stage.Outcome, err error)) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked{&rpc.PanicError{Value: p, Stack: debug.Stack()}}
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), longestBatch)
	defer cancel()
	to.DoAll(ctx, ops, func(i int, o stage.Outcome, err error) {
		o, err = sane(o, err)
		done(i, o, err)
	})
	return errUnanswered
}
