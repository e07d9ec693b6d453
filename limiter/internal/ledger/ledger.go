// SPDX-License-Identifier: Apache-2.0

// Package ledger is what a Part has counted, and how much of that was reported to the key's owner. It is
// arithmetic: package report decides when to report, and has the lock that guards a Ledger. It knows no
// owner and no message.
package ledger

import (
	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// Ledger is how much of what a Source has counted was reported to the key's owner, and added to the Counts
// of the rule.
type Ledger struct {
	Source
	Acked Reading      // counters as of the last report that was answered
	Seen  bucket.Usage // the part of the counters that the rule's Counts have
}

// New returns the Ledger of p. The caller has not published p yet.
func New(now stage.Instant, p share.Part) Ledger {
	return Ledger{Source: Source{share.RateOf(p), p}, Acked: Reading{At: now}}
}

// AddToRule adds what is new in upTo to the Counts of the rule. Of a key that a decision has just
// made live, nothing is new, and AddToRule writes nothing: the lock of the Counts is not held then.
func (l *Ledger) AddToRule(upTo bucket.Usage) {
	terms := l.Terms()
	elsewhere, back := l.part.TakeAdmitted(terms.Asked), int64(0)
	if l.Rate != nil && share.HasBeside(l.Rate) {
		back = share.TakeBack(l.Rate)
	}
	if c := terms.Counts; c != nil && (upTo != l.Seen || elsewhere|back != 0) {
		c.Allowed += upTo.Allowed - l.Seen.Allowed + elsewhere + back
		c.Rejected += upTo.Rejected - l.Seen.Rejected - elsewhere
	}
	l.Seen = upTo
}

// Unreported is what was allowed since the last report that was answered.
func (l *Ledger) Unreported(now stage.Instant) int64 {
	allowed, _, _ := l.Count(now).Since(l.Acked)
	return allowed
}

// Paid says that the key's owner has paid for all that was allowed until now. Later reports count
// that as rejected, so that the owner takes it for demand and does not charge it again.
func (l *Ledger) Paid(now stage.Instant) {
	allowed := l.Unreported(now)
	l.Acked.Allowed += allowed
	l.Acked.Rejected -= allowed
}

// Charge has the next report charge the owner with n tokens, and with what was allowed since the last one, which then
// is no demand. What was rejected since is.
func (l *Ledger) Charge(now stage.Instant, n int64) {
	allowed := l.Unreported(now)
	share.AddUncharged(l.Rate, n, allowed)
	l.Acked.Allowed += allowed
}

// TakeUncharged ends the Charge: what was allowed is to be reported as it is. It returns how many tokens the owner was
// to be charged with beside that.
func (l *Ledger) TakeUncharged() (n int64) {
	if l.Rate == nil {
		return 0
	}
	n, allowed := share.TakeUncharged(l.Rate)
	l.Acked.Allowed -= allowed
	return n
}

// Uncharged is how many tokens the owner is to be charged with beside what was allowed since the last report.
func (l *Ledger) Uncharged() int64 {
	if l.Rate == nil {
		return 0
	}
	return l.Rate.Uncharged()
}

// HasUncounted reports whether there is usage that no report has found yet.
func (l *Ledger) HasUncounted(now stage.Instant) bool { return l.Count(now).Usage != l.Seen }

// HasUnreported reports whether there was an event since the last report that was answered.
func (l *Ledger) HasUnreported(now stage.Instant) bool {
	upTo := l.Count(now)
	return upTo.Allowed > l.Acked.Allowed || upTo.Rejected > l.Acked.Rejected
}
