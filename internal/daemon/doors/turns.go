// SPDX-License-Identifier: Apache-2.0

package doors

import (
	"context"
	"runtime"
)

// Turns bounds the large requests that are decoded at once, over all doors, so that they
// leave a processor to small requests. Use NewTurns. Safe for concurrent use.
type Turns chan struct{}

// NewTurns returns Turns that are free.
func NewTurns() Turns { return make(Turns, max(runtime.GOMAXPROCS(0)-1, 1)) }

// Run does work when it is its turn. If ctx ends before, it returns false: what waits for a
// client that has gone must not keep its memory. There are bounds for what other clients
// have wait.
func (t Turns) Run(ctx context.Context, work func()) bool {
	select {
	case t <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-t }()
	work()
	return true
}
