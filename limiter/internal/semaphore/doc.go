// SPDX-License-Identifier: Apache-2.0

// Package semaphore limits how many slots are in flight on one host.
//
//	s := semaphore.New(10, nil)
//	hold, err := s.TryAcquire(stage.Now(), 1)
//	if errors.Is(err, stage.ErrFull) {
//		hold, err = s.Acquire(ctx, 1, 0) // waits; priority 0
//	}
//	if err == nil {
//		defer hold.Release()
//	}
//	s.Resize(20, 100) // at any time; may serve waiters
//	report(s.Wants(stage.Now()), s.Census().Held)
//
//	next := semaphore.New(5, nil)
//	s.Transfer(next) // next decides from now on, and counts what s's holders have
//
// Out of scope: the package knows no keys, rules, grants or reports. The caller decides the size,
// counts what was allowed and rejected, and looks up the successor after stage.ErrMoved. One lock
// guards a Semaphore.
package semaphore
