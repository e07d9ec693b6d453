// SPDX-License-Identifier: Apache-2.0

package report

import (
	"sync"

	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/internal/fit"
	"github.com/headgate/headgate/limiter/stage"
)

// retired lists the Subjects that no key has any more. A retired Subject stays
// until all of its usage has been reported and answered, or its key has a
// successor that takes the usage over, and until no slots are held; but at most
// maxRetired stay.
//
// A caller that found the Part before it was retired may use it later. It brings the Subject back.
type retired struct {
	subjects []retiree
	returned map[string]*Subject // by key, those that returnGrant has made since the last regular report

	mu   sync.Mutex // protects late
	late []*Subject // used after they were retired
}

// retiree is a Subject with the Instant by which all of its reports are answered, or
// given up. An answer to an older report does not say that the newest gets none.
type retiree struct {
	*Subject
	answered stage.Instant
}

// add adds s.
func (r *retired) add(now stage.Instant, s *Subject) {
	of := retiree{s, s.pending}
	if _, answered := s.Settled(); !answered {
		of.answered = now.Add(s.reporter.timeout())
	}
	r.subjects = append(r.subjects, of)
}

// maxRetired bounds the Subjects that wait for an answer while owners are silent and keys come and go. The oldest are given up first.
const maxRetired = 100_000

// addLate adds s, which was used although it was retired. Safe for concurrent use.
func (r *retired) addLate(s *Subject) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.late = append(r.late, s)
}

// report adds what retired Subjects have used to round, or hands it to their successors.
func (r *retired) report(now stage.Instant, round *Round) {
	r.mu.Lock()
	for _, s := range r.late {
		r.subjects = append(r.subjects, retiree{s, s.pending})
	}
	r.late = nil
	r.mu.Unlock()
	clear(r.returned)

	wait := r.subjects[:0]
	for _, s := range r.subjects {
		if s.finish(now, round) {
			wait = append(wait, s)
		}
	}
	if over := len(wait) - maxRetired; over > 0 {
		wait = wait[:copy(wait, wait[over:])]
	}
	clear(r.subjects[len(wait):])
	r.subjects = fit.Slice(wait)
}

// successor is what the key of s has now under the algorithm of s; nil if there is nothing.
func successor(s *Subject) *Subject { return s.reporter.successor(s.Common().Key(), s.Name()) }

// passOn has to report what s has used and not reported.
func passOn(now stage.Instant, s, to *Subject) {
	upTo := s.Count(now)
	allowed, rejected, _ := upTo.Since(s.Acked)
	to.Part().Inherit(bucket.Usage{Allowed: allowed, Rejected: rejected})
	to.Seen.Allowed += allowed // s has counted them
	to.Seen.Rejected += rejected
	s.Acked = upTo
}

// finish reports what s has used, and whether s must be looked at again.
func (s *retiree) finish(now stage.Instant, round *Round) (again bool) {
	b := s.Common()
	slots := s.Slots()
	held := slots != nil && slots.Census().Busy()
	if held {
		if to := successor(s.Subject); to != nil {
			next := to.Slots()
			held = next == nil || !slots.Transfer(next)
		}
	}
	if s.Rate != nil {
		// Callers that decide from here on see the mark. Callers that do not see
		// it have counted before.
		s.Part().Retire()
	}
	if now < max(s.pending, s.answered) { // the last report may still be answered
		return true
	}
	s.TakeUncharged() // the part that follows is charged for what the key lacks
	upTo := s.Count(now)
	s.AddToRule(upTo.Usage) // callers may have given back, too
	allowed, rejected, _ := upTo.Since(s.Acked)
	if !held {
		if allowed+rejected == 0 && (s.reportNo.Load() > 0 || !b.Given()) { // else it gives back its grant: see ContinueUnder
			return false
		}
		if to := successor(s.Subject); to != nil {
			if !b.Terms().Reports { // it has no owner
				return false
			}
			passOn(now, s.Subject, to)
			return false
		}
	}
	round.add(s.Subject)
	s.answered = round.answered
	return held || b.Terms().Reports // until it is answered
}
