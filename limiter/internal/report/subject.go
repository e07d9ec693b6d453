// SPDX-License-Identifier: Apache-2.0

package report

import (
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/internal/demand"
	"github.com/headgate/headgate/limiter/internal/ledger"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// Subject is a Part and the state of its reports. RanLow is safe for
// concurrent use.
type Subject struct {
	ledger.Ledger
	reporter *Reporter

	used    stage.Instant
	pending stage.Instant // until when the newest report may be answered
	mean    demand.Mean   // of late, if the algorithm shares by what hosts want

	// The numbers of the newest report, and of the newest that was answered,
	// modulo 2³². The Set's mu guards changes.
	reportNo, answeredNo atomic.Uint32

	pulse pulse
}

// pulse is how the demand of a Subject that reports early moves. early.mu
// protects what nothing else is said of.
type pulse struct {
	askAt atomic.Int64 // no early report for lack of tokens before this Instant

	class     demand.Class // of the list where it is looked at; demand.None: nowhere
	lingers   demand.Class // of another list that still has it
	retired   bool         // no key has it any more; the Group's lock guards changes, too
	waits     bool         // for an early report
	ungranted bool         // it had no grant when a decision last ran low

	// The Group's lock protects these three.
	refused uint8 // answers without a grant since the last event
	credit  uint8 // reports without an event that events pay for
	// ownerKnows says that the key's owner knows of all that was allowed before the Subject went on
	// under other terms, or learns of it from the reports to come. An answer to a report ends it:
	// from then on, the owner does not know of what is unreported.
	ownerKnows bool

	total   int64 // cost at the last look
	looked  stage.Instant
	demand  demand.Estimate
	changed stage.Instant // when demand last changed; of a host that may ask, fell
	gap     time.Duration // to the next early report
}

// NewSubject returns the Subject of p. The caller has not published p yet.
func (r *Reporter) NewSubject(now stage.Instant, p share.Part) *Subject {
	s := &Subject{Ledger: ledger.New(now, p), reporter: r, used: now}
	s.pulse.gap, s.pulse.credit = shortestGap, maxFollowUps
	if s.Asks() {
		s.pulse.credit = 1 // for its first event, which is asked for
	}
	p.Common().Observer = s
	return s
}

// SetPart replaces the Part by another view of the same Rate, such as one that
// also asks the key's owner. Decisions go on meanwhile: they look at the Rate.
func (s *Subject) SetPart(now stage.Instant, p share.RatePart) {
	s.Tally(now) // while part says what was admitted
	s.Ledger.SetPart(p)
}

// Tally adds what is new to the Counts of the rule in force, before another one is. The result is
// what the Part has counted.
func (s *Subject) Tally(now stage.Instant) (upTo ledger.Reading) {
	if upTo = s.Count(now); upTo.Usage != s.Seen {
		s.used = now
	}
	s.AddToRule(upTo.Usage)
	return upTo
}

// ContinueUnder has s go on under t, without its grant. The host has recently used so many tokens. The result
// is how many of them the remote bucket of t has not been charged with. The owner of a key has one pool
// for exact, auto and elastic, so that pool has been charged with what the owner paid and with what was reported.
func (s *Subject) ContinueUnder(now stage.Instant, t *share.Terms, used int64, hosts int) (unknown int64) {
	was, pending := s.Terms(), s.TakeUncharged()
	pools, known := was.Traits.Pooled && t.Traits.Pooled, s.pulse.ownerKnows
	if pools {
		s.pulse.ownerKnows = true
	}
	switch {
	case pools && !was.Reports:
		s.Paid(now)
		used = 0
	case pools && s.Common().Granted():
		if !t.Reports || !s.HasUnreported(now) { // else the next report says what was used of the grant
			s.returnGrant(now)
		}
		used = min(used, pending)
	case pools && t.Reports && was.Traits.Asks:
		used = 0
	case pools && was.Traits.Asks:
		used = min(used, s.Unreported(now))
	default:
		if pools && known { // elastic has brought no grant
			used = min(used, s.Unreported(now)+pending)
		}
		if t.Reports && t.Traits.Pooled { // reports come beside the charge
			s.Paid(now)
		}
	}
	s.Part().SetTerms(now, t) // first, because the old fallback may let all pass
	if last := s.reporter.retired.returned[s.Common().Key()]; last != nil && last.Name() == t.Name() {
		passOn(now, last, s) // now, because the host may ask before the next regular report
	}
	s.Part().Forget(now, hosts)
	return used
}

// TakeOver has the key's owner charged with n of the tokens that this host used before it asks for those of s.
func (s *Subject) TakeOver(now stage.Instant, n int64) {
	if n > 0 {
		s.Charge(now, n)
		s.reporter.early.reportSoon(now, s, coalesce)
	}
}

// returnGrant returns the grant of s, which goes on under other terms: the next regular report says under the terms in
// force what s has used and not reported yet. An earlier one under the other terms would have the owner take that for unused.
func (s *Subject) returnGrant(now stage.Instant) {
	upTo := s.Count(now)
	allowed, rejected, _ := upTo.Since(s.Acked)
	p := share.NewRate(now, s.Common().Key(), s.Terms(), 1, 0, 0)
	p.Inherit(bucket.Usage{Allowed: allowed, Rejected: rejected})
	p.State(0)
	p.SetGrant(share.Grant{Given: true, Until: now})
	last := s.reporter.NewSubject(now, p)
	last.Acked.At, last.Seen = s.Acked.At, last.Count(now).Usage
	last.Retire(now)
	s.Acked = upTo
	s.reporter.retired.returned[s.Common().Key()] = last
}

// Used is when a report last found new usage.
func (s *Subject) Used() stage.Instant { return s.used }

// Begin makes s watch its demand from now on, if its algorithm wants that. The first
// report may wait, unless what there is without a grant runs low. Keys call Begin when s
// is new, and when its terms have changed.
func (s *Subject) Begin(now stage.Instant) {
	switch e := &s.reporter.early; {
	case s.Early():
		e.pulse(s, func(p *pulse) {
			p.askAt.Store(int64(now))
			s.Rate.Bucket().SetLow(s.Rate.Bucket().Uncached(now) / 2)
			e.activateLocked(now, s)
		})
	case s.Rate != nil:
		s.Rate.Bucket().SetLowNever()
	}
}

// Idle reports whether nothing is lost by forgetting s now.
func (s *Subject) Idle(now stage.Instant) bool {
	if s.Terms().Traits.Wants && s.mean > 0 {
		return false // the owner must learn that the host wants nothing
	}
	return s.Part().Idle(now)
}

// Dormant reports whether s has nothing to report and nothing to lose.
func (s *Subject) Dormant(now stage.Instant) (dormant bool) {
	switch {
	case s.Rate == nil || !s.Idle(now) || now < s.pending || s.HasUncounted(now) || s.Terms().Reports && s.HasUnreported(now):
		return false
	case s.Early(): // a few events a minute are still a demand
		s.reporter.early.pulse(s, func(p *pulse) { dormant = p.demand.Reported() <= quietDemand })
		return dormant
	}
	return true
}

// Retire ends s: no key has it any more. The next reports have the usage that s has
// not reported yet, and that of late callers.
func (s *Subject) Retire(now stage.Instant) {
	s.Part().Retire()
	s.AddToRule(s.Count(now).Usage) // the rule may be gone before the next report
	s.reporter.early.pulse(s, func(p *pulse) { p.retired = true })
	s.reporter.retired.add(now, s)
}

// Successor implements share.Observer.
func (s *Subject) Successor() *share.Rate {
	if to := successor(s); to != nil {
		return to.Rate
	}
	return nil
}

// State states the demand of s, or share.Measured, and reports it soon if that
// can help soon.
func (s *Subject) State(now stage.Instant, wants float64) {
	if s.Common().State(wants) && s.Prompt() {
		s.reporter.early.reportSoon(now, s, coalesce)
	}
}

// regular reports whether a Subject that reports early takes part in a regular
// report: not if it has just reported, is about to be answered, or has nothing
// to say.
func (s *Subject) regular(now stage.Instant, recent time.Duration) bool {
	if now < s.pending || now.Sub(s.Acked.At) < recent && s.Common().Given() {
		return false
	}
	return s.HasUnreported(now) || s.Uncharged() > 0 || s.needsReport(now)
}

// largeBurst reports whether the limit's burst is so many events that it does little harm if the first
// few events on a host are mistaken for a burst.
func (p *pulse) largeBurst(burst float64) bool { return burst >= largeBurstEvents*p.demand.Unit() }

// maxFollowUps is how many reports without an event follow one with an event, once
// the bucket is full. An owner takes a host for gone that is silent for 1.75 intervals.
const maxFollowUps = 2

// maxCredit bounds the reports without an event that are paid for.
const maxCredit = 128

// payForReport spends credit on a report of events that cost n tokens, by a host that may ask. Each event pays for a
// report, so the host reports no key more often than it has events, and asks for the event
// after a silence. A host that may not ask would have no tokens for that event.
func (s *Subject) payForReport(n int64) {
	p := &s.pulse
	credit := float64(p.credit)
	if n > 0 {
		p.refused = 0
		credit = min(credit+max(float64(n)/p.demand.Unit(), 1), maxCredit)
	}
	p.credit = uint8(max(credit-1, 0))
}

// worthReporting reports whether an urgent report of s is paid for, has a stated demand, or may
// bring a grant. Without a grant, each event is asked for, and only then is there a reason
// not to wait.
func (s *Subject) worthReporting(now stage.Instant) bool {
	_, stated := s.Common().Stated()
	return !s.Asks() || stated || !s.Common().Granted() || s.pulse.credit > 0 || s.HasUnreported(now)
}

// needsReport reports whether s must be reported although there was no event. A
// stated demand is kept up. While there is a measured one, the tokens that the host
// saves up are news until its bucket is full; then, for a while, that no event
// followed. So is that there is no token for the next event.
func (s *Subject) needsReport(now stage.Instant) bool {
	p, bucket := &s.pulse, s.Rate.Bucket()
	_, stated := s.Common().Stated()
	wanted, full, credit := p.demand.Reported() > quietDemand, bucket.Full(now), p.credit
	if full {
		credit = min(credit, maxFollowUps)
	}
	switch {
	case stated || wanted && !full && !s.Asks():
		return true
	case credit == 0 || !wanted && bucket.Uncached(now) >= p.demand.Unit():
		s.reporter.early.pulse(s, func(p *pulse) { p.demand.Fade() }) // its owner will soon assume that it is gone
		return false
	case !s.Asks():
		credit--
	}
	p.credit = credit
	return true
}

// wants is the demand of a Subject that does not report early: a moving average
// of what was asked for, and the callers that wait now; or what was stated.
func (s *Subject) wants(now stage.Instant, total int64, period time.Duration) float64 {
	if s.used != now { // nothing is new: the last report was not answered
		total = 0
	}
	s.mean.Add(float64(total), period.Seconds())
	if wants, ok := s.Common().Stated(); ok {
		return wants
	}
	if slots := s.Slots(); slots != nil {
		return slots.Wants(now)
	}
	return float64(s.mean) + demand.CatchUp(s.Part().Tokens(now))
}

// RanLow implements share.Observer. It is cheap unless a report is due.
func (s *Subject) RanLow(now stage.Instant, waits bool) {
	if s.Rate == nil {
		s.reporter.early.slotsShort(now, s, waits)
		return
	}
	if late, first := s.Rate.Bucket().UnsetLowAlways(); late {
		if first {
			s.reporter.retired.addLate(s)
		}
		return
	}
	if int64(now) >= s.pulse.askAt.Load() {
		s.reporter.early.ranLow(now, s, waits)
	}
}

// Demand implements share.Observer.
func (s *Subject) Demand(now stage.Instant) (wants, unit float64) {
	e := &s.reporter.early
	if s.Rate == nil || !e.mu.TryLock() {
		return 0, 1
	}
	defer e.mu.Unlock()

	e.activateLocked(now, s)
	d := &s.pulse.demand
	n, elapsed := s.pulse.since(ledger.Reading{Usage: s.Rate.Bucket().Usage(), At: now})
	if n <= d.Unit() && elapsed > turn.Seconds() && s.pulse.largeBurst(s.Terms().Rule.Burst) { // a burst may begin: it is measured from here on
		d.Tick(0, elapsed)
		s.pulse.looked, elapsed = now, 0
	}
	wants = d.Latest(n, elapsed)
	e.watch.sooner(now, s, wants)
	return wants, d.Unit()
}

// Settled implements share.Observer. If reportNo is the same as an earlier answeredNo, both were so at the
// time of the second load, because answeredNo never overtakes reportNo.
func (s *Subject) Settled() (number uint32, ok bool) {
	answered := s.answeredNo.Load()
	number = s.reportNo.Load()
	return number, number == answered
}
