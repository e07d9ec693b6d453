// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"runtime"
	"sync"
	"testing"

	"github.com/headgate/headgate/internal/waittest"
)

// Whatever processors count at once, nothing is lost or counted as something
// else, and in the end each of them counts in a place of its own.
func TestCountsAreExactOnManyProcessors(t *testing.T) {
	var c counters
	var want [8]int64
	var mu sync.Mutex // protects want
	var wait sync.WaitGroup
	stop := make(chan struct{})
	for g := range max(4, runtime.GOMAXPROCS(0)) {
		wait.Go(func() {
			var mine [8]int64
			for i := g; ; i++ {
				select {
				case <-stop:
					mu.Lock()
					defer mu.Unlock()

					for at, n := range mine {
						want[at] += n
					}
					return
				default:
				}
				// One answer more often than others, as it is.
				at := []int{4, 5, 6, 7, 0, 1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3}[i%16]
				if !c.add(at, int64(i%3)) {
					c.addOwn(at, int64(i%3))
				}
				mine[at] += int64(i % 3)
			}
		})
	}
	if runtime.GOMAXPROCS(0) > 1 {
		waittest.Until(t, "each processor has its own", func() bool { return c.own.Load() != nil })
	}
	before := c.counts()
	waittest.Until(t, "more is counted", func() bool {
		now := c.counts()
		return now.Both > before.Both && now.OnlyOld > before.OnlyOld && now.OnlyNew > before.OnlyNew && now.Neither > before.Neither
	})
	close(stop)
	wait.Wait()
	if got := c.counts(); got != (Counts{
		Both:    want[3] + want[7], // new beside old, and old beside new
		OnlyOld: want[1] + want[6],
		OnlyNew: want[2] + want[5],
		Neither: want[0] + want[4],
	}) {
		t.Errorf("counted %+v, want %v", got, want)
	}
}
