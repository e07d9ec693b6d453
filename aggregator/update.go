// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"sync"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/internal/owned"
	"github.com/headgate/headgate/aggregator/internal/rules"
	"github.com/headgate/headgate/aggregator/internal/table"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// update is one Step under way.
type update struct {
	core      *Core
	now       time.Duration
	settings  *rules.Settings
	usage     *usage.Report
	algorithm string // by its canonical name
	host      uint32
	grants    *usage.Grants

	side rules.Side // of which this owner, and not the host, sees to the even floor
	// found are, for the rows under way, the number of the host's row at the key that is
	// likely, or none. If it is that key and there is a number, the key knows the host, has a
	// rule under the settings in force, and has forgotten who is too old.
	found     [table.AtOnce]int32
	fetched   int // so that what is read ahead counts as used
	report    account.Report
	reporting *owned.Key // whose account a report of a host that it did not know is with
	before    int        // how many hosts it had

	failed int32 // the last row that a weigher is to blame for
	why    error

	order table.Order[*owned.Key]
}

// none is no row.
const none int32 = -1

// updates has those that no Step uses.
var updates sync.Pool

// newUpdate returns an update for one Step. The caller calls done after it.
func newUpdate() *update {
	u, ok := updates.Get().(*update)
	if !ok {
		u = new(update)
	}
	return u
}

// done keeps u for another Step, without what this one referred to.
func (u *update) done() {
	u.core, u.settings, u.usage, u.grants, u.reporting, u.why, u.report = nil, nil, nil, nil, nil, nil, account.Report{}
	updates.Put(u)
}

// Rows implements table.Visitor: it decides rows.
func (u *update) Rows(now time.Duration, rows []int32, hashes []uint64, keys []*owned.Key) {
	u.now, u.why = now, nil
	if u.core.keys.Left.Load() {
		for _, i := range rows {
			u.put(int(i), account.Grant{}, 0)
		}
		return
	}
	if u.found[0] = none; len(rows) > 1 {
		u.fetch(rows, keys)
	}
	for n := 0; n < len(rows); n++ {
		var err error
		if n, err = u.rows(rows, hashes, keys, n); err != nil {
			u.failed, u.why = rows[n], err
			u.core.metrics.invalid.Inc(1)
			u.put(int(u.failed), account.Grant{}, 0)
		}
	}
}

// Unlocked implements table.Visitor: it logs why a weigher failed with a row, if one
// did. A log may be slow.
func (u *update) Unlocked() {
	if u.why != nil {
		u.core.blame(u.now, u.algorithm, u.settings.Snapshot.Shown(u.usage.Keys[u.failed]), u.why)
	}
}

// fetch reads a little of all that rows will need, whose keys are likely these,
// step by step: where the keys are was first, now what the rows say and the keys,
// then the host's rows, then those beside them. Within a step no read waits for
// another, so the processor has many under way. Row after row, it would wait for
// each. It has keys forget who is too old as well, but for those that have other
// settings to adopt, or no rule: what is too old is for settings to say. An algorithm that
// panics here is to blame if it does so again when its row is decided.
func (u *update) fetch(rows []int32, keys []*owned.Key) {
	found := u.found[:len(keys)]
	defer func() {
		if recover() != nil {
			for n := range found {
				found[n] = none
			}
		}
	}()

	read := 0
	texts := u.usage.Keys
	n := len(texts)
	allowed, rejected, elapsed, weight := u.usage.Allowed[:n], u.usage.Rejected[:n], u.usage.Elapsed[:n], u.usage.Weight[:n]
	for _, i := range rows {
		read += int(texts[i][0]) + int(allowed[i]|rejected[i]) + int(elapsed[i]) + int(weight[i])
	}
	for _, k := range keys {
		if k != nil {
			read += len(k.Text()) + k.Account.Hosts()
		}
	}
	guess, gone := none, u.core.keys.Hosts.Gone // hosts often have the same row in each key
	for n, k := range keys {
		found[n] = none
		if k != nil && k.Settings == u.settings && k.Rule != nil {
			row, some := k.Account.Fetch(u.now, u.host, guess, gone)
			read += int(k.Text()[0]) + some
			if found[n] = row; row != none {
				guess = row
			}
		}
	}
	for n, row := range found {
		if row != none {
			read += keys[n].Account.Beside(row)
		}
	}
	u.fetched += read
}

// rows decides rows from number n of them on, whose shard is locked, and
// returns the number of the first that an algorithm is to blame for.
func (u *update) rows(rows []int32, hashes []uint64, keys []*owned.Key, n int) (at int, err error) {
	defer rpc.Recovered(&err)
	defer u.joined() // if a weigher does not return

	for at = n; at < len(rows); at++ {
		if err := u.row(keys[at], u.found[at], int(rows[at]), hashes[at]); err != nil {
			return at, err
		}
	}
	return at, nil
}

// row decides row i, whose key has this hash and is likely k, at which the host likely has
// this row, or none.
func (u *update) row(k *owned.Key, row int32, i int, hash uint64) error {
	if row == none || k.Text() != u.usage.Keys[i] {
		var err error
		if k, err = u.ready(k, i, hash); k == nil {
			u.put(i, account.Grant{}, 0)
			return err
		}
	}
	g, ok := u.decide(k, i, false)
	switch {
	case !ok:
		u.put(i, account.Grant{}, 0)
	case !valid(g):
		return invalidGrant(g)
	default:
		u.put(i, g, u.report.Lease)
	}
	return nil
}

// ready returns the key of row i, which has this hash and is likely k, ready for a report of
// the host; nil if it decides nothing.
func (u *update) ready(k *owned.Key, i int, hash uint64) (*owned.Key, error) {
	if k == nil || k.Text() != u.usage.Keys[i] {
		var err error
		if k, err = u.find(hash, i); err != nil {
			return nil, err
		}
	}
	if k != nil && (k.Settings != u.settings || k.Rule == nil) {
		if !u.core.keys.Adopt(u.now, u.core.keys.Table.Shard(hash), k, u.settings, u.algorithm, hash) {
			k = nil
		}
	}
	if k == nil {
		return nil, u.elsewhere(i, hash)
	}
	if !u.admit(k) {
		return nil, nil
	}
	return k, nil
}

// put answers row i with g; a zero lease means that there is no grant.
func (u *update) put(i int, g account.Grant, lease time.Duration) {
	grants := u.grants
	grants.Weight[i], grants.Burst[i], grants.Used[i], grants.Lease[i] = g.Weight, g.Burst, g.Used, lease
	if grants.Tokens != nil {
		grants.Tokens[i] = g.Tokens
	}
}

// admit makes k, which may or may not know the host, ready for a report of it.
// It returns false if there is no room for another.
func (u *update) admit(k *owned.Key) bool {
	k.Account.Expire(u.now, u.core.keys.Hosts.Gone)
	if !k.Room(u.now, u.host, u.core.keys.Hosts.Gone) {
		u.core.metrics.noRoom.Inc(1)
		return false
	}
	u.reporting, u.before = k, k.Account.Hosts()
	return true
}

// decide takes in row i, about k, and returns what the host may do; false if it
// should go on as it is. Elsewhere says that another algorithm granted what it has.
func (u *update) decide(k *owned.Key, i int, elsewhere bool) (g account.Grant, ok bool) {
	part, r := k.Part(u.now), &u.report
	r.Elsewhere = elsewhere
	k.Report(u.now, r, u.usage, i, part)
	g, ok = k.Account.Report(u.now, k.Limit(part), u.host, r)
	if u.reporting != nil {
		u.joined()
	}
	if r.Overlaps {
		r.Overlaps = false
		u.core.metrics.overlapping.Inc(1)
	}
	below := k.Above != nil || part < 1 // hosts know the rule's limit only
	if below && !k.Asked() {
		g.Used = max(g.Used, float64(k.Rule.Limit)) // so hosts do not use the rest of it
	}
	switch {
	case r.Keeps:
		r.Keeps = false
		has := u.usage.Weight[i]
		return u.floored(account.Grant{Weight: has, Burst: has * k.Rule.Burst, Used: g.Used}, k, part), true
	case below:
		k.Above.Stir(u.now)
		if u.grants.Floor != usage.FloorDrop { // which says what part of the events passes
			g.Weight *= part
		}
		ok = ok && !k.Above.Waits()
	case u.side.Missing <= 0: // nearly always
		return g, ok
	}
	return u.floored(g, k, part), ok
}

// floored is g, and no less than a host's even share of k's limit, or of the part of it that
// this side of a split has. Hosts would add an even share of the whole.
func (u *update) floored(g account.Grant, k *owned.Key, part float64) account.Grant {
	if u.side.Missing > 0 {
		deciders := max(float64(u.side.Deciders), 1)
		share := min(part/deciders, 1/(deciders+float64(u.side.Missing)))
		g.Weight, g.Burst = max(g.Weight, share), max(g.Burst, share*k.Rule.Burst)
	}
	return g
}

// elsewhere takes in row i, whose key has this hash, if the key's rule has
// another algorithm decide than the one that the host names: because the rules
// have changed, and one of the two does not know it yet. The host keeps what it
// has until its lease ends, and the rule's account counts it. What the host only measured
// counts nowhere.
func (u *update) elsewhere(i int, hash uint64) error {
	text := u.usage.Keys[i]
	_, rule := u.settings.Match(text, u.algorithm)
	if _, measured := dynamicconfig.Plain(u.algorithm); measured || rule == nil || rules.Disabled(rule) {
		return nil
	}
	name := u.settings.Answering(rule)
	sh := u.core.keys.Table.Shard(hash)
	k, later := u.core.keys.Find(u.now, sh, u.settings, name, hash, text)
	switch {
	case later:
		return nil
	case k == nil:
		c, err := u.settings.Config(rule, name)
		if err != nil {
			return nil // nothing is shared by that name; or hosts that name it get an error
		}
		if k = u.core.keys.Make(u.now, sh, u.settings, c, name, hash, text); k == nil {
			return nil
		}
		k.Count(1)
	}
	if !u.core.keys.Keep(u.now, sh, k, u.settings, name) || !u.admit(k) {
		return nil
	}
	u.decide(k, i, true)
	return nil
}

// joined counts the host if the account that was reported to did not know it
// before. It may panic, as weighers do.
func (u *update) joined() {
	k := u.reporting
	if k == nil {
		return
	}
	u.reporting = nil
	if k.Account.Hosts() > u.before && k.Account.Knows(u.host) {
		u.core.keys.Hosts.Add(u.host, 1)
	}
}

// find finds or makes the key of row i; nil if there is no room. The error
// says that the algorithm is to blame.
func (u *update) find(hash uint64, i int) (*owned.Key, error) {
	text := u.usage.Keys[i]
	sh := u.core.keys.Table.Shard(hash)
	if k, later := u.core.keys.Find(u.now, sh, u.settings, u.algorithm, hash, text); k != nil || later {
		return k, nil
	}
	rule, instead := u.settings.Match(text, u.algorithm)
	if instead != nil {
		return nil, nil
	}
	if rule == nil {
		u.core.metrics.noRoom.Inc(1)
		return nil, nil
	}
	if owned.HasPool(sh, rule, u.algorithm, hash, text) {
		return nil, nil
	}
	c, err := u.settings.Config(rule, u.algorithm)
	if err != nil {
		return nil, err
	}
	k := u.core.keys.Make(u.now, sh, u.settings, c, u.algorithm, hash, text)
	if k != nil {
		k.Count(1) // hosts that report hold max_keys themselves
		u.core.keys.Began(u.usage.Weight[i] > 0)
	}
	return k, nil
}
