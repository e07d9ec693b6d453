// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/shadow"
)

// Limiter is what the service uses of a limiter. All four limiters have it.
type Limiter interface {
	Allow() bool
	WaitN(ctx context.Context, n int) error
}

var (
	_ Limiter = (*rate.Limiter)(nil)
	_ Limiter = (*limiter.Limiter)(nil)
	_ Limiter = (*limiter.Bucket)(nil)
	_ Limiter = (*shadow.Limiter)(nil)
)

// Step 1: the same tokens, as a *limiter.Limiter.
func wrapped(old *rate.Limiter) *limiter.Limiter {
	return limiter.FromRate(old)
}

// Step 2: the old limiter answers, and the new one is measured.
func shadowed(old *rate.Limiter, group *limiter.Group) *shadow.Limiter {
	return shadow.New(limiter.FromRate(old), group.For("frontend:orders"), dynamicconfig.ModeOldShadowNew)
}

// Step 3: the new limiter alone.
func replaced(group *limiter.Group) *limiter.Limiter {
	return group.For("frontend:orders")
}
