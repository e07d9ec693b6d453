// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"google.golang.org/protobuf/types/known/anypb"
)

// Ask is d.Update, but a panic in it comes back as a *PanicError, and an
// answer that is neither a payload nor an error as an ErrPayload. Transports
// call Deciders through it, so that no panic crosses a package boundary.
func Ask(ctx context.Context, d Decider, host string, payload *anypb.Any) (answer *anypb.Any, err error) {
	defer Recovered(&err)
	answer, err = d.Update(ctx, host, payload)
	if err != nil {
		return nil, err
	}
	if answer == nil {
		return nil, Refuse("the decider returned neither an answer nor an error")
	}
	return answer, nil
}

// PanicError is a panic in a Decider or a Codec, as an error. Its text has the
// panic's value only; the stack is for the log.
type PanicError struct {
	Value any
	Stack []byte
}

// Error says that there was a panic, and its value.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap is the panic's value, where that was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// StackOf is where the panic in err was, for the log; empty if err is of no panic.
func StackOf(err error) string {
	if p, ok := errors.AsType[*PanicError](err); ok {
		return string(p.Stack)
	}
	return ""
}

// Recovered turns a panic into *err, a *PanicError. A panic with a *PanicError is that one,
// with its stack. Callers defer Recovered itself.
func Recovered(err *error) {
	value := recover()
	if value == nil {
		return
	}
	*err = Panicked(value)
}

// Panicked is the error of a panic with value, which is not nil. Its stack is that of the
// caller, which recovered value.
func Panicked(value any) error {
	if p, again := value.(*PanicError); again {
		return p
	}
	return &PanicError{Value: value, Stack: debug.Stack()}
}
