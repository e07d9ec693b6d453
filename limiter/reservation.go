// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"time"

	"golang.org/x/time/rate"
)

// longestWait is how far a reservation may reach into the future.
const longestWait = rate.InfDuration

// lender is what a ticket's tokens came from.
type lender interface {
	// debt is how long until there are tokens again.
	debt(now Instant) time.Duration
	// refund returns tokens, and takes back that n were counted.
	refund(now Instant, tokens float64, n int)
}

// ticket is the Reservation of one bucket.
type ticket struct {
	from  lender // nil when not OK
	n     int
	limit rate.Limit // when it was taken
	taken Instant
	act   Instant
}

func (r *ticket) OK() bool { return r.from != nil }

func (r *ticket) Delay() time.Duration { return r.delay(Now()) }

func (r *ticket) DelayFrom(t time.Time) time.Duration { return r.delay(At(t)) }

func (r *ticket) delay(now Instant) time.Duration {
	if r.from == nil {
		return rate.InfDuration
	}
	return max(r.act.Sub(now), 0)
}

func (r *ticket) Cancel() { r.cancel(Now()) }

func (r *ticket) CancelAt(t time.Time) { r.cancel(At(t)) }

func (r *ticket) cancel(now Instant) {
	if r.from == nil || r.n == 0 || r.act < now {
		return
	}
	// Who reserved after us counts on having waited for our tokens.
	later := now.Add(r.from.debt(now)).Sub(r.act)
	tokens := float64(r.n)
	if later > 0 {
		tokens -= later.Seconds() * float64(r.limit)
	}
	r.from.refund(now, max(tokens, 0), r.n)
	r.n = 0
}

func (r *ticket) Used(used bool) {
	if used || r.from == nil || r.n == 0 {
		return
	}
	r.from.refund(r.taken, float64(r.n), r.n)
	r.n = 0
}
