// SPDX-License-Identifier: Apache-2.0

// Package guarded runs code of a service that may panic, such as its own source of limits, so that the
// process goes on:
//
//	go live.Run(ctx, guarded.Source{Source: source}, log)
//
// A Node and a client of limiter/client do so with the Source that they are given. The package does not log:
// a panic is an error of that code.
//
// It does not know what the code does, and keeps no state.
package guarded

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/headgate/headgate/dynamicconfig"
)

// Recovered turns a panic into *err, with its stack. Callers defer it itself.
func Recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// Source is a dynamicconfig.Source whose panics are errors.
type Source struct{ dynamicconfig.Source }

// Load implements dynamicconfig.Source.
func (s Source) Load(ctx context.Context) (snapshot *dynamicconfig.Snapshot, err error) {
	defer Recovered(&err)
	return s.Source.Load(ctx)
}

// Watch implements dynamicconfig.Source.
func (s Source) Watch(ctx context.Context, update func(*dynamicconfig.Snapshot, error)) (err error) {
	defer Recovered(&err)
	return s.Source.Watch(ctx, update)
}
