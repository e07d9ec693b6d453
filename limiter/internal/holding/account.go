// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"math"
	"slices"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// account says how many tokens a key lacks because of what this host used, and how many each remote bucket lacks that was
// ever asked for the key. Both are this host's even part: of a bucket that lacks 20, each of four hosts has 5. Both fill at
// the rule's limit divided by the hosts. Of what a remote bucket lacks, this host has used more or less than that: see
// lack.aboveEven. A remote bucket that takes over is charged with the difference: see charge. The zero account lacks nothing.
type account struct {
	lack
	uncut float64             // what the key would lack if no rule had lowered its burst; until it is 0, the key is not full
	rule  *dynamicconfig.Rule // the latest that limited a rate; nil if none did
	most  float64             // the largest burst of any rule
	limit rate.Limit          // of the rule before the latest
	hosts float64
	part  float64       // of the rule's burst, that this host could use
	at    stage.Instant // when all of this was settled

	hidden   bool            // the part that answers does not show what the key lacks
	partOnly float64         // how many tokens the part that answers lacks that the key does not: see carryOver
	issuer   *report.Subject // the part that answers, or that answered last; nil if none did
	allowed  int64           // what issuer had allowed by then
	back     int64           // what it had got back by then

	buckets []bucket
}

// filled is what has come in since a was settled.
func (a *account) filled(now stage.Instant) float64 {
	if a.rule == nil {
		return 0
	}
	return float64(a.rule.Limit) * max(now.Sub(a.at), 0).Seconds() / a.hosts
}

// keepsBurst reports whether a bucket has a burst of its own.
func (a *account) keepsBurst() bool {
	return slices.ContainsFunc(a.buckets, func(of bucket) bool { return of.burst > 0 && !pooled(of.name) })
}

// full reports whether a may be forgotten, because nothing is missing any more. What is lost is which burst a remote bucket had.
func (a *account) full(now stage.Instant) bool {
	filled := a.filled(now)
	return a.rule == nil || a.rule.Limit <= 0 || max(a.tokens, a.uncut, a.partOnly) <= filled &&
		!slices.ContainsFunc(a.buckets, func(of bucket) bool { return of.tokens > filled })
}

// level is what the host has of the key.
func (a *account) level() stage.Level {
	if a.uncut == 0 {
		return stage.Level{Limit: rate.Inf, Burst: math.Inf(1), Tokens: math.Inf(1)}
	}
	room := a.part * a.burst
	return stage.Level{Limit: a.rule.Limit * rate.Limit(a.part), Burst: room, Tokens: room - a.tokens - a.partOnly}
}

// find is the index of the bucket called name; below 0 if there is none.
func (a *account) find(name string) int {
	return slices.IndexFunc(a.buckets, func(of bucket) bool { return of.name == name })
}

// bucket is the one called name, which a is to know from now on.
func (a *account) bucket(name string) *bucket {
	i := a.find(name)
	if i < 0 {
		i, a.buckets = len(a.buckets), append(a.buckets, bucket{name: name})
	}
	return &a.buckets[i]
}

// shareHeard has the Stage of s count in the same Heard as the Stages of its bucket before it. So the account sees what
// a Stage gives back after it has left.
func (a *account) shareHeard(s *report.Subject) {
	i, asks := a.find(s.Name()), remote.Of(s.Part())
	if i >= 0 && asks != nil {
		of := &a.buckets[i]
		if of.heard == nil {
			of.heard = asks.Heard
		} else if asks.Heard != of.heard { // callers do not find s yet
			asks.Heard = of.heard
		}
		of.markSeen()
	}
}

// passed is what happened to a key since its account was last settled.
type passed struct {
	was    account // the zero account if there was none
	known  bool    // there was one
	filled float64 // tokens that came in; 0 if there was no account
	used   float64 // tokens that callers took of the part that answers, less those that they gave back; may be below 0
	back   float64 // tokens that callers gave back
}

// most is the most tokens that may be lacking after p, where so many were lacking before: what callers gave back may have come
// first, when there was no room for it.
func (p *passed) most(lacked float64) float64 { return max(lacked-p.back, 0) + max(p.used+p.back, 0) }

// divide has a be this host's even part where there are so many hosts. If hosts have left, this host's part of the key has
// grown by their room, and by none of their tokens. Hosts that have joined began with full parts, which lack nothing.
func (a *account) divide(hosts float64) {
	if was := a.hosts; was > hosts && a.rule != nil {
		more, room := was/hosts, a.burst/hosts-a.burst/was
		a.partOnly = max(a.partOnly*more, room-a.tokens*(more-1), 0)
		a.tokens, a.uncut = a.tokens*more, a.uncut*more
		for i := range a.buckets {
			a.buckets[i].tokens *= more
		}
	}
	a.hosts = hosts
}

// settle brings b's account up to now. It takes bounds from what the parts show, and of two bounds the one by which less passes.
func (b *before) settle() {
	a := &b.account
	if c := b.carried(); c != nil {
		*a = c.account
		a.buckets = slices.Clone(a.buckets)
	}
	p := passed{was: *a, known: a.rule != nil, filled: a.filled(b.now)}
	if a.issuer = b.issuer(); a.issuer != nil {
		p.used, p.back = float64(allowedBy(a.issuer)-a.allowed), float64(share.GivenBack(a.issuer.Rate)-a.back)
	}
	a.divide(float64(b.hosts))
	a.at = b.now
	a.fade(max(a.uncut, a.tokens), p.filled)
	a.partOnly = max(a.partOnly-max(p.filled-a.tokens, 0), 0) // what came in first, the key lacked too
	a.fill(p.filled)
	a.uncut = max(a.uncut-p.filled, a.tokens)
	if b.settleBuckets(&p); b.answering() == nil {
		b.account.giveBack(&p)
	} else if level, limited := b.partsLevel(); limited {
		b.settleKey(level, &p)
		b.settleAnswering(level, &p)
		b.settleMeasured(level, &p)
	}
}

// settleBuckets takes in what each bucket was sent and got back, and fills the buckets.
func (b *before) settleBuckets(p *passed) {
	a := &b.account
	for _, s := range b.Subjects() {
		if asks := remote.Of(s.Part()); asks != nil && (b.plan.answering() != "" || asks.Heard.Operations.Load() > 0) { // no host asks the buckets of a rule that is disabled
			if of := a.bucket(s.Name()); of.heard == nil {
				of.heard = asks.Heard
			}
		}
	}
	var rule *dynamicconfig.Rule // that remote buckets are asked under; nil if none limits a rate
	if b.plan != nil && !b.plan.Rule.InFlight {
		rule = b.plan.Rule
		a.most = max(a.most, rule.Burst)
	}
	measured := b.measuredRemote()
	for i := range a.buckets {
		of := &a.buckets[i]
		of.observe(b.now)
		if p.used > 0 && (of.name == b.plan.answering() || measured != nil && of.name == measured.Name()) {
			of.latest.asked++ // for some of that, it may be asked in the background
		}
		switch {
		case of.latest.asked == 0:
		case rule != nil:
			of.follow(a, rule)
		case !pooled(of.name): // a Stage that left gave tokens back under its own rule
			of.mayFollow(a)
		}
		of.lacked = of.tokens
		of.fill(p.filled, a.hosts)
		of.giveBack(float64(of.latest.back), a.hosts)
		if of.latest.asked == 0 && b.now.Sub(of.at) > remembers && of.tokens <= 0 {
			of.burst = 0
		}
	}
}

// giveBack takes in what callers gave back to the part that answered last. No more of it counts than that part shows.
func (a *account) giveBack(p *passed) {
	if a.issuer != nil && p.used < 0 {
		if level := stageOf(a.issuer).Level(a.at); level.Limit < rate.Inf {
			a.fill(min(-p.used, max(a.tokens+level.Tokens-a.part*a.burst, 0)))
		}
	}
}

// settleKey sets what the key lacks: what the level of the part that answers shows, and what that level hides.
func (b *before) settleKey(level stage.Level, p *passed) {
	a, r, rule, used := &b.account, b.answering(), b.plan.Rule, max(p.used, 0)
	own, lacks, part := a.tokens+a.aboveEven+used, b.lacking(level), 1/a.hosts
	_, inFallback := b.Answering().InFallback()
	switch {
	case level.Above > 0 && p.known && a.hosts > 1: // it was charged, and has not answered yet: its level is what this host had
		lacks = max(a.tokens+p.used, 0)
	case r.Granted() || inFallback: // it was lent less than there is
		lacks = min(lacks, p.most(p.was.uncut))
	case !level.Remote:
		shown := lacks
		lacks = max(shown-a.partOnly, min(shown, p.most(a.tokens)))
		a.partOnly = min(a.partOnly, shown-lacks)
	}
	if r.Granted() {
		if rule.Burst > 0 {
			part = max(part, level.Burst/rule.Burst)
		}
		if level.Tokens < 0 { // then all that the host may use is used, unless the grant began with less
			lacks = max(lacks, min(part*rule.Burst-level.Tokens, p.most(max(p.was.uncut, a.uncut))))
		}
	}
	if a.hidden {
		unused := min(float64(level.Limit)*b.now.Sub(p.was.at).Seconds(), max(p.filled-p.was.tokens, 0)) // came in while the key lacked nothing
		lacks = max(lacks, min(a.tokens+max(p.used-unused, 0), part*rule.Burst-min(level.Tokens, 0)))
	}
	if s := lender(b); s != nil && s.Asks() { // nobody has used what the owner had left
		left, _ := remote.NotLent(b.now, s.Part())
		lacks = min(lacks, max(rule.Burst-left-level.Tokens, 0))
	}
	a.tokens, a.burst, a.part, a.rule = lacks, rule.Burst, part, rule
	if (level.Remote && !inFallback || lender(b) != nil) && heard(b) {
		if !p.known { // the account does not know what this host used before it started
			own = max(own, lacks)
		}
		a.learn(remote.Of(b.Answering()), a.hosts, own)
	}
	if a.uncut = lacks; p.was.uncut > 0 {
		a.uncut = max(p.was.uncut+max(p.used, 0)-p.filled, lacks)
	}
}

// settleAnswering sets what the bucket that answers lacks, if it is remote: what the key lacks.
func (b *before) settleAnswering(level stage.Level, p *passed) {
	a, s := &b.account, lender(b)
	if s == nil && !level.Remote {
		return
	}
	of := a.bucket(b.plan.answering())
	switch {
	case level.Above > 0: // it was charged and has not answered yet, and the level is the key's
		deepest := max(of.lacked, b.plan.Rule.Burst+b.plan.Rule.MostDebt())
		least := min(of.lacked+p.used+p.back, deepest) - p.back - p.filled // what came back may have come last
		if !p.known {
			least = 0
		}
		of.tokens = min(of.tokens+max(p.used+p.back, 0), deepest, max(least, level.Burst-level.Tokens-level.Above, 0))
	case heard(b) || pooled(of.name):
		of.lack, of.limit = a.lack, a.rule.Limit
	case level.Remote && p.known && a.hosts == 1 && p.used == 0 && p.back == 0 && of.burst > 0 && level.Tokens < level.Burst:
		if _, inFallback := b.Answering().InFallback(); !inFallback { // it shows what it has: it may have filled by an earlier rule
			of.tokens = max(of.tokens, of.burst-level.Tokens)
		}
	}
	if of.alone = of.alone || pooled(of.name); s != nil {
		of.lack.fill(float64(s.Unreported(b.now) + s.Uncharged()))
	}
	a.shareHeard(a.issuer)
}

// heard reports whether the bucket that answers, or that a migration measures, was asked.
func heard(b *before) bool {
	measured := b.measuredRemote()
	return slices.ContainsFunc(b.account.buckets, func(of bucket) bool {
		return of.latest.asked != 0 && (of.name == b.plan.answering() || measured != nil && of.name == measured.Name())
	})
}

// follow has the account follow the rule of next.
func (b *before) follow(next *Plan) {
	a := &b.account
	if a.limit = next.Rule.Limit; a.rule != nil {
		a.limit = a.rule.Limit
	} else {
		a.part = 1 / a.hosts
	}
	had := a.part*a.burst - a.tokens - a.partOnly
	a.lack, a.rule = a.under(a.uncut == 0, a.limit, next.Rule, a.hosts), next.Rule
	a.partOnly = min(a.partOnly, max(a.part*a.burst-a.tokens-had, 0))
	a.uncut = max(a.uncut, a.tokens)
	kept, there := a.buckets[:0], a.find(next.answering()) >= 0
	for _, of := range a.buckets {
		if pooled(of.name) { // an owner follows its key's rule
			of.lack = of.under(of.tokens <= 0, a.limit, next.Rule, a.hosts)
		}
		if of.goesOn(b.plan, next, there) {
			kept = append(kept, of)
		}
	}
	a.buckets = kept
}

// charge returns how many tokens a remote bucket under t is charged with if it takes over: those of this host that the key lacks
// and the bucket does not. A bucket that goes on is not charged. part is how much of what the bucket lacks already this host has
// used, 0 to 1.
func (b *before) charge(t *share.Terms, takesOver bool) (n int64, part float64) {
	a := &b.account
	of := a.bucket(t.Name())
	if !takesOver {
		return 0, 0
	}
	after := *of
	after.follow(a, a.rule)
	switch {
	case after.tokens > 0:
		part = (after.tokens + after.aboveEven) / after.tokens / a.hosts
	case !b.Has() && b.carried() == nil: // the key is new here, as after a restart
		part = 1 / a.hosts
	}
	more := a.tokens - after.tokens
	n = t.Chargeable(int64(min(max(math.Ceil(more+a.aboveEven-after.aboveEven-1e-4), 0), 1<<53)))
	if more > 1e-4 && !t.ChargedByReports() { // else it is charged once the owner gives a grant
		*of = after
		of.charge(math.Ceil(more-1e-4), a.rule)
		of.aboveEven = a.aboveEven
	}
	return n, part
}

// charged reports whether the bucket of s has been charged with what the key used until now, so that it takes over without a
// charge. A bucket that was only measured, and refused some of that, has not.
func (b *before) charged(s *report.Subject, answers bool) bool {
	if s == b.account.issuer {
		return true
	}
	i := b.plan.measured()
	return i >= 0 && s == b.pair[i] && b.Migration() != nil && (!answers || s.ChargedByReports() || !stageOf(s).Level(b.now).Remote)
}

// lacking is how many tokens this host has used, and time has not filled in again, as far as level and the parts show.
//
//   - Of a remote bucket, it is the host's even part.
//   - The bucket of a grant does not show it: a grant may lend fewer tokens than the bucket holds, and a small
//     bucket may be full. So the host has used at least what the inactive level lacks because of its events,
//     or its even part of what the owner's pool lacks, except for the tokens that the host still has.
func (b *before) lacking(level stage.Level) float64 {
	r, hosts := b.answering(), float64(b.hosts)
	switch inactive := float64(r.Inactive(b.now).Missing()); {
	case level.Remote:
		return max(b.plan.Rule.Burst/hosts-b.tokensFor(true), 0)
	case !r.Granted():
		return max(level.Burst-level.Tokens, inactive, float64(r.Spent(b.now)))
	case b.Stage.Level(b.now).Limit == rate.Inf:
		return inactive
	}
	paid := 0.
	if of := remote.Of(b.Answering()); of != nil {
		paid = float64(of.Elsewhere(b.now).Missing())/hosts - max(level.Tokens, 0)
	}
	return max(level.Burst-level.Tokens, float64(r.Spent(b.now)), paid)
}

// lender is the part that answers if it lends; else nil.
func lender(b *before) *report.Subject {
	if b.answering() != nil && lends(b.pair[b.plan.Answers]) {
		return b.pair[b.plan.Answers]
	}
	return nil
}

// lends reports whether the tokens of s are a grant of the key's owner out of its pool.
func lends(s *report.Subject) bool { return s.Rate.Granted() && s.Rate.Terms().Traits.Pooled }
