// SPDX-License-Identifier: Apache-2.0

// Package owned has the state of one key at its owner: the rule, the account, and what the cluster
// above leases for the key. It knows no other keys, no names of hosts, and no messages but their
// rows. The lock of a key's shard (package table) guards the key. A Keys has all shards, and
// beside them only atomics.
package owned

import (
	"cmp"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/internal/rules"
	"github.com/headgate/headgate/aggregator/parent"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/usage"
)

// Key is one key under one algorithm: a cache line. It is for one caller at a time.
type Key struct {
	text     string
	Settings *rules.Settings     // under which Rule was found
	Rule     *dynamicconfig.Rule // nil: no rule has the algorithm decide about the key
	Account  account.Account
	Above    *parent.Lease // where the capacity comes from; nil: from Rule

	trims time.Duration // no Trim before
}

// New returns the key called text, which is new here at now, under the rule of c.
func New(now time.Duration, text string, s *rules.Settings, c *account.Config, a account.Account) *Key {
	return &Key{text: text, Settings: s, Rule: c.Rule, Account: a, trims: now}
}

// Text is the full key.
func (k *Key) Text() string { return k.text }

// Adopt brings k, which is under the algorithm called named, under s at now, unless it
// is under later ones. It returns false if no rule has that
// algorithm decide about k.
func (k *Key) Adopt(now time.Duration, s *rules.Settings, named string) bool {
	if s.Number > k.Settings.Number {
		k.Count(-1)
		k.Follow(now, s, named)
	}
	return k.Rule != nil
}

// Follow puts k, which no quota counts, under s.
func (k *Key) Follow(now time.Duration, s *rules.Settings, named string) {
	rule, instead := s.Match(k.text, named)
	from := k.Settings.Until(now)
	k.Rule, k.Settings = rule, s
	k.Count(1)
	k.Above = k.Above.Follow(k.Rule, s.Shadows(k.Rule, named))
	c, err := s.Config(cmp.Or(rule, instead), named)
	if err != nil { // it goes on as it was, at the interval that hosts have now; new keys' reports get the error
		c = &account.Config{Settings: &s.Accounts}
	}
	k.Account.Configure(from, c)
}

// Room reports whether k's account knows host, or may at now: if it has max_hosts_per_key,
// k forgets the silent ones.
func (k *Key) Room(now time.Duration, host uint32, gone func(host uint32)) bool {
	most := k.Settings.MaxHosts
	if k.Account.Hosts() < most || k.Account.Knows(host) {
		return true
	}
	if now >= k.trims { // Trim looks at all hosts
		k.trims = now + k.Settings.Accounts.Interval/4
		k.Account.Trim(now, gone)
	}
	return k.Account.Hosts() < most
}

// Limit is the part of the rule's limit and burst that k's hosts share. On the smaller side of a
// split the burst is one token at least, and below a parent two events' worth, unless there is nothing.
func (k *Key) Limit(part float64) algorithm.Limit {
	l := algorithm.Limit{Rate: part * float64(k.Rule.Limit), Burst: part * k.Rule.Burst}
	if part < 1 && part > 0 {
		l.Burst = max(l.Burst, min(k.Rule.Burst, k.Above.Burst()))
	}
	return l
}

// Part of its rule's limit that k's hosts share at now, in [0, 1].
func (k *Key) Part(now time.Duration) float64 {
	if k.Above == nil && k.Settings.Side.Missing == 0 { // nearly always: callers have this inlined
		return 1
	}
	return k.smaller(now)
}

// smaller is Part of a key whose hosts may not share the whole limit.
func (k *Key) smaller(now time.Duration) float64 {
	return min(k.Settings.Side.Part(k.Rule), k.Above.Part(now))
}

// State is what is known of k, which has a rule, at now.
func (k *Key) State(now time.Duration) account.State {
	return k.Account.State(now, k.Limit(k.Part(now)))
}

// soon is after how long a claimant should ask again. A claimant that is short of
// amounts which others still hold asks a few times while the others give them back.
func (k *Key) soon(short bool) time.Duration {
	refresh := k.Above.Refresh(k.Rule.Refresh)
	if !short {
		return refresh
	}
	return min(refresh, max(refresh/shortRefreshes, k.Recalculate(), parent.MinRefresh))
}

// shortRefreshes is how many times in a refresh a host asks that is short.
const shortRefreshes = 4

// Recalculate is after how long asking again may change the answer.
func (k *Key) Recalculate() time.Duration {
	return k.Above.Recalculate(max(k.Rule.Recalculate, 0), k.Rule.Refresh)
}

// Report makes r row i of usage for k's account at now, which has part of the limit
// to share.
func (k *Key) Report(now time.Duration, r *account.Report, u *usage.Report, i int, part float64) {
	allowed, rejected, elapsed, has := float64(u.Allowed[i]), float64(u.Rejected[i]), u.Elapsed[i], u.Weight[i]
	seconds := account.Seconds(max(elapsed, k.Settings.Shortest)) // reports that follow each other closely say little
	rates := account.Rates{Allowed: allowed / seconds, Rejected: rejected / seconds}
	r.Allowed, r.Rejected, r.Rates, r.Elapsed, r.Has, r.Cost = allowed, rejected, rates, elapsed, has, 1
	if u.Cost != nil {
		r.Cost = max(u.Cost[i], 1)
		k.Above.Costs(r.Cost)
	}
	r.Lease, r.Waits = k.Above.Lasts(now, k.Rule.Lease), k.Above.Waits()
	if part < 1 && part > 0 {
		if _, amounts := k.Account.(account.Leaser); !amounts {
			r.Has = min(r.Has/part, 1)
		}
	}
	if r.Slots = -1; u.Slots != nil {
		r.Slots = float64(u.Slots[i]) - 1
	}
	if u.Wants != nil {
		r.Wants = u.Wants[i]
	} else {
		r.Wants = rates.Total()
	}
}

// Asked reports whether hosts ask for tokens of k.
func (k *Key) Asked() bool {
	p, ok := k.Account.(account.Pooled)
	return ok && p.Reached() != algorithm.ReachNever
}

// quota is where k counts; nil if nowhere.
func (k *Key) quota() *rules.Quota {
	p, ok := k.Account.(account.Pooled)
	if !ok || k.Rule == nil {
		return nil
	}
	return k.Settings.Quota(k.Rule, rules.Pooled[p.Reached()])
}

// Count adds n to the number of keys of k's rule, also beyond max_keys: the key was made
// already, or is gone.
func (k *Key) Count(n int64) { k.quota().Add(n) }

// Take serves t, of k, for the owner whose number is by, and asked by host. The Tokens
// of t become what was taken. While it is not known what the cluster above leases, k does not
// decide what there are no tokens for: the host's fallback does.
func (k *Key) Take(now time.Duration, t *usage.Take, by, host uint32) usage.Took {
	p, ok := k.Account.(account.Pooled)
	if !ok {
		t.Tokens = 0
		return usage.Took{}
	}
	if t.Spent == usage.SpentNot {
		k.Above.Costs(t.Tokens)
	}
	part := k.Part(now)
	took := p.Take(now, k.Limit(part), t, by, host)
	if took.OK {
		return took
	}
	if k.Above.Stir(now); part == 0 && k.Above.Waits() {
		return usage.Took{}
	}
	return took
}

// leave says that another owner has k from now on. It returns what the pool of k has as a take of no
// tokens, from which that owner learns it; false if hosts do not ask for tokens of k, or if the pool is full and no
// host holds anything.
func (k *Key) leave(now time.Duration) (row usage.Take, ok bool) {
	p, ok := k.Account.(account.Pooled)
	if !ok {
		return row, false
	}
	if p.Leave(now); !k.Asked() || k.Rule == nil {
		return row, false
	}
	row, full := p.Left(now, k.Limit(k.Part(now)))
	row.Key = k.text
	return row, !full || p.Hosts() > 0 || row.Rates > 0
}

// filled has the pool of k fill by what the cluster above leases from now on: an ask that comes
// next would count the time until then by what it leased before.
func (k *Key) filled(now time.Duration) {
	if p, ok := k.Account.(account.Pooled); ok && k.Rule != nil {
		p.Left(now, k.Limit(k.Part(now)))
	}
}

// Keeps reports whether k's account is worth keeping at now though it knows no host.
// Without a rule, it is kept for as long as lately, and until it would be full under the latest rule.
func (k *Key) Keeps(now, lately time.Duration) bool {
	p, ok := k.Account.(account.Pooled)
	switch {
	case !ok:
		return false
	case k.Rule == nil:
		return p.Lacks(now, lately)
	default:
		return p.Keeps(now, k.Limit(k.Part(now)), lately)
	}
}

// Reach has hosts reach k's pool, if it has one, as c says.
func (k *Key) Reach(now time.Duration, c *account.Config) {
	p, ok := k.Account.(account.Pooled)
	if !ok {
		return
	}
	k.Account = p.Reach(k.Settings.Until(now), c)
	k.Above.Becomes(k.Account)
}
