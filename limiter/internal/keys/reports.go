// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"context"
	"sync"

	"github.com/headgate/headgate/limiter/internal/fit"
	"github.com/headgate/headgate/limiter/internal/loop"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/stage"
	rpcusage "github.com/headgate/headgate/rpc/usage"
)

// Reports is what a Set says to the owners of its keys, and takes in of their answers. All
// methods are safe for concurrent use.
type Reports struct{ set *Set }

var _ loop.Steps = Reports{}

// Reports returns those of s.
func (s *Set) Reports() Reports { return Reports{s} }

// dormantAfter is how many intervals a key must be unused before it is idle.
const dormantAfter = 2

// Report gathers what was used since the last report that was answered, and
// does what time alone brings about: leases end, unused keys leave. It returns
// a Batch per algorithm, ordered by name.
func (r Reports) Report(now stage.Instant) []*report.Batch {
	s := r.set
	s.mu.Lock()
	defer s.mu.Unlock()

	s.mergeLocked()
	s.forgetIdleLocked(now, now)
	hosts, unused := s.Hosts(), dormantAfter*s.Interval()
	round := s.reporter.Begin(now, hosts)
	live := 0
	for at, k := range s.live {
		st := k.state.Load()
		if now.Sub(st.Used()) >= unused && s.idleLocked(now, k, st) {
			continue
		}
		fallback := false // one side of a migration, or both
		for _, p := range st.Subjects() {
			round.Visit(p, hosts)
			if _, inFallback := p.Part().InFallback(); inFallback {
				fallback = true
			}
		}
		if fallback {
			st.rule.usage.InFallback++
		}
		st.countDivergence()
		if st = k.state.Load(); st.forgettable(now) {
			s.dropLocked(now, k)
			continue
		}
		if live != at {
			s.live[live] = k
		}
		live++
	}
	clear(s.live[live:])
	s.live = fit.Slice(s.live[:live])
	s.hub.FlushLater(now)
	s.metrics.Keys.Update(float64(live + s.idle.len()))
	batches := round.Batches()
	s.metrics.Flush()
	s.metrics.FlushFallbacks()
	return batches
}

// NextEarly is when Early has something to do.
func (r Reports) NextEarly() stage.Instant { return r.set.reporter.Due() }

// Early reports what cannot wait at now; nothing if it is called too soon.
func (r Reports) Early(now stage.Instant) []*report.Batch {
	s := r.set
	if now < r.NextEarly() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.reporter.Early(now, s.Hosts())
}

// Apply takes in the grants for some rows of b: grant i is for row rows[i], or
// for row i if rows is nil. It refuses grants that make no sense, whole.
func (r Reports) Apply(now stage.Instant, b *report.Batch, rows []int, grants *rpcusage.Grants) error {
	s := r.set
	s.mu.Lock()
	defer s.mu.Unlock()

	err := s.reporter.Apply(now, b, rows, grants, s.Hosts())
	if err != nil {
		s.metrics.BadGrants.Inc(1)
	}
	return err
}

// Fail says that rows of b, as in Apply, will not be answered.
func (r Reports) Fail(now stage.Instant, b *report.Batch, rows []int) {
	s := r.set
	s.mu.Lock()
	defer s.mu.Unlock()

	s.reporter.Fail(now, b, rows)
}

// Done says that b is not used any more.
func (r Reports) Done(b *report.Batch) {
	s := r.set
	s.mu.Lock()
	defer s.mu.Unlock()

	s.reporter.Done(b)
}

// Last is the last report: the host wants nothing from now on.
func (r Reports) Last(now stage.Instant) []*report.Batch {
	s := r.set
	s.mu.Lock()
	defer s.mu.Unlock()

	s.mergeLocked()
	var subjects []*report.Subject
	for _, k := range s.live {
		st := k.state.Load()
		for _, p := range st.Subjects() {
			p.Tally(now) // most have nothing to give back
			subjects = append(subjects, p)
		}
		st.countDivergence()
	}
	batches := s.reporter.Last(now, s.Hosts(), subjects)
	s.metrics.Flush()
	return batches
}

// Run notifies the Listener, and reports to the owners of keys through updater, until ctx
// ends. Then it sends the charges to remote buckets that are left.
func (s *Set) Run(ctx context.Context, updater rpcusage.Updater) {
	var listening sync.WaitGroup
	listening.Go(func() { s.Listen(ctx) })
	defer listening.Wait()
	s.Reports().Run(ctx, updater)
}

// Listen runs the Listener, if there is one, until ctx ends.
func (s *Set) Listen(ctx context.Context) {
	if s.Listener != nil {
		s.Listener.Run(ctx, s.Log, s.metrics.Dropped.Inc)
	}
}

// Run is the Set's Run, but for the Listener.
func (r Reports) Run(ctx context.Context, updater rpcusage.Updater) {
	defer r.set.Flush()
	r.loop(updater).Run(ctx)
}

// Leave gives back what the host holds, and waits for the answers.
func (s *Set) Leave(ctx context.Context, updater rpcusage.Updater) {
	s.Reports().loop(updater).SendLast(ctx, s.Reports().Last(stage.Now()))
}

// loop is what reports to the owners of keys through updater.
func (r Reports) loop(updater rpcusage.Updater) *loop.Loop {
	s := r.set
	return &loop.Loop{
		Steps: r, Reporter: s.reporter, Updater: updater, Log: s.Log,
		Answered: s.metrics.Answered, Unanswered: s.metrics.Unanswered,
	}
}
