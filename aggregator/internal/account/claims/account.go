// SPDX-License-Identifier: Apache-2.0

// Package claims is the account of amounts that hosts claim and hold until a time:
// connections, slots in flight, and what a cluster below may hand on. Hosts that
// report usage and hosts that claim amounts are in one account. It knows nothing of
// messages, and of the cluster above only whether it has said what there is.
package claims

import (
	"math"
	"slices"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/rowset"
)

// Account is the Leases of one key, under its rule.
type Account struct {
	Leases

	rule     *dynamicconfig.Rule
	interval time.Duration // the longest since the owner last said that it was running
	of       float64       // the limit that parts are of: the latest that is not 0
	learns   time.Duration // until when hosts get back what they have
	swept    time.Duration // when the owner last said that it was running; 0: never
	band     [1]Band       // of a host that reports usage; made once
}

// stoodStill is after how many intervals without a sweep the owner stood still.
const stoodStill = 2

var _ account.Leaser = (*Account)(nil)

// New returns the account of a key without claims, when keys last moved
// between owners at moved.
func New(now, moved time.Duration, c *account.Config) account.Account {
	a := &Account{learns: moved + max(c.Rule.Learning, 0)}
	a.Configure(now, c)
	return a
}

// Configure implements account.Account. Leases are as long as the rule says.
func (a *Account) Configure(_ time.Duration, c *account.Config) {
	if c.Rule == nil {
		return // what is leased ends as it was to
	}
	// Hosts keep their parts while the limit is 0, and use them again when it is more.
	if limit := float64(c.Rule.Limit); limit > 0 {
		if a.of > 0 && (a.of != limit || a.rule.InFlight != c.Rule.InFlight) {
			a.scale(limit/a.of, c.Rule.InFlight)
		}
		a.of = limit
	}
	a.rule, a.interval = c.Rule, max(a.interval, c.Interval)
	a.follow(c.Settings, c.Algorithm.Weigher, c.Bands)
}

// Report implements account.Account: a host's usage is a claim in the band of
// its rule. How often hosts report is up to the config, so every report counts.
func (a *Account) Report(now time.Duration, limit algorithm.Limit, host uint32, r *account.Report) (account.Grant, bool) {
	a.band[0] = Band{Priority: a.rule.Priority, Clients: 1, Wants: r.Wants}
	claim := Claim{Has: r.Has * a.of, Bands: a.band[:], Headroom: true}
	if a.rule.InFlight && r.Slots >= 0 { // the host may not know yet that the limit is higher
		claim.Has = max(r.Slots, math.Floor(claim.Has+wholly))
	}
	a.learn(now, claim, min(a.rule.Learning, a.settings.Interval)) // by then all that report have
	switch {
	case (r.Elsewhere || r.Waits) && r.Has > 0: // it is not answered, and goes on with what it has
		claim.Keep = true
	case r.Elsewhere && (a.rule.InFlight || r.Rates.Allowed == 0):
		claim.Bands = nil
	case r.Elsewhere: // what its fallback lets through is not for others
		a.band[0].Wants = min(r.Rates.Allowed, r.Wants)
	}
	if i := a.rows.Find(host); claim.Keep && i != rowset.None {
		a.become(a.rows.At(i), claim.Has)
	}
	lease := a.claim(now, account.Terms{Lease: r.Lease, Waits: r.Waits}, limit.Rate, host, claim, true)
	switch {
	case r.Elsewhere, a.late, lease.Learning && r.Has == 0: // it goes on with its fallback
		return account.Grant{}, false
	case lease.Invalid:
		return account.Grant{Weight: -1}, true // the owner says whose defect that is
	case !(limit.Rate > 0):
		return account.Grant{}, true
	}
	weight := min(lease.Amount/limit.Rate, 1)
	burst := max(limit.Burst*weight, min(algorithm.Keep*r.Cost, limit.Burst)) // else its events may never pass
	return account.Grant{Weight: weight, Burst: burst, Tokens: burst}, true
}

// Claim implements account.Leaser.
func (a *Account) Claim(now time.Duration, t account.Terms, amount float64, host uint32, c Claim) Lease {
	a.learn(now, c, a.rule.Learning)
	return a.claim(now, t, amount, host, c, false)
}

// learn is called for each claim. If its host is the first, and has something already, keys
// have moved, or another account had this one: others have something too. An account that
// learns already learns no longer for that.
func (a *Account) learn(now time.Duration, c Claim, lasts time.Duration) {
	if c.Has > 0 && !c.Keep && a.Hosts() == 0 && now >= a.learns && lasts > 0 {
		a.learns = now + lasts
	}
}

func (a *Account) claim(now time.Duration, t account.Terms, amount float64, host uint32, c Claim, part bool) Lease {
	if a.rule.OneBand {
		c.Bands = slices.Clone(c.Bands)
		for i := range c.Bands {
			c.Bands[i].Priority = 0
		}
	}
	capacity := Capacity{Amount: amount, Whole: a.rule.InFlight, Overcommit: a.rule.Overcommit}
	there := capacity
	if a.Learns(now, t.Waits) { // what hosts have is of all that there may be
		capacity.Amount = max(amount, float64(a.rule.Limit))
	}
	lease := a.Leases.Claim(now,
		// When a lease from above ends, all those below do, and hosts report no later for it.
		Terms{Lease: t.Lease, Remember: a.rule.Lease, Recalculate: t.Recalculate, LearnUntil: a.learnsUntil(t.Waits), Part: part},
		capacity, host, c)
	// Once so much is out as there is, no other lease can be out that this
	// owner does not know of.
	if now < a.learns && !t.Waits && a.allOut(there.clean()) {
		a.learns = now
	}
	return lease
}

// learnsUntil is until when hosts get back what they have. While the cluster above
// has not said what there is, that goes on for up to a lease, which is how long
// what an earlier owner got from it may have lasted.
func (a *Account) learnsUntil(waits bool) time.Duration {
	if waits {
		return a.learns + a.rule.Lease
	}
	return a.learns
}

// Learns implements account.Leaser.
func (a *Account) Learns(now time.Duration, waits bool) bool { return now < a.learnsUntil(waits) }

// Learned implements account.Leaser: no lease of an earlier owner outlives at.
func (a *Account) Learned(at time.Duration) { a.learns = min(a.learns, at) }

// Expire implements account.Account. If the owner has stood still for so long that leases which it knows have ended,
// another one may have leased the key out meanwhile, and hosts say what they have.
func (a *Account) Expire(now time.Duration, gone func(host uint32)) {
	if a.swept > 0 && a.Hosts() > 0 && now-a.swept > max(a.rule.Lease/2, stoodStill*a.interval) {
		a.Elsewhere(now)
		a.swept = now
	}
	a.Leases.Expire(now, gone)
}

// Swept implements account.Leaser.
func (a *Account) Swept(now time.Duration) { a.swept, a.interval = now, a.settings.Interval }

// Elsewhere implements account.Leaser.
func (a *Account) Elsewhere(until time.Duration) {
	a.learns = max(a.learns, until+max(a.rule.Learning, 0))
}

// Trim implements account.Account: a host that holds nothing is forgotten soon anyway.
func (a *Account) Trim(time.Duration, func(host uint32)) {}

// Fetch implements account.Account. It reads nothing ahead.
func (a *Account) Fetch(now time.Duration, _ uint32, _ int32, gone func(host uint32)) (number int32, read int) {
	a.Expire(now, gone)
	return -1, 0
}

// Beside implements account.Account.
func (a *Account) Beside(int32) (read int) { return 0 }
