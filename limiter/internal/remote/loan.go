// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"math"
	"time"

	"github.com/headgate/headgate/limiter/stage"
)

// loan is what an ask says of the tokens that the owner may lend beside the event.
type loan struct {
	most  float64 // tokens; 0: none
	wants float64 // the host's demand by now, in cost/s; 0: unknown
	unit  float64 // what the host's largest events cost
	asOf  uint32  // the newest report
	cheap bool    // the ask took less than one from the budget
}

const (
	// ahead is how long an ask in the background may take, about. A host asks ahead
	// once it has fewer tokens than it uses meanwhile, and sigmas standard deviations.
	ahead  = 5 * time.Millisecond
	sigmas = 4

	// fewest is how many events' worth of tokens are few in any case: of a burst that
	// has just begun, the host does not know yet how much it wants.
	fewest = 3

	// steady is how many events/s a host must want to ask ahead. With fewer, the next one is too far away.
	steady = 5
)

// room is the loan that the host may ask for: as many tokens as it may hold more than it has.
// It is none while a report is under way, because the host does not know whether the owner
// takes back with that report what it lends now; while another ask is for a loan, because both
// together would be more than there is room for; and if the host wants less than least events/s.
// If it is not none, room has set borrows.
func (a *asker) room(now stage.Instant, least float64) loan {
	asOf, settled := a.Common().Settled()
	most := a.Terms().Rule.Burst - max(a.Bucket().Tokens(now), 0)
	if s := a.asking.Load(); !settled || !(most > 0) || s != nil && s.borrows.Load() {
		return loan{}
	}
	wants, unit := a.Demand(now)
	if wants < least*unit || !a.started().borrows.CompareAndSwap(false, true) {
		return loan{}
	}
	return loan{most: most, wants: wants, unit: unit, asOf: asOf}
}

// hasGrant is what a host with a grant says that it can hold while it can borrow nothing:
// more than nothing, and less than a token. So an owner that is new to the key learns of the
// grant with the first ask, and not only with the first report.
const hasGrant = 1. / 1024

// granted is l of a host that has a grant.
func (l loan) granted() loan {
	l.most = max(l.most, hasGrant)
	return l
}

// borrow puts what the owner has lent into the bucket, unless a report was made since l
// was asked for: then it flows back with that report, or with the next.
func (a *asker) borrow(now stage.Instant, l loan, lent float64) {
	tokens := min(lent, l.most)
	if tokens <= 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()

	if number, _ := a.Common().Settled(); number != l.asOf || a.is(gone) || a.is(asks) || !a.Granted() {
		return
	}
	a.Borrow(now, tokens)
	if number, _ := a.Common().Settled(); number != l.asOf { // made meanwhile, with the tokens or without
		a.Bucket().Add(now, -tokens)
		return
	}
	s := a.started()
	s.lent.Add(int64(tokens))
	if much := muchLent * max(l.unit, 1); !l.cheap {
		s.budget.GiveBack(min(tokens/much, 1)*(cheapAsks-1)/cheapAsks, asksPerKey)
	}
	used := l.wants * ahead.Seconds()
	a.askAheadBelow(tokens, max(used+sigmas*math.Sqrt(used*l.unit), fewest*l.unit))
}

// askAheadBelow has the host ask ahead once it has fewer tokens than low, or than it was
// lent if that is less. It writes only a change.
func (a *asker) askAheadBelow(lent, low float64) {
	if next := int32(math.Ceil(min(max(min(low, lent), 0), math.MaxInt32))); a.low.Load() != next {
		a.low.Store(next)
	}
}

// ranLow asks ahead if a decision at now has left few tokens, and the host wants enough by
// now. If it does not, the next decision looks again.
func (a *asker) ranLow(ctx context.Context, now stage.Instant) {
	low := a.low.Load()
	if low == 0 {
		return
	}
	tokens := a.Bucket().Tokens(now)
	if tokens < float64(low) && !a.untimely(ctx, now) && a.low.CompareAndSwap(low, int32(max(tokens, 0))) {
		a.askAhead(now)
	}
}

// askAhead asks the owner for a loan alone, in the background, so that the next events
// need not wait for one. The budget bounds these asks too.
func (a *asker) askAhead(now stage.Instant) {
	q := stage.Request{Now: now}
	if !a.mayPay(q, stage.Limited) || a.lastRefusal().Holds(now) {
		return
	}
	l := a.room(now, steady)
	if l.most == 0 {
		return
	}
	s := a.started()
	may := s.budget.Spend(now, asksPerKey, asksAtOnce) && a.host.mayAsk(now)
	if may {
		a.low.Store(0)
	}
	if !may || !a.host.Background(func() { a.askFor(q, l) }) {
		s.borrows.Store(false)
	}
}

// askFor asks the owner for l alone, as of q, which is for no tokens.
func (a *asker) askFor(q stage.Request, l loan) {
	s := a.started()
	defer s.borrows.Store(false)
	s.asked.Add(1)
	missed := s.missed.Load()
	outcome, err := a.ask(context.Background(), q, l)
	if err != nil {
		a.unanswered(q.Now, missed, err)
		return
	}
	a.answered(q, outcome)
	if outcome.Lent > 0 {
		s.granted.Add(1)
		a.borrow(q.Now, l, outcome.Lent)
	}
}
