// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"sync"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
)

// Watch implements dynamicconfig.Source.
func (s *Source) Watch(ctx context.Context, update func(*dynamicconfig.Snapshot, error)) error {
	s.mu.Lock()
	reported := s.loaded
	s.mu.Unlock()

	changed := make(chan struct{}, 1)
	var notify sync.WaitGroup
	defer notify.Wait()
	notify.Go(func() {
		s.store.Notify(ctx, func() {
			select {
			case changed <- struct{}{}:
			default: // one is pending
			}
		})
	})
	poll := time.NewTicker(s.poll)
	defer poll.Stop()
	for ctx.Err() == nil {
		reported = s.look(ctx, reported, update)
		select {
		case <-ctx.Done():
		case <-poll.C:
		case <-changed:
		}
	}
	return nil
}
