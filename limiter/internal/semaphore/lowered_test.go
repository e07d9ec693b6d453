// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/headgate/headgate/limiter/stage"
)

// The limit becomes lower than what a caller waits for. The caller goes on waiting, because the limit may
// rise again. Until then no host can serve it, so this host does not want the slots, and other hosts keep theirs.
func TestAWaiterForMoreThanThereCanBeIsNoDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(0, nil)
		s.Resize(5, 10)
		ctx, cancel := context.WithCancel(t.Context())
		left, served := make(chan error), make(chan error)
		for _, wait := range []struct {
			ctx context.Context
			end chan error
		}{{ctx, left}, {t.Context(), served}} {
			go func() {
				_, err := s.Acquire(wait.ctx, 8, 0)
				wait.end <- err
			}()
			synctest.Wait()
		}
		now := stage.Instant(0)
		check := func(what string, wants float64, waiting int64) {
			t.Helper()
			var got float64
			for range 60 {
				now = now.Add(1e9)
				got = s.Wants(now)
			}
			if c := s.Census(); got != wants || c.Waiting != waiting || c.Starved != (wants > 0 && waiting > 0) || c.Idle() {
				t.Errorf("%s: the host wants %v, and not %v; %+v", what, got, wants, c)
			}
		}
		check("a limit of 10", 16, 16)
		s.Resize(2, 4)
		check("a limit of 4", 0, 16)
		s.Resize(4, 10)
		check("a limit of 10 again", 16, 16)
		s.Resize(2, 4)
		cancel()
		<-left
		check("one has left", 0, 8)
		s.Resize(5, 9)
		check("a limit of 9", 8, 8)
		s.Resize(2, 4)
		s.Resize(9, 9)
		if err := <-served; err != nil {
			t.Error(err)
		}
		check("the other is served", 8, 0)
		s.Close()
	})
}
