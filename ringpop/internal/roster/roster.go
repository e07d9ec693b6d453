// SPDX-License-Identifier: Apache-2.0

package roster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/ringpop"
)

const (
	// together is the longest time between the losses of hosts that were
	// lost at once.
	together = 10 * time.Second

	// forget is how long a host that is down or has left is still shown.
	forget = time.Hour

	// maxLosses bounds what is remembered of one host. More make no
	// difference: the wait has its maximum by then.
	maxLosses = 16
)

// Roster is what one host knows of all members. It is not safe for concurrent
// use. Use New.
type Roster struct {
	self    string
	damping Damping
	members map[string]*member // by address
}

type member struct {
	host     ringpop.Host
	state    ringpop.State // never Held: that depends on the time
	since    time.Time
	why      string
	observer bool        // when it left or was lost
	losses   []time.Time // in order
}

// New returns the empty Roster of the host at the address self.
func New(self string, damping Damping) *Roster {
	return &Roster{self: self, damping: damping, members: make(map[string]*member)}
}

// Up notes that a host is there. An observer owns no keys.
// Up reports whether this is news.
func (r *Roster) Up(h ringpop.Host, observer bool, now time.Time) bool {
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
func (r *Roster) Down(address, why string, now time.Time) bool {
	return r.lose(address, ringpop.Down, why, now)
}

// Left notes that a member has said that it leaves, and reports whether this is news.
func (r *Roster) Left(address string, now time.Time) bool {
	return r.lose(address, ringpop.Left, "the host said that it leaves", now)
}

func (r *Roster) lose(address string, state ringpop.State, why string, now time.Time) bool {
	m := r.members[address]
	if m == nil || !m.there() {
		return false
	}
	m.state, m.since, m.why = state, now, why
	m.losses = append(r.damping.recent(m.losses, now), now)
	if len(m.losses) > maxLosses {
		m.losses = m.losses[1:]
	}
	return true
}

// Remove forgets a member, and reports whether there was one.
func (r *Roster) Remove(address string) bool {
	_, ok := r.members[address]
	delete(r.members, address)
	return ok
}

// Members returns the addresses of all members.
func (r *Roster) Members() []string {
	var all []string
	for address := range r.members {
		all = append(all, address)
	}
	slices.Sort(all)
	return all
}

func (m *member) there() bool { return m.state == ringpop.Up || m.state == ringpop.Observer }

// View is the ring as it should be at one time.
type View struct {
	// Hosts are those on the ring, sorted by address.
	Hosts []ringpop.Host
	// Isolated is how many other hosts were lost at once, with no other
	// left. The ring still has them then. Otherwise 0.
	Isolated int
	// Next is when another View is due although nothing happens. Zero: never.
	Next time.Time
}

// View forgets who has been away for long, and returns the ring.
func (r *Roster) View(now time.Time) View {
	var v View
	later := func(at time.Time) {
		if at.After(now) && (v.Next.IsZero() || at.Before(v.Next)) {
			v.Next = at
		}
	}
	cut := r.cut()
	v.Isolated = len(cut)
	for address, m := range r.members {
		switch {
		case m.state == ringpop.Observer:
		case m.state == ringpop.Up:
			until := r.held(m, now)
			later(until)
			if !until.After(now) {
				v.Hosts = append(v.Hosts, m.host)
			}
		case slices.Contains(cut, address):
			if !m.observer {
				v.Hosts = append(v.Hosts, m.host)
			}
		case now.Sub(m.since) >= forget:
			delete(r.members, address)
		default:
			later(m.since.Add(forget))
		}
	}
	if self := r.members[r.self]; len(v.Hosts) == 0 && self != nil && !self.observer {
		v.Hosts = append(v.Hosts, self.host) // it leaves, and nobody is there to take over
	}
	slices.SortFunc(v.Hosts, func(a, b ringpop.Host) int { return strings.Compare(a.Address, b.Address) })
	return v
}

// held returns until when m must wait. This host never makes itself wait.
func (r *Roster) held(m *member, now time.Time) time.Time {
	if m.host.Address == r.self {
		return time.Time{}
	}
	return r.damping.Until(m.losses, now)
}

// cut returns the hosts that this one lost when it lost all others: two or
// more at once. It is more likely that this host is cut off than that
// all of them died. If all took over the keys of those that they do not see,
// each key would be granted twice.
func (r *Roster) cut() []string {
	var last time.Time
	for address, m := range r.members {
		switch {
		case address == r.self:
			if m.state == ringpop.Left {
				return nil
			}
		case m.there():
			return nil
		case m.state == ringpop.Down && m.since.After(last):
			last = m.since
		}
	}
	var cut []string
	for address, m := range r.members {
		if address != r.self && m.state == ringpop.Down && last.Sub(m.since) <= together {
			cut = append(cut, address)
		}
	}
	if len(cut) < 2 {
		return nil
	}
	return cut
}

// Standings returns what is known of each member, sorted by address.
func (r *Roster) Standings(now time.Time) []ringpop.Standing {
	cut := r.cut()
	all := make([]ringpop.Standing, 0, len(r.members))
	for address, m := range r.members {
		s := ringpop.Standing{Host: m.host, State: m.state, Since: m.since, Why: m.why}
		if until := r.held(m, now); m.state == ringpop.Up && until.After(now) {
			s.State = ringpop.Held
			s.Why = fmt.Sprintf("lost %d times in %v, waits %v more", len(r.damping.recent(m.losses, now)),
				r.damping.Window, until.Sub(now).Round(time.Second))
		} else if slices.Contains(cut, address) && !m.observer {
			s.Why += "; keeps its keys, because this host reaches nobody and may be the one that is cut off"
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b ringpop.Standing) int { return strings.Compare(a.Host.Address, b.Host.Address) })
	return all
}
