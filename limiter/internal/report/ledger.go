// SPDX-License-Identifier: Apache-2.0

package report

import (
	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/stage"
)

// ledger is how much of what a source has counted is known to the key's owner, and to the Counts
// of the rule.
type ledger struct {
	source
	acked reading      // counters as of the last report that was answered
	seen  bucket.Usage // the part of the counters that the rule's Counts have
}

// tally adds what is new in upTo to the Counts of the rule. Of a key that a decision has just
// made live, nothing is new, and tally writes nothing: the lock of the Counts is not held then.
func (l *ledger) tally(upTo bucket.Usage) {
	terms := l.terms()
	elsewhere := l.part.TakeElsewhere(terms.Asked)
	if c := terms.Counts; c != nil && (upTo != l.seen || elsewhere != 0) {
		c.Allowed += upTo.Allowed - l.seen.Allowed + elsewhere
		c.Rejected += upTo.Rejected - l.seen.Rejected - elsewhere
	}
	l.seen = upTo
}

// unreported is what was allowed since the last report that was answered.
func (l *ledger) unreported(now stage.Instant) int64 {
	allowed, _, _ := l.count(now).since(l.acked)
	return allowed
}

// paid says that the key's owner has paid for all that was allowed until now. Later reports show
// that as refused: it is demand, and the owner does not charge it again.
func (l *ledger) paid(now stage.Instant) {
	allowed := l.unreported(now)
	l.acked.Allowed += allowed
	l.acked.Rejected -= allowed
}

// Unseen reports whether there is usage that no report has found yet: Used will say so.
func (l *ledger) Unseen(now stage.Instant) bool { return l.count(now).Usage != l.seen }

// fresh reports whether there was an event since the last report that was answered.
func (l *ledger) fresh(now stage.Instant) bool {
	upTo := l.count(now)
	return upTo.Allowed > l.acked.Allowed || upTo.Rejected > l.acked.Rejected
}
