// SPDX-License-Identifier: Apache-2.0

// Package stage is the contract between a limiter and what its tokens come
// from.
//
//	Limiter ── Request ──▶ Stage     a local bucket, a remote bucket, a pair
//	        ◀── Verdict,             under migration, somebody's *rate.Limiter
//	            Receipt
//	        ── Settle(Receipt) ──▶
//
// A Stage decides one Request with Take and undoes it with Settle. Allow is Take of
// one token that the caller never gives back, and returns less. There is no other way to take
// tokens or to give them back. Slots are the same for what is
// in flight: they are acquired, and released.
//
// Most programs need neither: they use package limiter. This package is for
// those that write a Stage, such as another limiter to migrate from, and for
// the simulator, which runs on virtual time. A Stage is tested like this:
//
//	v, receipt := s.Take(ctx, stage.Request{Now: now, N: 5})
//	if v.OK() {
//		s.Settle(now, receipt, 3) // it cost 3, and 2 come back
//	}
//
// The package has no clock but Now, no goroutine and no state.
//
// It knows no keys, and not which stages there are.
package stage
