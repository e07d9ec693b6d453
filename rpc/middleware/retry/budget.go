// SPDX-License-Identifier: Apache-2.0

package retry

import "sync"

// budget is how many retries the calls of a Retrier may still make.
type budget struct {
	ratio, spare float64

	mu   sync.Mutex // protects following field
	left float64
}

// call adds what a new call brings.
func (b *budget) call() {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.left = min(b.left+b.ratio, b.spare)
}

// retry takes one retry out, if there is one.
func (b *budget) retry() bool {
	b.mu.Lock()
	defer b.mu.Unlock()

	// Sums of tenths are a little less than they should be.
	if b.left < 1-1e-9 {
		return false
	}
	b.left = max(b.left-1, 0)
	return true
}
