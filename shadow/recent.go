// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"math"
	"sync"
	"time"

	"github.com/headgate/headgate/limiter"
)

// recent is what was let through over the last window, which is cut into as
// many spans as there are slots. It is safe for concurrent use.
type recent struct {
	mu    sync.Mutex // protects following fields
	span  time.Duration
	slots [spans]slot
}

const (
	spans = 8
	// maxWindow is for buckets that take longer to fill, or never do.
	maxWindow = 7 * 24 * time.Hour
)

// slot is what was let through in one span.
type slot struct{ number, n int64 }

// window makes the window as long as a bucket like that takes to fill. If it was
// another, all is forgotten.
func (r *recent) window(level limiter.Level) {
	whole := maxWindow
	if fill := level.Burst / float64(level.Limit) * float64(time.Second); fill < float64(maxWindow) { // not if it is NaN
		whole = time.Duration(math.Ceil(fill))
	}
	r.mu.Lock()
	defer r.mu.Unlock()

	if span := max(whole/(spans-1), 1); span != r.span {
		r.span, r.slots = span, [spans]slot{}
	}
}

// add notes that n were let through.
func (r *recent) add(now limiter.Instant, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()

	number := int64(now) / int64(r.span)
	s := &r.slots[uint64(number)%spans]
	if s.number != number {
		*s = slot{number: number}
	}
	s.n += int64(max(n, 0))
}

// sum is what was let through in the window that ends now, and up to a span
// before it.
func (r *recent) sum(now limiter.Instant) (n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()

	last := int64(now) / int64(r.span)
	for _, s := range r.slots {
		if s.number > last-spans && s.number <= last {
			n += s.n
		}
	}
	return n
}
