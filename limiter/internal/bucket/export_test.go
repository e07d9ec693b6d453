// SPDX-License-Identifier: Apache-2.0

package bucket

import "github.com/headgate/headgate/limiter/stage"

// Stock has b caught in the middle of a contest: one of two caches has tokens.
func (b *Bucket) Stock(now stage.Instant) bool {
	b.Take(stage.Request{Now: now, N: 1000}, 0) // a bucket that is about to overflow is not cached
	c := &caches{each: make([]cache, 2)}
	b.caches.Store(c)
	b.allowCached(now, &c.each[0], c)
	return b.Cached() > 0
}

// Cached is how many tokens are in caches.
func (b *Bucket) Cached() int64 {
	if c := b.caches.Load(); c != nil {
		return c.tokens()
	}
	return 0
}
