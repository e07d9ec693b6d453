// SPDX-License-Identifier: Apache-2.0

package processor

import (
	"runtime"
	"testing"
)

func TestOf(t *testing.T) {
	for n := range 2 * Number() {
		if got := Of(n + 1); got < 0 || got > n {
			t.Errorf("Of(%d) = %d", n+1, got)
		}
	}
}

// As long as two goroutines run, each on its own processor, they are others.
func TestProcessorsDiffer(t *testing.T) {
	if Number() < 2 {
		t.Skip("there is one processor only")
	}
	seen := make(chan int)
	done := make(chan struct{})
	defer close(done)
	for range Number() {
		go func() {
			for {
				select {
				case seen <- Of(Number()):
				case <-done:
					return
				}
				runtime.Gosched()
			}
		}()
	}
	first := <-seen
	for <-seen == first { // until the test's time is over
	}
}
