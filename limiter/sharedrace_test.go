// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter/stage"
)

// A key of a shared rule finds that its bucket was forgotten, while a report looks at both.
func TestAKeyFindsItsSharedBucketForgottenBesideAReport(t *testing.T) {
	rule := alone(1000, 1000)
	rule.Key, rule.Shared, rule.IdleAfter = "a:*", true, time.Second
	g := NewGroup(snapshot(t, rule), 1)
	var callers sync.WaitGroup
	for _, key := range []string{"a:1", "a:2"} {
		callers.Go(func() {
			for i := range stage.Instant(2000) {
				allowAt(g.For(key), i*20*second, 1)
			}
		})
	}
	for i := range stage.Instant(2000) {
		g.Manual().Report(i * 20 * second)
	}
	callers.Wait()
}
