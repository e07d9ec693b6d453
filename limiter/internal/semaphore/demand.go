// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"math"

	"github.com/headgate/headgate/limiter/stage"
)

const (
	// memory is the time constant, in seconds, with which peaks fade.
	memory = 3.0

	// maxRefused bounds the refused slots that are counted between two calls
	// of Wants.
	maxRefused = 1 << 40
)

// demand estimates how many slots the host would use if it could: the slots
// that are held or waited for, of which a peak counts for some seconds, and
// those that were refused. It reads no clock, because that would cost as much
// as all the rest. Its mean is over the levels that callers found when they
// arrived. For random arrivals that is the mean over time, and for bursts it
// is what the burst needs. The zero demand has seen nothing.
type demand struct {
	level     int64 // slots that are held or waited for, now
	suspended int64 // slots that callers wait for beyond the limit; level does not have them

	// Since the last call of wants:
	peak     int64   // highest level
	arrivals int64   // calls
	met      float64 // sum of the levels that the calls found
	entered  int64   // slots that were taken or waited for
	refused  int64   // slots that were refused
	need     int64   // the most that one call was refused

	average float64 // moving average of the means
	recent  float64 // peaks, which fade to average
}

// enter counts n slots that are taken or waited for from now on.
func (d *demand) enter(n int64) {
	d.arrivals++
	d.met += float64(d.level)
	d.entered += n
	d.level += n
	d.peak = max(d.peak, d.level)
}

// leave counts n slots as neither held nor waited for any more.
func (d *demand) leave(n int64) { d.level -= n }

// suspend stops counting n slots that a caller waits for, because the limit is below what the caller
// needs. If n is negative, it counts them again.
func (d *demand) suspend(n int64) {
	d.level -= n
	d.suspended += n
}

// refuse counts n slots that were refused.
func (d *demand) refuse(n int64) {
	d.arrivals++
	d.met += float64(d.level)
	d.refused = min(d.refused+n, maxRefused)
	d.need = max(d.need, n)
}

// wants is the demand in slots, a whole number, after seconds since the last
// call.
//
// Refused slots would have been held as long as the others were, so they would
// add to the mean in proportion. They add at most as much as the peak, because
// callers that retry are counted once for each retry.
func (d *demand) wants(seconds float64) float64 {
	mean := (d.met + float64(d.level)) / float64(d.arrivals+1)
	peak, refused := float64(max(d.peak, d.level)), float64(d.refused)
	more := max(min(refused, refused*mean/float64(max(d.entered, 1)), peak), float64(d.need))
	kept := math.Exp(-max(seconds, 0) / memory)
	d.average = mean + (d.average-mean)*kept
	d.recent = max(peak+more, d.average+max(d.recent-d.average, 0)*kept)

	d.peak, d.arrivals, d.met, d.entered, d.refused, d.need = d.level, 0, 0, 0, 0, 0
	return math.Round(d.recent)
}

// Wants is the demand at now in slots, a whole number. It is estimated from
// what happened since the last call, and from the calls before.
func (s *Semaphore) Wants(now stage.Instant) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.starved = s.demand.refused > 0 || s.demand.level > s.held
	seconds := now.Sub(s.measured).Seconds()
	s.measured = now
	s.wanted = s.demand.wants(seconds)
	return s.wanted
}

// Census is the state of a Semaphore at one moment.
type Census struct {
	Size    int64
	Held    int64 // more than Size after a cut
	Waiting int64 // slots that callers wait for
	Aside   int64 // of Waiting, the slots of callers that need more than Size, and let others pass
	InVain  int64 // of Waiting, the slots of callers that need more than the size can become

	// Starved says that slots had been refused, or were waited for and may come,
	// when Wants was last called. Wanted is what that call returned.
	Starved bool
	Wanted  float64
}

// Census returns the state now.
func (s *Semaphore) Census() Census {
	s.mu.Lock()
	defer s.mu.Unlock()

	return Census{s.size, s.held, s.demand.level + s.demand.suspended - s.held, s.oversized.slots, s.demand.suspended, s.starved, s.wanted}
}

// Free is how many slots are free; negative after a cut.
func (c Census) Free() int64 { return c.Size - c.Held }

// Busy reports whether slots are held or waited for.
func (c Census) Busy() bool { return c.Held > 0 || c.Waiting > 0 }

// Idle reports whether the semaphore is not busy, and the last Wants was 0, so that
// the owner knows already that the host wants nothing.
func (c Census) Idle() bool { return !c.Busy() && c.Wanted == 0 }
