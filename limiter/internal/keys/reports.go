// SPDX-License-Identifier: Apache-2.0

package keys

import (
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

// restful is how many intervals a key must be unused before it is idle.
const restful = 2

// Report gathers what was used since the last report that was answered, and
// does what time alone brings about: leases end, unused keys leave. It returns
// a Batch per algorithm, ordered by name.
func (r Reports) Report(now stage.Instant) []*report.Batch {
	s := r.set
	s.mu.Lock()
	defer s.mu.Unlock()

	s.mergeLocked()
	s.forgetIdleLocked(now, false)
	s.hub.FlushLater(now)
	hosts, unused := s.Hosts(), restful*s.Interval()
	round := s.reporter.Begin(now, hosts, s.successor)
	live := 0
	for at, k := range s.live {
		st := k.state.Load()
		if len(st.parts()) == 1 && now.Sub(st.pair[0].Used()) >= unused && s.idleLocked(now, k, st) {
			continue
		}
		for _, p := range st.parts() {
			if round.Visit(p, hosts) {
				s.fell(now, p)
			}
			if p.Part().Fallen() {
				r.fellLocked(st.rule)
			}
			if of := remoteOf(p.Part()); of != nil {
				of.FlushLater(now)
			}
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
	s.live = report.Fitted(s.live[:live])
	s.metrics.Keys.Update(float64(live + len(s.idle)))
	r.flushFallenLocked()
	batches := round.Batches()
	s.settings.Load().rules.flush(s.metrics)
	return batches
}

// fellLocked counts a key of a that uses its fallback.
func (r Reports) fellLocked(a *ruleState) {
	if a.fallen++; a.fallen == 1 {
		r.set.fallen = append(r.set.fallen, a)
	}
}

// flushFallenLocked puts what fellLocked has counted in the metrics.
func (r Reports) flushFallenLocked() {
	s := r.set
	for _, a := range s.fallen {
		s.metrics.Fell(a.key(), a.fallen)
		a.fallen = 0
	}
	s.metrics.FlushFallen()
	clear(s.fallen)
	s.fallen = s.fallen[:0]
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

// Done says that nobody uses b any more.
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
	s.eachLocked(func(p *report.Subject) { subjects = append(subjects, p) })
	batches := s.reporter.Last(now, s.Hosts(), subjects)
	s.settings.Load().rules.flush(s.metrics)
	return batches
}

// Loop is what reports to the owners of keys through updater.
func (r Reports) Loop(updater loop.Updater) *loop.Loop {
	s := r.set
	return &loop.Loop{
		Steps: r, Reporter: s.reporter, Updater: updater, Log: s.Log,
		Answered: s.metrics.Answered, Unanswered: s.metrics.Unanswered,
	}
}
