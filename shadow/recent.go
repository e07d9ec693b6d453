// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limiter/stage"
)

// recent counts the tokens that were taken within a sliding window. The
// window is divided into spans of equal length. It is safe for concurrent use.
type recent struct {
	span  int64        // in ns
	total atomic.Int64 // tokens that were taken, also before the window
	bins  [spans]struct {
		number atomic.Int64 // of the span: its begin divided by the length
		n      atomic.Int64 // tokens that were allowed in the span
	}
}

const (
	spans = 8
	// maxWindow is the window for buckets that take longer to fill, or never
	// fill.
	maxWindow = 7 * 24 * time.Hour
	// ahead, in ns, is more than the clocks of callers differ by. If a span begins later than
	// that, some caller did not pass the time of a clock.
	ahead = int64(2 * maxWindow)
)

// spanFor returns the span, in ns, of a window as long as a bucket of level
// takes to fill.
func spanFor(level stage.Level) int64 {
	window := float64(maxWindow)
	if fill := level.Burst / float64(level.Limit) * float64(time.Second); fill < window { // not if it is NaN
		window = math.Ceil(fill)
	}
	return max(int64(window)/(spans-1), 1)
}

func newRecent(span int64) *recent {
	r := &recent{span: span}
	for i := range r.bins {
		r.bins[i].number.Store(math.MinInt64)
	}
	return r
}

// add counts n tokens that were allowed at now. If the next span begins
// meanwhile, the tokens may count in that span. They are lost only if the times that two
// callers pass differ by more than ahead.
func (r *recent) add(now stage.Instant, n int64) {
	number := int64(now) / r.span
	b := &r.bins[uint64(number)%spans]
	if last := b.number.Load(); last < number || last-number > ahead/r.span {
		if before := b.n.Load(); b.number.CompareAndSwap(last, number) {
			b.n.Add(-before)
		}
	}
	b.n.Add(min(n, maxCost))
	r.total.Add(min(n, maxCost))
}

// correct adds n to the tokens that were taken at then. n is negative if the event cost less.
// A negative n changes the window's sum only if then is within the window.
func (r *recent) correct(then, now stage.Instant, n int64) {
	if n > 0 {
		r.add(now, n)
		return
	}
	r.total.Add(max(n, -maxCost))
	number := int64(then) / r.span
	if b := &r.bins[uint64(number)%spans]; b.number.Load() == number {
		b.n.Add(max(n, -maxCost))
	}
}

// sum returns how many tokens were allowed in the window that ends at now, or after now. It
// may include tokens of up to one span before the window.
func (r *recent) sum(now stage.Instant) (n int64) {
	last := int64(now) / r.span
	for i := range r.bins {
		if number := r.bins[i].number.Load(); number > last-spans {
			n += r.bins[i].n.Load()
		}
	}
	return n
}
