// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"time"

	"github.com/headgate/headgate/internal/sim/traffic"
)

// Mark is a moment at which something changes.
type Mark struct {
	At   traffic.Time
	Text string
}

// Bucket compares what was admitted of one key, or of the keys that share a
// bucket, with one perfect bucket.
type Bucket struct {
	Name      string
	algorithm string // for people
	oracle    oracle
	meter     meter
	users     users
}

// NewBucket returns what compares a run that ends at end, of which amounts leave
// out the warmup.
func NewBucket(name, algorithm string, limit, burst float64, warmup, end traffic.Time) *Bucket {
	b := &Bucket{Name: name, algorithm: algorithm, oracle: newOracle(limit, burst), meter: meter{warmup: warmup, end: end}}
	b.meter.over.limits = []capacity{{0, limit, burst}}
	return b
}

// Lean makes b keep sums alone, whatever the length of the run. The result has
// no seconds, and neither settling nor saturation.
func (b *Bucket) Lean() { b.meter.lean = true }

// Decision is what a host decided about one event.
type Decision struct {
	Host     int
	Cost     int64
	Admitted bool
	Waited   time.Duration // for the network; 0: the host decided in memory
	Try      int           // of the client, from 1 on
	Last     bool          // the client does not try again if this was rejected
}

// Event takes in one event and what was decided about it.
func (b *Bucket) Event(now traffic.Time, d Decision) {
	b.meter.event(now, d.Cost, d.Admitted, b.oracle.allow(now, d.Cost))
	if now >= b.meter.measured() {
		b.users.event(d)
	}
}

// SetMarks says when something changes, in order of time.
func (b *Bucket) SetMarks(marks []Mark) {
	for _, m := range marks {
		b.meter.over.marks = append(b.meter.over.marks, m.At)
	}
}

// Limit is what the perfect bucket has now.
func (b *Bucket) Limit() (limit, burst float64) { return b.oracle.limit, b.oracle.burst }

// SetLimit changes the perfect bucket's limit from now on.
func (b *Bucket) SetLimit(now traffic.Time, limit, burst float64) {
	b.oracle.set(now, limit, burst)
	b.meter.over.limits = append(b.meter.over.limits, capacity{now, limit, burst})
}
