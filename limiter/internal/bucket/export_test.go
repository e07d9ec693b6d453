// SPDX-License-Identifier: Apache-2.0

package bucket

import "github.com/headgate/headgate/limiter/stage"

// Stock has b caught in the middle of a contest: one of two caches has tokens.
func (b *Bucket) Stock(now stage.Instant) bool {
	b.Take(stage.Request{Now: now, N: 1000}, 0) // a bucket that is about to overflow is not cached
	c := newCaches(b, 2)
	b.caches.Store(c)
	c.allow(now, &c.each[0])
	return b.Cached() > 0
}

// Cached is how many tokens are in caches.
func (b *Bucket) Cached() int64 { return b.caches.Load().tokens() }

func (c *caches) tokens() (n int64) {
	if c != nil {
		n, _ = c.sum()
	}
	return n
}
