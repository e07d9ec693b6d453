// SPDX-License-Identifier: Apache-2.0

// Package driver is for programs that drive a limiter.Group themselves, instead of
// calling its Run: simulators and load tools, on a clock of theirs. It has the options of
// a Group, too, that only they and a headgate.Node need. Services do not need it.
//
//	group := limiter.NewGroup(snapshot, hosts, driver.WithSeed(1))
//	d := driver.Of(group)
//	for _, b := range d.Report(now) {
//		… // ask the owners about b.Usage
//		err := d.Apply(now, b, nil, grants)
//		d.Done(b)
//	}
//
// The Group's own methods take the time as an argument, such as AllowN and InspectAt, and
// so does the stage of a Limiter.
//
// Out of scope: who answers a report.
package driver

import (
	"context"
	"fmt"
	"slices"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/internal/keys"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// Batch is what a host reports at one time about its keys of one algorithm.
type Batch = report.Batch

// Driver drives a Group by hand. All methods are safe for concurrent use.
type Driver struct{ keys *keys.Set }

// Of returns the Driver of g.
func Of(g *limiter.Group) Driver { return Driver{(*keys.Handle)(g).Set()} }

// Configure is Group.Configure at now.
func (d Driver) Configure(now stage.Instant, snapshot *dynamicconfig.Snapshot) {
	d.keys.Configure(now, snapshot)
}

// SetHosts is Group.SetHosts at now.
func (d Driver) SetHosts(now stage.Instant, hosts int) { d.keys.SetHosts(now, hosts) }

// Introduce is Group.Introduce at now.
func (d Driver) Introduce(now stage.Instant) { d.keys.Introduce(now) }

// RunReports is Group.Run without the listeners.
func (d Driver) RunReports(ctx context.Context, updater usage.Updater) {
	d.keys.Reports().Run(ctx, updater)
}

// Listen has the listeners called until ctx ends. The channel is closed when all have returned.
func (d Driver) Listen(ctx context.Context) <-chan struct{} {
	returned := make(chan struct{})
	if d.keys.Listener == nil {
		close(returned)
		return returned
	}
	go func() {
		defer close(returned)
		d.keys.Listen(ctx)
	}()
	return returned
}

// Report gathers what was used since the last report that was answered, and
// does what time alone brings about: leases end, idle keys leave. It returns a
// Batch per algorithm, ordered by name.
func (d Driver) Report(now stage.Instant) []*Batch { return d.keys.Reports().Report(now) }

// NextEarly is when Early has something to do; it may be in the past, and far
// in the future when nothing is expected. It may become earlier whenever a
// limiter is used.
func (d Driver) NextEarly() stage.Instant { return d.keys.Reports().NextEarly() }

// Early reports what cannot wait at now: keys that run low or whose demand
// has changed. It returns nothing when it is called too soon. Like Report,
// its batches go to Apply, or to Fail.
func (d Driver) Early(now stage.Instant) []*Batch { return d.keys.Reports().Early(now) }

// Last has all limiters use their fallbacks, and gives back what they hold, as a host does that
// stops. Answers to its batches need not be applied.
func (d Driver) Last(now stage.Instant) []*Batch { return d.keys.Reports().Last(now) }

// Apply takes in the grants for some rows of b: grant i is for row rows[i],
// or for row i if rows is nil. Grants that make no sense are refused whole,
// with an error, and the keys go on as they were; so are rows that b does not have.
// A row that is never answered is reported again with the next Report.
func (d Driver) Apply(now stage.Instant, b *Batch, rows []int, grants *usage.Grants) error {
	if i := slices.IndexFunc(rows, lacking(b)); i >= 0 {
		return fmt.Errorf("limiter: apply: row %d of a batch of %d", rows[i], b.Usage.Len())
	}
	return d.keys.Reports().Apply(now, b, rows, grants)
}

// Fail says that rows of b, as in Apply, will not be answered. They are
// reported again with the next Report; keys that run low may ask again. Fail ignores
// rows that b does not have.
func (d Driver) Fail(now stage.Instant, b *Batch, rows []int) {
	d.keys.Reports().Fail(now, b, slices.DeleteFunc(slices.Clone(rows), lacking(b)))
}

// lacking returns whether b lacks a row.
func lacking(b *Batch) func(row int) bool {
	return func(row int) bool { return row < 0 || row >= b.Usage.Len() }
}

// Done says that no more answers to b will come, and that the caller does not use
// b.Usage any more: the next Report may use its memory. The garbage collector frees
// a batch for which Done is not called.
func (d Driver) Done(b *Batch) { d.keys.Reports().Done(b) }
