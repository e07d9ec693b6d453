// SPDX-License-Identifier: Apache-2.0

package roster

import "time"

// Damping says how long a host that was lost often must wait before it is
// on the ring again.
type Damping struct {
	// Window is for how long a loss counts.
	Window time.Duration
	// Free is the number of losses within Window that cost nothing.
	Free int
	// First is the wait after one loss more than Free, counted from that
	// loss. Each further loss doubles it, up to Most.
	First, Most time.Duration
}

// DefaultDamping lets a host be lost twice in two minutes.
var DefaultDamping = Damping{Window: 2 * time.Minute, Free: 2, First: 5 * time.Second, Most: 30 * time.Second}

// Until returns the end of the wait of a host that was lost at these times,
// in order. The result is not after now when the host need not wait.
func (d Damping) Until(losses []time.Time, now time.Time) time.Time {
	recent := d.recent(losses, now)
	over := len(recent) - d.Free
	if over <= 0 {
		return time.Time{}
	}
	wait := d.First
	for range over - 1 {
		if wait >= d.Most {
			break
		}
		wait *= 2
	}
	return recent[len(recent)-1].Add(min(wait, d.Most))
}

// recent returns the losses that count at now.
func (d Damping) recent(losses []time.Time, now time.Time) []time.Time {
	for len(losses) > 0 && now.Sub(losses[0]) >= d.Window {
		losses = losses[1:]
	}
	return losses
}
