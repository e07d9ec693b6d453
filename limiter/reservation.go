// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/limiter/stage"
)

// Reservation holds tokens that were taken, or is not OK. It has the methods
// of *rate.Reservation, with the same meaning. It is for one goroutine at a
// time. The zero Reservation is not OK.
type Reservation struct{ taken taken }

// OK reports whether the tokens were taken.
func (r *Reservation) OK() bool { return r.taken.OK() }

// Delay is DelayFrom(now).
func (r *Reservation) Delay() time.Duration { return r.delay(stage.Now()) }

// DelayFrom is how long after t the holder must wait before it acts;
// rate.InfDuration if not OK. There is no wait while the rules let everything of the key
// through, as a bypass does.
func (r *Reservation) DelayFrom(t time.Time) time.Duration { return r.delay(stage.At(t)) }

func (r *Reservation) delay(now stage.Instant) time.Duration {
	if !r.OK() {
		return rate.InfDuration
	}
	wait := max(r.taken.acts.Sub(now), 0)
	if wait > 0 {
		if open, _ := r.taken.of.Open(); open {
			return 0
		}
	}
	return wait
}

// Cancel is CancelAt(now).
func (r *Reservation) Cancel() { r.taken.cancel(stage.Now()) }

// CancelAt says that the holder will not act. Tokens go back unless a later caller
// has reserved on top of them; a remote bucket, as the owner's under Auto, gets all of them
// back. When the time to act has passed, none go back.
func (r *Reservation) CancelAt(t time.Time) { r.taken.cancel(stage.At(t)) }
