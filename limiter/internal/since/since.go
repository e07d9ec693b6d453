// SPDX-License-Identifier: Apache-2.0

// Package since notes whether something holds, and since when.
package since

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limiter/stage"
)

// Since is whether something holds, and since when, to the second. It is as large as an
// atomic.Bool. The zero Since does not hold. It is safe for concurrent use.
type Since struct {
	second atomic.Uint32 // the Instant in seconds, at least 1; 0: it does not hold
}

// Holds reports whether it holds.
func (s *Since) Holds() bool { return s.second.Load() != 0 }

// At is since when it holds; false if it does not.
func (s *Since) At() (stage.Instant, bool) {
	second := s.second.Load()
	return stage.Instant(time.Duration(second) * time.Second), second != 0
}

// Begin says that it holds from now on. It returns false if it held already.
func (s *Since) Begin(now stage.Instant) bool {
	return s.second.Load() == 0 && s.second.CompareAndSwap(0, secondOf(now))
}

// Again says that it holds since now, also if it held already.
func (s *Since) Again(now stage.Instant) { s.second.Store(secondOf(now)) }

func secondOf(now stage.Instant) uint32 {
	return uint32(min(max(int64(now)/int64(time.Second), 1), math.MaxUint32))
}

// End says that it does not hold any more. It returns false if it did not hold.
func (s *Since) End() bool { return s.second.Load() != 0 && s.second.Swap(0) != 0 }
