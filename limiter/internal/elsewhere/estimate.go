// SPDX-License-Identifier: Apache-2.0

package elsewhere

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

// Estimate is how many tokens a remote bucket has, as far as this host knows: those that
// were left as of the last answer, and what has come in since. Safe for concurrent use.
type Estimate struct {
	left   atomic.Uint64 // float64 bits, as of leftAt; a small mismatch of the two only blurs the estimate
	leftAt atomic.Int64
	above  atomic.Uint32 // float32 bits: how many tokens more the bucket has, which Cap has taken from the estimate
	own    atomic.Uint32 // float32 bits: which part of what the bucket lacks this host has used; below 0 before the first answer: see AssumeOwn
}

// Init makes e the estimate of a bucket that has not been asked yet: it is full.
func (e *Estimate) Init() {
	e.left.Store(math.Float64bits(math.Inf(1)))
	e.AssumeOwn(0)
}

// Asked reports whether there has been an answer, a charge or a cap.
func (e *Estimate) Asked() bool { return !math.IsInf(math.Float64frombits(e.left.Load()), 1) }

// At is the estimate at now, of the bucket of rule.
func (e *Estimate) At(now stage.Instant, rule *dynamicconfig.Rule) float64 {
	return min(e.at(now, rule), rule.Burst)
}

func (e *Estimate) at(now stage.Instant, rule *dynamicconfig.Rule) float64 {
	return math.Float64frombits(e.left.Load()) + float64(rule.Limit)*max(now.Sub(stage.Instant(e.leftAt.Load())), 0).Seconds()
}

// Uncapped is what At would be without Cap.
func (e *Estimate) Uncapped(now stage.Instant, rule *dynamicconfig.Rule) float64 {
	return min(e.at(now, rule)+e.Above(), rule.Burst)
}

// Above is how many tokens the bucket has more than At, because of Cap.
func (e *Estimate) Above() float64 { return float64(math.Float32frombits(e.above.Load())) }

// Level is how many tokens the bucket of key has at now, negative in debt; false if it is not known. It
// does not wait. A nil Level knows none.
type Level func(now stage.Instant, key string) (tokens float64, ok bool)

// Of is how many tokens the bucket of key has; NaN if that is not known.
func (l Level) Of(now stage.Instant, key string) float64 {
	if l == nil {
		return math.NaN()
	}
	if tokens, ok := l(now, key); ok {
		return tokens
	}
	return math.NaN()
}

// WithLevel is At and Uncapped of a bucket that has so many tokens; NaN is not known. While charges are unsent, it
// may show too many.
func (e *Estimate) WithLevel(now stage.Instant, rule *dynamicconfig.Rule, has float64, allSent bool) (tokens, uncapped float64) {
	tokens, uncapped = e.At(now, rule), e.Uncapped(now, rule)
	if has < uncapped || has > uncapped && allSent {
		has = min(has, rule.Burst)
		return min(tokens+max(has-uncapped, 0), has), has
	}
	return tokens, uncapped
}

// longestDebt is how long it takes at most to pay the debt that a remote bucket is believed
// to have, if no charge can make a deeper one. What follows that bucket begins with it.
const longestDebt = time.Hour

// Set has the bucket of rule have tokens at now.
func (e *Estimate) Set(now stage.Instant, rule *dynamicconfig.Rule, tokens float64) {
	e.set(now, rule, tokens, tokens)
}

// AssumeOwn sets what Own goes by until the first answer: this host has used part, 0 to 1, of what the bucket lacked before, and
// all that it has charged the bucket with.
func (e *Estimate) AssumeOwn(part float64) { e.own.Store(math.Float32bits(float32(-1 - part))) }

// Answered is Set after an answer to q, and sets Own anew. Of what the bucket lacks, this host has used what the bucket gave for
// q, and its part of what it lacked before. Other hosts have used the rest.
func (e *Estimate) Answered(q stage.Request, rule *dynamicconfig.Rule, o stage.Outcome) {
	given := o.Lent
	if o.OK {
		given += float64(q.N)
	}
	now := q.Now
	if at := stage.Instant(e.leftAt.Load()); at.Sub(now) > 0 && at.Sub(now) < time.Second {
		now = at // asks that are under way together are answered in any order, so the time between them is counted once
	}
	if lacks := rule.Burst - o.Left; lacks > 0 {
		own, used := e.Own(), rule.Burst-e.Uncapped(now, rule)
		if own >= 0 {
			used *= own
		} else if others := lacks - given - used; others > 0 {
			used += others * (-1 - own)
		}
		e.own.Store(math.Float32bits(float32(min((used+given)/lacks, 1))))
	}
	e.Set(now, rule, o.Left)
}

// Own is which part of what the bucket lacks this host has used, 0 to 1, as of the last answer. What comes in is for all hosts
// alike, so time does not change it. It is below 0 before an answer.
func (e *Estimate) Own() float64 { return float64(math.Float32frombits(e.own.Load())) }

// Cap has the estimate be at most tokens, though the bucket has more.
func (e *Estimate) Cap(now stage.Instant, rule *dynamicconfig.Rule, tokens float64) {
	if tokens < e.At(now, rule) {
		e.set(now, rule, tokens, e.Uncapped(now, rule))
	}
}

// Charge charges the bucket with n tokens. A charge makes no deeper debt than the rule's.
func (e *Estimate) Charge(now stage.Instant, rule *dynamicconfig.Rule, n float64) {
	e.Change(now, rule, rule, func(before float64) float64 { return min(before, max(before-n, -rule.MostDebt())) })
}

// ChargeAbove charges the bucket with n tokens, and first those that Cap has taken from the estimate already. A charge makes no
// deeper debt than the rule's.
func (e *Estimate) ChargeAbove(now stage.Instant, rule *dynamicconfig.Rule, n float64) {
	uncapped := e.Uncapped(now, rule)
	uncapped = max(uncapped-n, min(uncapped, -rule.MostDebt()))
	e.set(now, rule, min(e.At(now, rule), uncapped), uncapped)
}

// Change has the bucket have at now what f makes of the tokens that it had. It is of rule from now on, under which one
// that was full is full.
func (e *Estimate) Change(now stage.Instant, before, rule *dynamicconfig.Rule, f func(tokens float64) float64) {
	tokens, uncapped := e.At(now, before), e.Uncapped(now, before)
	if uncapped == before.Burst && before != rule {
		if uncapped = rule.Burst; tokens == before.Burst {
			tokens = uncapped
		}
	}
	e.set(now, rule, f(tokens), f(uncapped))
}

// NotLent is At where hosts use so much of the rule's limit, in tokens/s, as it comes in.
func (e *Estimate) NotLent(now stage.Instant, rule *dynamicconfig.Rule, used float64) float64 {
	tokens := math.Float64frombits(e.left.Load())
	if unused, since := float64(rule.Limit)-used, now-stage.Instant(e.leftAt.Load()); unused > 0 && since > 0 {
		tokens += unused * float64(since) * 1e-9
	}
	if tokens > rule.Burst {
		return rule.Burst
	}
	return tokens
}

// Lend has the bucket have n tokens less than NotLent: a host has them in its grant, or has given them back if n is negative.
// Hosts call it for each grant, so it takes few instructions.
func (e *Estimate) Lend(now stage.Instant, rule *dynamicconfig.Rule, used, n float64) {
	e.left.Store(math.Float64bits(e.NotLent(now, rule, used) - n))
	e.leftAt.Store(int64(now))
}

func (e *Estimate) set(now stage.Instant, rule *dynamicconfig.Rule, tokens, uncapped float64) {
	deepest := -max(rule.MostDebt(), float64(rule.Limit)*longestDebt.Seconds())
	tokens, uncapped = max(tokens, deepest), max(uncapped, deepest)
	above := float32(0)
	if uncapped > tokens {
		if above = float32(uncapped - tokens); tokens+float64(above) < uncapped { // a full bucket stays full
			above = math.Nextafter32(above, math.MaxFloat32)
		}
	}
	e.left.Store(math.Float64bits(tokens))
	e.above.Store(math.Float32bits(above))
	e.leftAt.Store(int64(now))
}

// Full reports whether the bucket of rule is full at now.
func (e *Estimate) Full(now stage.Instant, rule *dynamicconfig.Rule) bool {
	return rule.Limit == 0 || e.At(now, rule) >= rule.Burst
}
