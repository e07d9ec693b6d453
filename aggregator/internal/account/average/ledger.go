// SPDX-License-Identifier: Apache-2.0

package average

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/internal/rowset"
)

// ledger is what the hosts of one key demand, and the sum of it.
//
// A host's demand fades in stages as its last report ages. Rows of one stage
// stand in a queue, oldest report first, so the host that is due for the next
// stage is always at a head. A report and a stage that passes each cost constant
// time, and the sum is right at any time without looking at all rows.
//
// Hosts that get no grants here are away. They demand what their fallbacks or other grants let
// through, whatever others demand, so they have a sum of their own.
type ledger struct {
	rows  rowset.Set[row]
	due   time.Duration // before then no row reaches its next stage
	sum   total         // of all rows but those away, faded
	fresh queue         // stage 0

	seldom *seldom // nil until a host falls silent, or is away
}

// seldom is what few keys need.
type seldom struct {
	aging []queue // later stages
	away  total   // of the rows away, faded
}

// row is one host's average, as of its last report.
type row struct {
	demand     account.Rates
	last       time.Duration
	prev, next int32 // in the stage's queue
	stage      uint8
	late       account.Late
	away       bool
}

type queue struct{ head, tail int32 }

// none is no row.
const none = rowset.None

var emptyQueue = queue{none, none}

func newLedger() ledger {
	return ledger{fresh: emptyQueue}
}

func (l *ledger) len() int { return l.rows.Len() }

// beside reads from the rows that move when row i, or none, becomes the last.
func (l *ledger) beside(i int32) int {
	if i == none || l.fresh.tail == none {
		return 0
	}
	n := int(l.rows.At(l.fresh.tail).next)
	if next := l.rows.At(i).next; next != none {
		n += int(l.rows.At(next).prev)
	}
	return n
}

// find is the row of host, and its number: none, and nil, if host is not known.
func (l *ledger) find(host uint32) (number int32, r *row) {
	if number = l.rows.Find(host); number != none {
		r = l.rows.At(number)
	}
	return number, r
}

// record takes in what host, whose row is number i or nil, says in r. It returns the row, and how
// many of the events that r allowed came after the host's last report: a report whose answer
// was lost comes again as a part of the next.
func (l *ledger) record(now time.Duration, i int32, row *row, host uint32, r *account.Report, s *account.Settings) (_ *row, allowed float64) {
	allowed = r.Allowed
	if row == nil {
		i = l.rows.Add(host)
		row = l.rows.At(i)
		row.demand, row.last = r.Rates, now
		l.turn(row, r.Elsewhere)
		l.link(i, row)
	} else {
		allowed *= row.late.NewPart(now-row.last, r)
		faded := row.faded(s.Stages)
		row.last = now
		switch {
		case !row.away && !r.Elsewhere:
			row.demand = s.Average.Next(faded, r.Rates)
			l.sum.replace(faded, row.demand)
		case row.away && r.Elsewhere:
			row.demand = s.Average.Next(faded, r.Rates)
			l.of(row).replace(faded, row.demand)
		default:
			l.of(row).replace(faded, account.Rates{})
			row.demand = r.Rates
			l.turn(row, r.Elsewhere)
		}
		l.renew(i, row)
	}
	if l.fresh.head == i { // else another fresh row is due before it
		l.due = min(l.due, now+s.Stages[1].From)
	}
	return row, allowed
}

// turn has r, which is in no sum, away or not, and adds what it demands to the sum of its kind.
func (l *ledger) turn(r *row, away bool) {
	r.away = away
	l.of(r).add(r.demand)
}

// of is the sum that has r.
func (l *ledger) of(r *row) *total {
	if !r.away {
		return &l.sum
	}
	if l.seldom == nil {
		l.seldom = new(seldom)
	}
	return &l.seldom.away
}

// all is what all hosts demand, those away too.
func (l *ledger) all() account.Rates {
	all := l.sum.demand()
	if l.seldom != nil {
		all = all.Plus(l.seldom.away.demand())
	}
	return all
}

// renew makes row i, which is r, the last of the fresh ones.
func (l *ledger) renew(i int32, r *row) {
	q := &l.fresh
	switch {
	case r.stage != 0:
		l.unlink(r)
		r.stage = 0
		l.link(i, r)
	case q.tail != i: // so there is one behind it, and the queue is not empty without it
		if r.prev == none {
			q.head = r.next
		} else {
			l.rows.At(r.prev).next = r.next
		}
		l.rows.At(r.next).prev = r.prev
		l.rows.At(q.tail).next = i
		r.prev, r.next, q.tail = q.tail, none, i
	}
}

// faded is what is left of r's demand.
func (r *row) faded(stages []account.Stage) account.Rates {
	if r.stage == 0 { // of which all is left
		return r.demand
	}
	return r.demand.Times(stages[r.stage].Factor)
}

// advance moves every row to the stage that its age has reached at now, and
// calls gone for hosts that are past the last.
func (l *ledger) advance(now time.Duration, stages []account.Stage, gone func(host uint32)) {
	l.due = math.MaxInt64
	for stage := 0; stage < len(stages)-1; stage++ {
		if stage > 0 && (l.seldom == nil || stage > len(l.seldom.aging)) {
			break
		}
		from, q := stages[stage+1].From, l.queue(uint8(stage))
		for q.head != none && now-l.rows.At(q.head).last >= from {
			i := q.head
			r := l.rows.At(i)
			l.of(r).replace(r.faded(stages), r.demand.Times(stages[stage+1].Factor))
			l.unlink(r)
			if stage+1 == len(stages)-1 {
				l.remove(i, gone)
			} else {
				r.stage++
				l.link(i, r)
			}
			q = l.queue(uint8(stage)) // link may have moved the queues
		}
		if q.head != none {
			l.due = min(l.due, l.rows.At(q.head).last+from)
		}
	}
}

// trim forgets the hosts that have left the first stage.
func (l *ledger) trim(stages []account.Stage, gone func(host uint32)) {
	for i, r := range l.rows.All {
		if r.stage > 0 {
			l.of(r).replace(r.faded(stages), account.Rates{})
			l.unlink(r)
			l.remove(i, gone)
		}
	}
}

// remove forgets row i, which is in no queue, and of which the sum has nothing.
func (l *ledger) remove(i int32, gone func(host uint32)) {
	gone(l.rows.Host(i))
	if l.rows.Remove(i); l.rows.Len() == 0 {
		l.sum, l.seldom = total{}, nil
	}
}

func (l *ledger) queue(stage uint8) *queue {
	if stage == 0 {
		return &l.fresh
	}
	if l.seldom == nil {
		l.seldom = new(seldom)
	}
	for len(l.seldom.aging) < int(stage) {
		l.seldom.aging = append(l.seldom.aging, emptyQueue)
	}
	return &l.seldom.aging[stage-1]
}

// link puts row i, which is r, at the end of its stage's queue.
func (l *ledger) link(i int32, r *row) {
	q := l.queue(r.stage)
	r.prev, r.next = q.tail, none
	if q.tail == none {
		q.head = i
	} else {
		l.rows.At(q.tail).next = i
	}
	q.tail = i
}

// unlink takes r out of its stage's queue.
func (l *ledger) unlink(r *row) {
	q := l.queue(r.stage)
	if r.prev == none {
		q.head = r.next
	} else {
		l.rows.At(r.prev).next = r.next
	}
	if r.next == none {
		q.tail = r.prev
	} else {
		l.rows.At(r.next).prev = r.prev
	}
}

// restage makes every row fresh, oldest report first: the next advance moves
// each to the stage of its age.
func (l *ledger) restage() {
	l.due = math.MinInt64
	order := make([]int32, 0, l.rows.Len())
	for i := range l.rows.All {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(i, j int32) int { return cmp.Compare(l.rows.At(i).last, l.rows.At(j).last) })
	l.fresh, l.seldom, l.sum = emptyQueue, nil, total{}
	for _, i := range order {
		r := l.rows.At(i)
		r.stage = 0
		l.link(i, r)
		l.turn(r, r.away)
	}
}
