// SPDX-License-Identifier: Apache-2.0

// Package average is the account that keeps moving averages of what hosts use, and the sum of
// them. A host's weight is its part of that sum, or what another weigher says. Nothing is lent: a
// host's bucket is its own. Source: the load-aware limiter of Cadence. It knows no messages and no
// other key. It has no lock and no clock: one caller at a time calls an account.
package average

import (
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
)

// Account is the averages of one key.
type Account struct {
	ledger   ledger
	settings *account.Settings
	kept     *account.Kept // of a weigher that looks at all hosts at once
	learns   time.Duration // until when hosts keep what an earlier owner gave them
	meter    account.Meter
	found    int32 // the row that was looked for last, or none
	floor    algorithm.Floor
	keeps    bool // the rule has a new owner hand back what hosts have
}

var _ account.Account = (*Account)(nil)

// New returns the account of a key without reports, when keys last moved
// between owners at moved.
func New(_, moved time.Duration, c *account.Config) account.Account {
	a := &Account{ledger: newLedger(), settings: c.Settings, found: none}
	a.learns = moved + min(max(c.Rule.Learning, 0), c.Interval)
	a.adopt(c)
	return a
}

// Configure implements account.Account.
func (a *Account) Configure(_ time.Duration, c *account.Config) {
	if a.settings.Average != c.Average {
		a.ledger.restage()
	}
	a.adopt(c)
}

func (a *Account) adopt(c *account.Config) {
	a.settings = c.Settings
	if c.Rule == nil {
		return
	}
	a.floor, a.kept, a.keeps = c.Algorithm.Weigher.Floor, nil, c.Rule.Learning > 0
	if c.Algorithm.Weigher.Form != algorithm.FormDemand {
		a.kept = account.NewKept(c.Algorithm.Weigher, c.Settings)
	}
}

// Report implements account.Account.
func (a *Account) Report(now time.Duration, limit algorithm.Limit, host uint32, r *account.Report) (account.Grant, bool) {
	number := a.found
	row := a.ledger.rows.Of(number, host)
	if row == nil {
		number, row = a.ledger.find(host)
	}
	if r.Elsewhere { // what it is refused is not for it; if it has a grant, it may soon use that
		r.Rates.Rejected = max(min(r.Rates.Total(), r.Has*limit.Rate)-r.Rates.Allowed, 0)
	}
	if r.Rates.Total() > 0 {
		if row == nil && r.Has > 0 {
			a.learn(now)
		}
		var allowed float64
		row, allowed = a.ledger.record(now, number, row, host, r, a.settings)
		a.meter.Use(now, limit, allowed)
	}
	switch {
	case r.Elsewhere:
		return account.Grant{}, false
	case now < a.learns && r.Has > 0:
		r.Keeps = true
		return account.Grant{Used: a.ledger.all().Total()}, true
	case a.kept != nil:
		return a.weighed(now, limit, host, row != nil)
	}
	wants := 0.0
	if row != nil && !row.away {
		wants = row.faded(a.settings.Stages).Total()
	}
	return a.grant(limit, wants), true
}

// learn is called when a host that is new here has a grant already. If it is the first
// host, others have grants of the same owner or algorithm, which count until they report.
func (a *Account) learn(now time.Duration) {
	if a.keeps && a.ledger.len() == 0 {
		a.learns = max(a.learns, now+a.settings.Interval)
	}
}

// rest is the part of limit that hosts away leave.
func (a *Account) rest(limit algorithm.Limit) float64 {
	if a.ledger.seldom == nil || !(limit.Rate > 0) {
		return 1
	}
	return max(1-a.ledger.seldom.away.demand().Total()/limit.Rate, 0)
}

// grant is for the host that wants so much, which the sum includes. Each host's weight is
// the part that its demand is of all, or of a gate the part of it that passes.
func (a *Account) grant(limit algorithm.Limit, wants float64) account.Grant {
	sum, rest := a.ledger.sum.demand(), 1.0
	all, used := sum.Total(), sum.Allowed
	if a.ledger.seldom != nil {
		rest, used = a.rest(limit), a.ledger.all().Allowed
	}
	if a.floor == algorithm.FloorDrop {
		pass := 1.0
		if all > limit.Rate*rest {
			pass = limit.Rate * rest / all
		}
		return account.Grant{Weight: pass, Burst: limit.Burst, Used: used}
	}
	weight := 0.0
	if all > 0 {
		if weight = wants / all; weight > 1 {
			weight = 1
		}
	}
	weight *= rest
	return account.Grant{Weight: weight, Burst: weight * limit.Burst, Used: used}
}

// weighed is what host, which may be known, gets by a look at all hosts. A host
// that is newer than the last look goes on with its fallback.
func (a *Account) weighed(now time.Duration, limit algorithm.Limit, host uint32, known bool) (account.Grant, bool) {
	if !known {
		return account.Grant{}, false
	}
	if a.kept.Stale(now, host, a.ledger.len()) {
		for i, r := range a.ledger.rows.All {
			if r.away {
				continue
			}
			other := a.ledger.rows.Host(i)
			wants := r.faded(a.settings.Stages).Total()
			has, _ := a.kept.Part(other)
			if !account.Valid(has) { // the owner says whose defect that is
				has = 0
			}
			a.kept.Add(other, algorithm.Demand{Wants: wants, Has: has, Clients: 1})
		}
		a.kept.Divide(now, limit.Rate*a.rest(limit))
	}
	part, ok := a.kept.Part(host)
	part *= a.rest(limit)
	return account.Grant{Weight: part, Burst: part * limit.Burst}, ok
}

// Expire implements account.Account.
func (a *Account) Expire(now time.Duration, gone func(host uint32)) {
	if now >= a.ledger.due {
		a.ledger.advance(now, a.settings.Stages, gone)
	}
}

// Trim implements account.Account: it forgets the hosts whose demand fades.
func (a *Account) Trim(_ time.Duration, gone func(host uint32)) {
	a.ledger.trim(a.settings.Stages, gone)
}

// Hosts implements account.Account.
func (a *Account) Hosts() int { return a.ledger.len() }

// Knows implements account.Account.
func (a *Account) Knows(host uint32) bool { return a.ledger.rows.FindAt(a.found, host) != none }

// Demand implements account.Account.
func (a *Account) Demand(yield func(account.Band) bool) {
	yield(account.Band{Clients: int64(a.ledger.len()), Wants: a.ledger.all().Total()})
}

// Fetch implements account.Account.
func (a *Account) Fetch(now time.Duration, host uint32, guess int32, gone func(host uint32)) (number int32, read int) {
	a.Expire(now, gone)
	if a.ledger.rows.Of(guess, host) == nil {
		guess = a.ledger.rows.Find(host)
	}
	a.found = guess
	return guess, int(a.ledger.fresh.tail)
}

// Beside implements account.Account.
func (a *Account) Beside(number int32) (read int) { return a.ledger.beside(number) }
