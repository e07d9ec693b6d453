// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"math"
	"time"

	"github.com/headgate/headgate/internal/rowset"
	"github.com/headgate/headgate/internal/sum"
)

// Leases is the account of one capacity: who holds how much of it, until when,
// and who wants how much, in which band.
//
//	bands   2: ▒▒▒▒▒▒      each takes what it wants of what those above it
//	        1: ▒▒▒▒▒▒▒▒▒   leave, and its algorithm divides that by what its
//	        0: ▒▒▒▒        hosts want: a host's target
//	leases  ████████░░░░   what the other hosts hold is not there to give
//
// A host gets its target, but never more than what is not leased to others,
// unless the capacity may be overcommitted. So a capacity is handed out once,
// and what a newcomer is to get it gets as others claim again and shrink. If the
// capacity itself is cut below what is out, who claims first gives up most,
// maybe all, and gets its target when the others have claimed too.
//
// None and Static are not bound by what others hold, and what they lend is not
// counted against those who are; but what a higher band wants is not for lower
// ones, whatever their ways.
//
// A claim costs O(bands · log hosts) and allocates nothing once its host is
// known. An account is for one caller at a time, and like all of this package it
// has no clock: now counts from any fixed point and does not go backwards.
type Leases struct {
	bands

	rows    timed
	leased  sum.Sum // what hosts hold of what there is; rounded up, as hosts get no more than the rest
	beyond  sum.Sum // what they hold whatever there is
	short   int64   // sum of the slots that they are short of
	invalid bool    // a weigher made no part for the host that claims
	late    bool    // that host is newer than the last time when all were weighed
}

// keepsFor is for how many leases a host may keep what it has: it was calculated up to a
// lease before the host began to keep it, and a cluster below learns for one.
const keepsFor = 2

// leaseRow is what one host holds.
type leaseRow struct {
	part   float64 // granted, of what there is; of slots, with a fraction if the limit has changed
	beyond float64 // granted by ways that are not bound by what others hold
	held   float64 // counted of what there is: part, or more slots if it has more
	until  time.Duration
	due    time.Duration // when to look whether one of these has passed
	at     time.Duration // when part was calculated, or when the host said that it has it
	place  int32         // among those to look at
	first  int32         // of its nodes
	short  uint32        // slots that it got less than it should have
	stays  uint16        // seconds after until in which what it wants still counts, at most 65,535
	timed  bool          // part was calculated
	kind   kind
}

// kind is what a host's claim is like.
type kind uint8

const (
	exactly kind = iota // it gets no more than it wants
	loosely             // it may get more than it wants
	handed              // that too, and an earlier owner did not say whether it holds a part of the limit
	asPart              // that too, and what it holds is a part of the limit, whatever that is
)

// known is until when what r's host wants counts.
func (r *leaseRow) known() time.Duration { return later(r.until, time.Duration(r.stays)*time.Second) }

// Claim takes in what host says, and returns what it holds from now on. Call
// Expire before it: a lease that has ended counts for others until then.
//
// A host that claims again before Recalculate has passed since its amount was
// last calculated gets the same amount; only what it wants is noted. While the
// account learns, hosts get what they say they have, as far as the capacity goes. A host
// that claims an amount, and says that it has nothing, gets what it wants of what it holds here.
//
// A host that keeps gets no more than it holds here, or than it says if it holds nothing
// here. If it goes on to keep, it gets no more than its target after two leases. A cluster
// below learns for no longer, and a host that always keeps would shut others out.
func (l *Leases) Claim(now time.Duration, t Terms, c Capacity, host uint32, claim Claim) Lease {
	c = c.clean()
	until, has := later(now, t.Lease), c.up(atMost(claim.Has, math.MaxFloat64))
	i := l.rows.Find(host)
	holds := i != rowset.None && l.rows.At(i).until > now
	if i == rowset.None {
		i = l.rows.Add(host)
		l.rows.watch(i, until)
	}
	r := l.rows.At(i)
	if !holds {
		l.clear(r)
	}
	learning, short := now < t.LearnUntil, false
	l.invalid, l.late = false, false
	if !holds || !claim.Keep || learning && len(claim.Bands) > 0 { // only the host knows what it wants
		l.note(r, claim, has)
		switch r.kind = exactly; {
		case claim.Headroom && claim.Keep:
			r.kind = handed
		case claim.Headroom:
			r.kind = loosely
		}
	}
	if t.Part {
		r.kind = asPart
	}
	switch {
	case holds && claim.Keep && now-r.at < keepsFor*max(t.Lease, t.Remember): // as it is
	case learning, claim.Keep && !holds:
		most := has
		switch {
		case claim.Keep && holds:
			most = min(has, c.down(r.part+r.beyond))
		case holds && has == 0 && !claim.Headroom: // it does not say, and this is leased to it
			most = min(c.down(r.part+r.beyond), c.up(allWanted(claim.Bands)))
		}
		part, beyond := l.back(c, r, most)
		l.grant(r, part, beyond)
		r.at, r.timed = now, false
	case r.timed && now-r.at < t.Recalculate: // the same
	default:
		var part, beyond float64
		part, beyond, short = l.decide(now, c, i, claim.Keep)
		if holds && (l.invalid || l.late) { // it goes on with what it holds, for as long as it holds that
			part, beyond, until = r.part, r.beyond, r.until
		}
		l.grant(r, part, beyond)
		r.at, r.timed = now, true
	}
	if t.Lease <= 0 {
		l.grant(r, 0, 0)
	}
	held := c.down(r.part)
	if c.Whole { // slots in use do not go away because less was granted
		held = max(held, has-r.beyond)
	}
	l.hold(r, held)
	l.rows.extend(i, until, t.Remember-t.Lease)
	return Lease{Amount: c.down(r.part + r.beyond), Until: until, Learning: learning, Short: short, Invalid: l.invalid}
}

// scale says that the limit is factor times what it was: so is what hosts hold as parts of
// it. Slots are whole, but a host keeps the fraction of its part for a higher limit. Those that
// are in use stay so under a lower limit: each host is counted with what it held until it says
// what it has.
func (l *Leases) scale(factor float64, whole bool) {
	c := Capacity{Whole: whole}
	for _, r := range l.rows.All {
		part, held := 1.0, 1.0
		switch r.kind {
		case asPart:
			part, held = factor, factor
		case handed: // it may be a part
			held = max(factor, 1)
		}
		l.grant(r, r.part*part, r.beyond*part)
		if held *= r.held; whole {
			held = max(c.up(max(r.held, held)), c.down(r.part))
		}
		l.hold(r, held)
	}
}

// allWanted is what all bands want together.
func allWanted(bands []Band) (sum float64) {
	for _, b := range bands {
		sum += clean(b).Wants
	}
	return sum
}

// become notes that what r's host holds is a part of the limit: it says that it has so much.
func (l *Leases) become(r *leaseRow, has float64) {
	if r.kind == handed {
		const rounds = 1. / 128 // a report may say by that much less
		l.grant(r, min(max(has*(1+rounds)-r.beyond, 0), r.held), r.beyond)
		r.kind = asPart
	}
}

// grant gives r's host so much.
func (l *Leases) grant(r *leaseRow, part, beyond float64) {
	if r.beyond != beyond {
		l.beyond.Replace(r.beyond, beyond)
	}
	r.part, r.beyond = part, beyond
}

// clear takes from r's host all it had.
func (l *Leases) clear(r *leaseRow) {
	l.grant(r, 0, 0)
	l.hold(r, 0)
	l.lack(r, 0)
	r.timed = false
}

// hold counts so much of what there is as leased to r's host.
func (l *Leases) hold(r *leaseRow, held float64) {
	if held != r.held {
		l.leased.Replace(sum.Up(r.held), sum.Up(held))
		r.held = held
	}
}

// room is what is not leased to others than r's host. What they hold by ways
// that are not bound does not count: else hosts of lower priority could take the
// parts of bound ones away.
func (l *Leases) room(c Capacity, r *leaseRow) float64 {
	others := l.leased
	others.Sub(sum.Up(r.held))
	room := max(c.most()-others.Value(), 0)
	if c.Whole {
		room = math.Floor(room + wholly)
	}
	return room
}

// allOut reports whether so much is leased of what there is that nothing is left.
func (l *Leases) allOut(c Capacity) bool {
	left := c.down(c.most() - l.leased.Value())
	return c.Amount > 0 && left <= c.most()*(1-nearly)
}

// back is what r's host gets back of has, which it holds as it says: how much of what there
// is, as far as others leave room, and how much whatever others hold. A host says one sum.
// If all its bands are bound, that is of what there is, and if none is, none of it is. Else,
// what the bands that are not bound would get now is not.
func (l *Leases) back(c Capacity, r *leaseRow, has float64) (part, beyond float64) {
	bound, most, rest := r.first == none, 0.0, c.Amount
	for _, k := range l.order {
		for n := r.first; n != none; n = l.wanted.nodes[n].next {
			f, own := l.all[k].form, l.wanted.nodes[n].own()
			switch {
			case l.wanted.nodes[n].band != k:
			case bounded(f):
				bound = true
			default:
				beyond += unbound(f, rest, own)
				most += unbound(f, c.Amount, Band{Wants: math.MaxFloat64})
			}
		}
		rest = max(rest-l.tree(k).all().wants, 0)
	}
	if !bound {
		return 0, min(has, most)
	}
	beyond = min(has, c.up(beyond))
	return min(has-beyond, l.room(c, r)), beyond
}

// Release forgets host, and what it held is free. It returns false if host was
// not known.
func (l *Leases) Release(host uint32) bool {
	i := l.rows.Find(host)
	if i == rowset.None {
		return false
	}
	l.rows.unwatch(i)
	l.forget(i)
	return true
}

// Expire takes back what has been leased until now, and forgets hosts that have
// not claimed for so long that what they want counts no more. It calls gone for
// each of those; gone must not use l.
func (l *Leases) Expire(now time.Duration, gone func(host uint32)) {
	for len(l.rows.expiry) > 0 {
		i := l.rows.expiry[0]
		r := l.rows.At(i)
		switch {
		case r.due > now:
			return
		case r.until > now: // it was extended
			l.rows.putOff(r.until)
		case r.known() > now:
			l.clear(r)
			l.rows.putOff(r.known())
		default:
			host := l.rows.Host(i)
			l.rows.unwatch(i)
			l.forget(i)
			gone(host)
		}
	}
}

// forget takes row i out of all sums.
func (l *Leases) forget(i int32) {
	r := l.rows.At(i)
	l.clear(r)
	for n := r.first; n != none; n = l.wanted.nodes[n].next {
		if kept := l.all[l.wanted.nodes[n].band].kept; kept != nil {
			kept.Forget(l.rows.Host(i))
		}
	}
	l.leave(r, nil)
	l.rows.Remove(i)
	if l.rows.Len() == 0 { // as rows do
		l.wanted, l.rows.expiry = forest{}, nil
	}
}

// Hosts is how many hosts are known.
func (l *Leases) Hosts() int { return l.rows.Len() }

// Knows reports whether host is known.
func (l *Leases) Knows(host uint32) bool { return l.rows.Find(host) != rowset.None }

// Until is when the lease of host ends; 0 if it holds none.
func (l *Leases) Until(host uint32) time.Duration {
	if i := l.rows.Find(host); i != rowset.None {
		return l.rows.At(i).until
	}
	return 0
}

// Leased is how much all hosts hold. With slots it is at least what they say
// they have.
func (l *Leases) Leased() float64 { return l.leased.Value() + l.beyond.Value() }

// Held yields, for each host, a claim to keep what it holds, slots in use as well, with the
// bands that it wants: what another account needs to go on in place of l. The bands are
// good until the next yield. Nothing else may be done with l meanwhile.
func (l *Leases) Held(yield func(host uint32, claim Claim) bool) {
	var bands [maxBands]Band
	for i, r := range l.rows.All {
		n := 0
		for at := r.first; at != none; at = l.wanted.nodes[at].next {
			own := l.wanted.nodes[at].own()
			own.Priority = l.all[l.wanted.nodes[at].band].priority
			bands[n] = own
			n++
		}
		if !yield(l.rows.Host(i), Claim{Has: r.held + r.beyond, Bands: bands[:n], Keep: true, Headroom: r.kind != exactly}) {
			return
		}
	}
}

// later is now + d, or the end of time.
func later(now, d time.Duration) time.Duration {
	if d = max(d, 0); now > math.MaxInt64-d {
		return math.MaxInt64
	}
	return now + d
}
