// SPDX-License-Identifier: Apache-2.0

package breaker

import "time"

// slots is how many slots a window is counted in.
const slots = 10

// window counts calls of the recent past, in slots of a tenth of its length.
// The zero window is empty.
type window [slots]slot

// slot counts the calls that ended in one tenth of a window's length.
type slot struct {
	number        int64 // since the zero time; may be negative
	ended, failed int
}

// add counts a call that ended in the slot of that number.
func (w *window) add(number int64, failed bool) {
	s := &w[(number%slots+slots)%slots]
	if s.number < number || s.ended == 0 {
		*s = slot{number: number}
	}
	s.ended++
	if failed {
		s.failed++
	}
}

// sum is how many calls ended in the slots up to number, and how many of them
// failed.
func (w *window) sum(number int64) (ended, failed int) {
	for _, s := range w {
		if s.number > number-slots {
			ended += s.ended
			failed += s.failed
		}
	}
	return ended, failed
}

// slotOf is the number of the slot of now, in a window of length > 0.
func slotOf(now, length time.Duration) int64 {
	width := max(int64(length)/slots, 1)
	number := int64(now) / width
	if now < 0 {
		number-- // division rounds to zero
	}
	return number
}
