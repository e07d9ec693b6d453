// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"

	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/admin/api/reply"
)

// patient is a database each of whose answers is waited for no longer than reply.MaxWait: a network
// that drops packets would have operators wait until they give up, and think that the daemon is gone.
type patient struct{ history.Store }

// Append implements history.Store.
func (p patient) Append(ctx context.Context, c history.Change) (history.Version, error) {
	return within(ctx, func(ctx context.Context) (history.Version, error) { return p.Store.Append(ctx, c) })
}

// Newest implements history.Store.
func (p patient) Newest(ctx context.Context) (history.Version, error) {
	return within(ctx, p.Store.Newest)
}

// Get implements history.Store.
func (p patient) Get(ctx context.Context, number int64) (history.Version, error) {
	return within(ctx, func(ctx context.Context) (history.Version, error) { return p.Store.Get(ctx, number) })
}

// List implements history.Store.
func (p patient) List(ctx context.Context, before int64, n int) ([]history.Version, error) {
	return within(ctx, func(ctx context.Context) ([]history.Version, error) { return p.Store.List(ctx, before, n) })
}

// within is what call returns within reply.MaxWait.
func within[T any](ctx context.Context, call func(ctx context.Context) (T, error)) (T, error) {
	bounded, cancel := context.WithTimeout(ctx, reply.MaxWait)
	defer cancel()
	v, err := call(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("the database of limits does not answer in %v: look at it. A change may be stored all the same, and the history has it then: %w", reply.MaxWait, err)
	}
	return v, err
}
