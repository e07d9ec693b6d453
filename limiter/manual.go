// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// Batch is what a host reports at one time about its keys of one algorithm.
type Batch = report.Batch

// Manual drives a Group by hand, on a clock of the caller's, instead of Run:
// for simulators and load tools. Services do not need it.
//
//	m := group.Manual()
//	for _, b := range m.Report(now) {
//		… // ask the owners about b.Usage
//		err := m.Apply(now, b, nil, grants)
//		m.Done(b)
//	}
//
// All methods are safe for concurrent use.
type Manual struct{ g *Group }

// Manual returns what drives g by hand.
func (g *Group) Manual() Manual { return Manual{g} }

// Configure is Group.Configure at now.
func (m Manual) Configure(now stage.Instant, snapshot *dynamicconfig.Snapshot) {
	m.g.keys.Configure(now, snapshot)
}

// SetHosts is Group.SetHosts at now.
func (m Manual) SetHosts(now stage.Instant, hosts int) { m.g.keys.SetHosts(now, hosts) }

// Introduce is Group.Introduce at now.
func (m Manual) Introduce(now stage.Instant) { m.g.keys.Introduce(now) }

// Report gathers what was used since the last report that was answered, and
// does what time alone brings about: leases end, idle keys leave. It returns a
// Batch per algorithm, ordered by name.
func (m Manual) Report(now stage.Instant) []*Batch { return m.g.keys.Reports().Report(now) }

// NextEarly is when Early has something to do; it may be in the past, and far
// in the future when nothing is expected. It may become earlier whenever a
// limiter is used.
func (m Manual) NextEarly() stage.Instant { return m.g.keys.Reports().NextEarly() }

// Early reports what cannot wait at now: keys that run low or whose demand
// has changed. It returns nothing when it is called too soon. Like Report,
// its batches go to Apply, or to Fail.
func (m Manual) Early(now stage.Instant) []*Batch { return m.g.keys.Reports().Early(now) }

// Apply takes in the grants for some rows of b: grant i is for row rows[i],
// or for row i if rows is nil. Grants that make no sense are refused whole,
// with an error, and the keys go on as they were. A row that is never
// answered is reported again with the next Report.
func (m Manual) Apply(now stage.Instant, b *Batch, rows []int, grants *usage.Grants) error {
	return m.g.keys.Reports().Apply(now, b, rows, grants)
}

// Fail says that rows of b, as in Apply, will not be answered. They are
// reported again with the next Report; keys that run low may ask again.
func (m Manual) Fail(now stage.Instant, b *Batch, rows []int) { m.g.keys.Reports().Fail(now, b, rows) }

// Done says that no more answers to b will come, and that the caller does not use
// b.Usage any more: the next Report may use its memory. The garbage collector frees
// a batch for which Done is not called.
func (m Manual) Done(b *Batch) { m.g.keys.Reports().Done(b) }
