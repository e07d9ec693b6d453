// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/elsewhere"
	"github.com/headgate/headgate/limiter/internal/forgiven"
	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// bucket is a remote bucket.
type bucket struct {
	lack
	name  string     // that of the Terms
	limit rate.Limit // by which it follows another rule, if it is not a pool
	alone bool       // it is a pool, and the key's owner has no other but measured ones

	heard   *elsewhere.Heard // nil if no Stage asks it
	seen    news             // of heard, in all
	against against          // what the migration had counted

	latest news          // of heard, between the latest two times that the account was settled
	lacked float64       // before that
	at     stage.Instant // when the account was settled and the bucket had been asked
}

// against is what the side that a migration measures answered unlike the one that answers: how many tokens it refused, or
// was not asked for, and how many it gave that the other one refused.
type against struct{ refused, gave int64 }

// news are what a bucket has heard: how many operations it was sent, and how many tokens it got back, of
// which some came late, from Stages that had left.
type news struct{ asked, back, late int64 }

// listen puts into latest what the bucket has heard since the last call.
func (of *bucket) listen(now stage.Instant) {
	was := of.seen
	of.see()
	of.latest = news{of.seen.asked - was.asked, of.seen.back - was.back, of.seen.late - was.late}
	if of.latest.asked != 0 {
		of.at = now
	}
}

// see notes that all that the bucket has heard until now is seen.
func (of *bucket) see() {
	if h := of.heard; h != nil {
		of.seen = news{h.Operations.Load(), h.Returned.Load(), h.Late.Load()}
	}
}

// fill fills tokens in. Tokens below 0 are what other hosts lack: the bucket got back more than this host's even part
// lacked. They fill, too.
func (of *bucket) fill(tokens, hosts float64) {
	if of.tokens < 0 {
		of.tokens = min(of.tokens+tokens*(hosts-1), 0)
	}
	of.fade(of.tokens, tokens)
	of.lack.fill(tokens)
}

// follow says that the bucket was asked under rule. Only a pool follows the rule before it is asked.
func (of *bucket) follow(a *account, rule *dynamicconfig.Rule) {
	if !pooled(of.name) {
		of.lack, of.limit = of.under(of.burst == 0 || of.tokens < 0, of.limit, rule, a.hosts), rule.Limit
	}
}

// mayFollow says that a Stage that left gave tokens back, and so put a rule in force that the account does not know. The
// account assumes what lets less pass: that the debt became less, and that the burst is the largest of all rules.
func (of *bucket) mayFollow(a *account) {
	if a.rule != nil && of.tokens > of.burst/a.hosts {
		of.follow(a, a.rule)
		of.tokens = min(of.tokens, of.burst+a.rule.MostDebt())
	}
	if a.most > of.burst {
		of.tokens, of.burst = of.tokens+(a.most-of.burst)/a.hosts, a.most
	}
}

// charge charges the bucket with n tokens, as far as rule lets a charge make a debt.
func (of *bucket) charge(n float64, rule *dynamicconfig.Rule) {
	of.tokens, of.burst = max(of.tokens, min(of.tokens+n, rule.Burst+rule.MostDebt())), rule.Burst
}

// giveBack gives tokens back, which may be what other hosts lack.
func (of *bucket) giveBack(tokens, hosts float64) {
	of.tokens -= min(tokens, hosts*max(of.tokens, 0))
}

// remembers is for how long a remote bucket that nobody asks keeps its burst, as in Redis. After that it
// is full under any burst.
const remembers = 10 * time.Minute

// goesOn reports whether the bucket is there after a change of plans. The owner of a key has one pool for exact, auto
// and elastic. Once one of them answers that has no bucket of its own yet, it goes on with the tokens of the one before,
// unless another algorithm answered beside one of them: then the host does not know which pool goes on, and charges it
// with all. A measured bucket ends with the measurement.
func (of *bucket) goesOn(was, next *Plan, there bool) bool {
	to := next.answering()
	switch _, measured := dynamicconfig.Plain(of.name); {
	case next.has(of.name):
	case measured:
		return false
	case !pooled(of.name) || !pooled(to):
	case there || !of.alone || was.answering() != of.name && was.answering() != "" && was.has(of.name):
		return false
	default:
		of.name = to
	}
	of.alone = of.alone && (to == "" || !slices.ContainsFunc(next.Terms, func(t *share.Terms) bool {
		return t.Traits.Pooled && !t.Measured && t.Algorithm != of.name
	}))
	return true
}

// lack is how many tokens one host's even part of a bucket needs until it is full, the burst of the whole bucket, and how many tokens
// more than its even part this host has used of those that the bucket lacks.
type lack struct{ tokens, burst, beyond float64 }

// fill fills tokens in.
func (l *lack) fill(tokens float64) { l.tokens = max(l.tokens-tokens, min(l.tokens, 0)) }

// fade makes beyond smaller: so many tokens came in, of all that were lacking before. They are for all hosts alike.
func (l *lack) fade(lacking, tokens float64) {
	switch {
	case tokens <= 0: // also of a full bucket
	case lacking <= tokens:
		l.beyond = 0
	default:
		l.beyond *= 1 - tokens/lacking
	}
}

// learn sets beyond from what s knows of this host's use, which is at most so many tokens. Under elastic, hosts ask for nothing,
// and s is nil.
func (l *lack) learn(s *remote.Stage, hosts, most float64) {
	if s == nil || hosts <= 1 {
		return
	}
	if own := remote.OwnUse(s); own >= 0 {
		l.beyond = min(l.tokens*own*hosts, most) - l.tokens
	}
}

// under is l after a change from limit to rule. A bucket that is full stays full, whatever the burst. Any other keeps its
// tokens, and a debt becomes less if the limit does.
func (l lack) under(full bool, limit rate.Limit, rule *dynamicconfig.Rule, hosts float64) lack {
	if !full {
		l.tokens = max(rule.Burst/hosts-forgiven.Follow(limit, rule, l.burst/hosts-l.tokens), 0)
	}
	l.burst = rule.Burst
	return l
}
