// SPDX-License-Identifier: Apache-2.0

package doors

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// However many large requests come, one processor of several is free of them.
func TestLargeRequestsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns()
		all := 3 * cap(turns)
		seen := make(chan int64, all)
		var running atomic.Int64
		for range all {
			go turns.Run(t.Context(), func() {
				seen <- running.Add(1)
				time.Sleep(time.Second)
				running.Add(-1)
			})
		}
		time.Sleep(time.Hour)
		highest := int64(0)
		for range all {
			highest = max(highest, <-seen)
		}
		if most := max(int64(runtime.GOMAXPROCS(0))-1, 1); highest != most || len(turns) != 0 {
			t.Errorf("%d at once, want %d; %d turns are taken afterwards", highest, most, len(turns))
		}
	})
}

// A client that goes while its request waits leaves nothing behind.
func TestAClientThatGoesMissesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns()
		for range cap(turns) {
			go turns.Run(t.Context(), func() { time.Sleep(time.Minute) })
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if turns.Run(ctx, func() { t.Error("it has its turn") }) || time.Since(began) != time.Second {
			t.Errorf("it waited for %v", time.Since(began))
		}
		time.Sleep(time.Hour)
	})
}
