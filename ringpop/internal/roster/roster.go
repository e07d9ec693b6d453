// SPDX-License-Identifier: Apache-2.0

package roster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/ringpop"
)

const (
	// together is the longest time between one loss and the next of hosts that
	// were lost at once.
	together = 10 * time.Second

	// forget is how long a host that is down or has left is still shown.
	forget = time.Hour

	// maxLosses bounds what is remembered of one host. More make no
	// difference: the wait has its maximum by then.
	maxLosses = 16
)

// roster is what one host knows of all members. It is not safe for concurrent
// use.
type roster struct {
	self    string
	members map[string]*member // by address
}

type member struct {
	host     ringpop.Host
	state    ringpop.State // never Held: that depends on the time
	since    time.Time
	why      string
	observer bool        // when it left or was lost
	losses   []time.Time // in order
	holds    bool        // it says that it has this host wait
	silent   bool        // it gossips, and does not answer this host
}

// newRoster returns the empty roster of the host at the address self.
func newRoster(self string) *roster {
	return &roster{self: self, members: make(map[string]*member)}
}

// Up notes that a host is there. An observer owns no keys.
// Up reports whether this is news.
func (r *roster) Up(h ringpop.Host, observer bool, now time.Time) bool {
	state := ringpop.Up
	if observer {
		state = ringpop.Observer
	}
	m := r.members[h.Address]
	if m == nil {
		m = new(member)
		r.members[h.Address] = m
	} else if m.state == state && m.host == h {
		return false
	}
	if m.state != state {
		m.state, m.since, m.why = state, now, ""
	}
	m.host, m.observer = h, observer
	return true
}

// Down notes that a member does not answer, and reports whether this is news.
func (r *roster) Down(address, why string, now time.Time) bool {
	if !r.lose(address, ringpop.Down, why, now) {
		return false
	}
	m := r.members[address]
	m.losses = append(recent(m.losses, now), now)
	if len(m.losses) > maxLosses {
		m.losses = m.losses[1:]
	}
	return true
}

// Left notes that a member has said that it leaves, and reports whether this is news. That is no
// loss: such a host hands its keys over, and is on its own ring as soon as it is back.
func (r *roster) Left(address string, now time.Time) bool {
	return r.lose(address, ringpop.Left, "the host said that it leaves", now)
}

func (r *roster) lose(address string, state ringpop.State, why string, now time.Time) bool {
	m := r.members[address]
	if m == nil || !m.there() {
		return false
	}
	m.state, m.since, m.why, m.silent = state, now, why, false
	return true
}

// Silent notes whether a member that is there answers this host, and reports whether this is news.
func (r *roster) Silent(address string, silent bool) bool {
	m := r.members[address]
	if m == nil || m.silent == silent || silent && !m.there() {
		return false
	}
	m.silent = silent
	return true
}

// Holds notes whether a member says that it has this host wait, and reports whether this is news.
func (r *roster) Holds(address string, holds bool) bool {
	m := r.members[address]
	if m == nil || m.holds == holds {
		return false
	}
	m.holds = holds
	return true
}

// Keep forgets all members but these, and reports whether there were others.
func (r *roster) Keep(addresses []string) bool {
	before := len(r.members)
	maps.DeleteFunc(r.members, func(address string, _ *member) bool { return !slices.Contains(addresses, address) })
	return len(r.members) < before
}

func (m *member) there() bool { return m.state == ringpop.Up || m.state == ringpop.Observer }

// View is the ring as it should be at one time.
type View struct {
	// Hosts are those on the ring, sorted by address.
	Hosts []ringpop.Host
	// Missing is how many deciders were lost at once, if they are more than those
	// that are there: this host is then more likely on the smaller side of a split
	// than one of few that live. Otherwise 0.
	Missing int
	// Kept: those that are missing are on the ring, because this host owns no keys and
	// reaches no decider.
	Kept bool
	// Next is when another View is due although nothing happens. Zero: never.
	Next time.Time
}

// View forgets who has been away for long, and returns the ring.
func (r *roster) View(now time.Time) View {
	var v View
	later := func(at time.Time) {
		if at.After(now) && (v.Next.IsZero() || at.Before(v.Next)) {
			v.Next = at
		}
	}
	missing, kept := r.missing()
	v.Missing, v.Kept = len(missing), kept
	for address, m := range r.members {
		switch {
		case m.state == ringpop.Observer:
		case m.state == ringpop.Up:
			until := r.held(m, now)
			later(until)
			if !until.After(now) {
				v.Hosts = append(v.Hosts, m.host)
			}
		case slices.Contains(missing, address):
			if kept {
				v.Hosts = append(v.Hosts, m.host)
			}
		case now.Sub(m.since) >= forget:
			delete(r.members, address)
		default:
			later(m.since.Add(forget))
		}
	}
	if self := r.members[r.self]; len(v.Hosts) == 0 && self != nil && !self.observer {
		v.Hosts = append(v.Hosts, self.host) // it leaves, and no host is there to take over
	}
	slices.SortFunc(v.Hosts, func(a, b ringpop.Host) int { return strings.Compare(a.Address, b.Address) })
	return v
}

// held returns until when m must wait. This host waits for as long as most others say that they have it wait: else it would
// decide its keys for programs that call it, and others would decide them for all other programs.
func (r *roster) held(m *member, now time.Time) time.Time {
	switch {
	case m.host.Address != r.self:
		return waitEnds(m.losses, now)
	case r.heldByMost(now):
		return now.Add(longestWait) // or until they say so no more
	}
	return time.Time{}
}

// heldByMost reports whether more than half of the others say that they have this host wait. Those that wait themselves do not
// count: after a split that came and went, both sides have the other one wait. Nor do those that do not answer this host: it
// would have to leave its keys to them.
func (r *roster) heldByMost(now time.Time) bool {
	holding, all := 0, 0
	for address, m := range r.members {
		if address == r.self || !m.there() || m.silent || waitEnds(m.losses, now).After(now) {
			continue
		}
		if all++; m.holds {
			holding++
		}
	}
	return 2*holding > all
}

// Waiting returns the addresses of the other hosts that must wait, sorted, also those that are down, and of those that
// do not answer this host. The result is good until next;
// zero: until the roster changes.
func (r *roster) Waiting(now time.Time) (addresses []string, next time.Time) {
	for address, m := range r.members {
		until := waitEnds(m.losses, now)
		if address != r.self && (m.silent || until.After(now)) {
			addresses = append(addresses, address)
			if until.After(now) && (next.IsZero() || until.Before(next)) {
				next = until
			}
		}
	}
	slices.Sort(addresses)
	return addresses, next
}

// missing returns the deciders that were lost at once, the last of them recently, if they are
// two or more, and more than those that are there. A smaller number has more likely died,
// and others take over their keys. kept says that no host is left to take over.
func (r *roster) missing() (lost []string, kept bool) {
	reached := 0
	for address, m := range r.members {
		switch {
		case m.state == ringpop.Up:
			reached++
		case m.state == ringpop.Down && !m.observer:
			lost = append(lost, address)
		}
	}
	slices.SortFunc(lost, func(a, b string) int { return r.members[b].since.Compare(r.members[a].since) })
	for i := 1; i < len(lost); i++ {
		if r.members[lost[i-1]].since.Sub(r.members[lost[i]].since) > together {
			lost = lost[:i]
		}
	}
	if len(lost) <= max(reached, 1) {
		return nil, false
	}
	self := r.members[r.self]
	return lost, reached == 0 && (self == nil || self.observer)
}

// Standings returns what is known of each member, sorted by address.
func (r *roster) Standings(now time.Time) []ringpop.Standing {
	missing, _ := r.missing()
	all := make([]ringpop.Standing, 0, len(r.members))
	for address, m := range r.members {
		s := ringpop.Standing{Host: m.host, State: m.state, Since: m.since, Why: m.why}
		if until := r.held(m, now); m.state == ringpop.Up && until.After(now) {
			s.State = ringpop.Held
			s.Why = "most others have lost this host too often, or get no answer at its address"
			if m.host.Address != r.self {
				s.Why = fmt.Sprintf("lost %d times in %v, waits %v more", len(recent(m.losses, now)),
					window, until.Sub(now).Round(time.Second))
			}
		} else if slices.Contains(missing, address) {
			s.Why += "; it may live on the larger side of a split"
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b ringpop.Standing) int { return strings.Compare(a.Host.Address, b.Host.Address) })
	return all
}
