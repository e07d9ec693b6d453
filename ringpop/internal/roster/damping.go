// SPDX-License-Identifier: Apache-2.0

package roster

import "time"

// A host that was lost often waits before it is on the ring again.
const (
	// window is for how long a loss counts.
	window = 2 * time.Minute

	// freeLosses is the number of losses within window that cost nothing.
	freeLosses = 2

	// firstWait is the wait after one loss more than that, counted from that loss. Each
	// further loss doubles it, up to longestWait.
	firstWait   = 5 * time.Second
	longestWait = 30 * time.Second
)

// waitEnds returns the end of the wait of a host that was lost at these times, in order.
// The result is not after now when the host need not wait.
func waitEnds(losses []time.Time, now time.Time) time.Time {
	lately := recent(losses, now)
	over := len(lately) - freeLosses
	if over <= 0 {
		return time.Time{}
	}
	return lately[len(lately)-1].Add(min(firstWait<<min(over-1, maxLosses), longestWait))
}

// recent returns the losses that count at now.
func recent(losses []time.Time, now time.Time) []time.Time {
	for len(losses) > 0 && now.Sub(losses[0]) >= window {
		losses = losses[1:]
	}
	return losses
}
