// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"slices"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/keys"
	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// Status is what a host knows of one of its keys: why it is limited as it is.
type Status struct {
	// Key is the key, or, if its rule is private, what Rule.Shown makes of it.
	Key string
	// Rule is the pattern that matched; empty when none did.
	Rule string
	// Mode is the migration's, or ModeNew when there is none.
	Mode dynamicconfig.Mode
	// Shares has the limiter, or the old and the new one of a migration.
	// It is empty for keys that are not limited by themselves.
	Shares []ShareStatus
	// Divergence is how the two answered while both were asked, since the key is in this mode
	// of this rule.
	Divergence stage.Divergence
}

// Answering is the one of Shares, which is not empty, that answers. Under the mode disabled,
// none does, and it is the first one.
func (s *Status) Answering() *ShareStatus {
	return &s.Shares[min(max(s.Mode.Answering(), 0), len(s.Shares)-1)]
}

// ShareStatus is one limiter of a key.
type ShareStatus struct {
	Algorithm string
	Level     stage.Level
	// Fallback: there is no valid grant, or a remote bucket does not
	// answer. Always false for Even.
	Fallback bool
	// FallbackSince is since when, to the second; the zero Time if Fallback is false.
	FallbackSince time.Time
	// Asks: the bucket of this key is elsewhere now, and asked for each event.
	Asks bool
	// Held and Waiting are slots in flight on this host, and those that are
	// waited for; 0 when the rule limits a rate. Of Waiting, Aside are the slots of
	// callers that need more than this host has now, and let others pass.
	Held, Waiting, Aside int64
	// Weight is this host's part of the limit, in [0, 1]. Used is what the whole cluster used
	// of the key, in events/s; under Auto, the rate that this host may use while the key's
	// owner does not answer. Both are as of the newest grant, and 0 before the first. Lease is
	// how long that grant is still valid; 0 if it is not.
	Weight, Used float64
	Lease        time.Duration
	// Passes is the part of all events that pass, in [0, 1]. Under drop-ratio it is less
	// than 1 while the key's owner has hosts refuse events by chance.
	Passes float64
	// Asked is what this host, which has a grant, asked the key's owner for beyond it, since
	// the key came to life. Events that a host without a grant asked for are not among it. It
	// is zero for algorithms other than Auto.
	Asked struct {
		// Asks is how often the owner was asked for an event, or ahead for a loan. Granted
		// is how often it granted that. Withheld is how many events it was not asked for,
		// because the host had asked too often.
		Asks, Granted, Withheld int64
		// Lent is how many tokens the owner lent beside events and ahead of them.
		Lent int64
		// Pause is after how long the owner, which has just refused a token, may have one; 0 if asking may help.
		Pause time.Duration
	}
	// Allowed and Rejected count cost since the key came to life. What was rejected because it
	// costs more than any event may is among it, though it is no demand.
	Allowed, Rejected int64
}

// Inspect returns what the host knows of key. It returns false if the key is not in use here: no caller
// has used it in the last two intervals, its bucket is full, and no demand is stated.
func (g *Group) Inspect(key string) (Status, bool) { return g.inspect(stage.Now(), key) }

// InspectAt is Inspect at t.
func (g *Group) InspectAt(t time.Time, key string) (Status, bool) { return g.inspect(stage.At(t), key) }

// Keys returns the keys that are in use here, in no order: those that Inspect knows. It
// takes time in proportion to their number.
func (g *Group) Keys() []string { return g.keys().Names() }

// Count is what a host has counted of one key.
type Count struct {
	Key string
	// Rule is the rule that matched. Callers do not change it.
	Rule *dynamicconfig.Rule
	// Allowed and Rejected are in tokens, since the key came to life; of a migration, by the
	// limiter that answers. Allowed has what an override let through.
	Allowed, Rejected int64
	// Costly is how much of Rejected is of events that cost more than any may: no host can have
	// what they would take.
	Costly int64
	// Held are slots in flight.
	Held int64
	// Weight is the host's part of the limit, if Granted: the key's owner has said so.
	Weight  float64
	Granted bool
	// Fallback is true while the host uses the rule's fallback.
	Fallback bool

	part share.Part
	now  stage.Instant
}

// Level is what the host applies to the key, as of the call of Counts.
func (c *Count) Level() stage.Level { return c.part.Level(c.now) }

// Counts calls f with each key that is in use here. The keys of a shared rule count as one,
// its pattern. f must be short, and must not use g: new keys and reports wait for it.
func (g *Group) Counts(f func(c Count)) {
	now := stage.Now()
	g.keys().Answering(func(name string, p share.Part) {
		common := p.Common()
		c := Count{Key: name, Rule: common.Terms().Rule, Granted: common.Granted(), part: p, now: now}
		c.Allowed, c.Rejected = countedBy(now, p)
		if r := share.RateOf(p); r != nil {
			_, c.Costly = r.Beside()
		}
		_, c.Fallback = p.InFallback()
		if c.Granted {
			c.Weight = common.Grant().Weight
		}
		if slots, ok := p.(*share.Slots); ok {
			c.Held = slots.Census().Held
		}
		f(c)
	})
}

// Compared calls f with each rule whose migration has compared something in its mode, and with how the
// two sides answered for all of its keys, those that are not in use any more too. It lags by an update
// interval. f must be short, and must not use g.
func (g *Group) Compared(f func(rule string, d stage.Divergence)) { keys.Compared(g.keys(), f) }

// Others returns how many other keys than key the rule of key has on this host: keys in use,
// and idle keys that count for max_keys until idle_after is over. placed says that key is one
// of these too.
func (g *Group) Others(key string) (n int64, placed bool) {
	n = g.keys().Counted(key)
	if placed = g.keys().Live(key) != nil; placed {
		n--
	}
	return n, placed
}

// Elsewhere reports whether a decision about key may wait for another host, or for Redis.
func (g *Group) Elsewhere(key string) bool {
	rule := g.keys().RateRule(key)
	return rule != nil && slices.ContainsFunc(rule.Algorithms(), func(name string) bool { return g.keys().Remotes[name] != nil })
}

func (g *Group) inspect(now stage.Instant, key string) (Status, bool) {
	found := Status{Key: key}
	ok := g.keys().Inspect(key, func(st *keys.State) {
		found.Rule, _ = st.Rule()
		found.Mode, found.Divergence = st.Mode(), st.Migration().Divergence()
		for _, p := range st.Parts() {
			found.Key = p.Common().Terms().Rule.Shown(key)
			found.Shares = append(found.Shares, statusOf(now, p))
		}
	})
	if !ok {
		return Status{}, false
	}
	return found, true
}

func statusOf(now stage.Instant, of share.Part) ShareStatus {
	c := of.Common()
	grant := c.Grant()
	st := ShareStatus{
		Algorithm: c.Terms().Algorithm,
		Weight:    grant.Weight,
		Used:      grant.Used,
		Lease:     max(grant.Until.Sub(now), 0),
		Level:     of.Level(now),
		Asks:      of.Asking(),
		Passes:    1,
	}
	st.Allowed, st.Rejected = countedBy(now, of)
	if since, inFallback := of.InFallback(); inFallback {
		st.Fallback, st.FallbackSince = true, since.Time()
	}
	if slots, ok := of.(*share.Slots); ok {
		census := slots.Census()
		st.Held, st.Waiting, st.Aside = census.Held, census.Waiting, census.Aside
		return st
	}
	if own, ok := of.(share.RatePart); ok {
		st.Passes = own.Own().Bucket().Passes()
	}
	if a, ok := of.(*remote.Auto); ok {
		asked := a.Asked()
		to := &st.Asked
		to.Asks, to.Granted, to.Withheld, to.Lent = asked.Asks, asked.Granted, asked.Withheld, asked.Lent
		to.Pause = a.Pause(now)
	}
	return st
}

// countedBy is the cost that p allowed and rejected.
func countedBy(now stage.Instant, p share.Part) (allowed, rejected int64) {
	usage, elsewhere := p.Count(now), p.Admitted()
	if r := share.RateOf(p); r != nil {
		inherited := r.Inherited() // from the last time that the key was in use
		usage.Allowed, usage.Rejected = usage.Allowed-inherited.Allowed, usage.Rejected-inherited.Rejected
		allowed, rejected = r.Beside()
	}
	return allowed + usage.Allowed + elsewhere, rejected + usage.Rejected - elsewhere
}
