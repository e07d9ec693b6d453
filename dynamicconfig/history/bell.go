// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"sync"
)

// Bell notifies the watchers in a process of the changes that the process makes, for
// implementations of Store.Notify. The zero Bell is ready for use, and safe for concurrent
// use.
type Bell struct {
	mu       sync.Mutex // guards what follows
	watchers map[*func()]struct{}
}

// Ring calls all that listen.
func (b *Bell) Ring() {
	b.mu.Lock()
	calls := make([]func(), 0, len(b.watchers))
	for w := range b.watchers {
		calls = append(calls, *w)
	}
	b.mu.Unlock()
	for _, call := range calls {
		call()
	}
}

// Listen has Ring call changed until ctx ends. changed must not block.
func (b *Bell) Listen(ctx context.Context, changed func()) {
	b.mu.Lock()
	if b.watchers == nil {
		b.watchers = make(map[*func()]struct{})
	}
	b.watchers[&changed] = struct{}{}
	b.mu.Unlock()
	<-ctx.Done()
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.watchers, &changed)
}
