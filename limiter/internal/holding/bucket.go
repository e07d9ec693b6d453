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
	alone bool       // it is a pool, and the key's owner has no other pool but measured ones

	heard    *elsewhere.Heard // nil if no Stage asks it
	seen     heardCounts      // of heard, in all
	differed differed         // what the migration had counted

	latest heardCounts   // of heard, between the latest two times that the account was settled
	lacked float64       // before that
	at     stage.Instant // when the account was settled and the bucket had been asked
}

// differed is where the side that a migration measures differed from the side that answers: how many tokens it refused, or was
// not asked for, that the other side gave, and how many it gave that the other side refused.
type differed struct{ refused, gave int64 }

// heardCounts are counts of an elsewhere.Heard: operations that the bucket was sent, and tokens that it got back.
type heardCounts struct{ asked, back int64 }

// observe puts into latest what the bucket has heard since the last call.
func (of *bucket) observe(now stage.Instant) {
	was := of.seen
	of.markSeen()
	of.latest = heardCounts{of.seen.asked - was.asked, of.seen.back - was.back}
	if of.latest.asked != 0 {
		of.at = now
	}
}

// markSeen notes that all that the bucket has heard until now is seen.
func (of *bucket) markSeen() {
	if h := of.heard; h != nil {
		of.seen = heardCounts{h.Operations.Load(), h.Returned.Load()}
	}
}

// fill fills in tokens, so many for this host. Where of.tokens is below 0, the bucket got back more than this host's even part
// lacked, so other hosts' parts lack less. Those parts fill, too.
func (of *bucket) fill(tokens, hosts float64) {
	if of.tokens < 0 {
		of.tokens = min(of.tokens+tokens*(hosts-1), 0)
	}
	of.fade(of.tokens, tokens)
	of.lack.fill(tokens)
}

// follow puts the bucket under rule, with which it was asked. A pool follows its owner's rule without that: see before.follow.
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

// giveBack takes in tokens that callers gave back. They may be more than this host's even part lacks.
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
type lack struct{ tokens, burst, aboveEven float64 }

// fill fills tokens in.
func (l *lack) fill(tokens float64) { l.tokens = max(l.tokens-tokens, min(l.tokens, 0)) }

// fade makes aboveEven smaller in proportion: of the tokens that were lacking, so many came in, for all hosts alike.
func (l *lack) fade(lacking, tokens float64) {
	switch {
	case tokens <= 0: // also of a full bucket
	case lacking <= tokens:
		l.aboveEven = 0
	default:
		l.aboveEven *= 1 - tokens/lacking
	}
}

// learn sets aboveEven from what s knows of this host's use, which is at most so many tokens. Under elastic, hosts ask for nothing,
// and s is nil.
func (l *lack) learn(s *remote.Stage, hosts, most float64) {
	if s == nil || hosts <= 1 {
		return
	}
	if own := remote.OwnUse(s); own >= 0 {
		l.aboveEven = min(l.tokens*own*hosts, most) - l.tokens
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
