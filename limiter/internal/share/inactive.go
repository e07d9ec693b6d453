// SPDX-License-Identifier: Apache-2.0

package share

import (
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/limiter/stage"
)

// inactive is the level of a Rate that is not in force. No caller takes tokens
// from it. It fills as time passes, and is charged with what the bucket allows,
// so that a switch of levels gives no second burst. The charge makes no debt; a
// debt that the level had in force is paid as time passes. A level that limits nothing fills as
// fast as the rule says, because the grant after it may limit: see Level.limited.
//
// charged is safe for concurrent use. The rest is for one caller at a time.
type inactive struct {
	Level
	tokens  float64
	capped  float64 // tokens that are missing because of a cap, not because they were used
	at      stage.Instant
	charged atomic.Int64 // how much of what the bucket ever allowed the level was charged with
}

// init makes r the level before the first grant.
func (r *inactive) init(now stage.Instant) {
	r.at = now
	r.set(now, Level{Burst: inf}, inf)
}

func (r *inactive) set(now stage.Instant, l Level, tokens float64) {
	r.Level, r.tokens, r.at = l, min(tokens, l.Burst), max(r.at, now)
	r.boundCapped()
}

// setBesideClosed is set for a level beside a closed fallback, or, under a grant, in place of that: the fallback does not show
// what was spent, so the level does.
func (r *inactive) setBesideClosed(now stage.Instant, l Level, granted bool) {
	tokens, spent := r.tokens, r.spent()
	if granted && tokens >= 0 {
		tokens = l.Burst - spent
	}
	l.Burst = max(l.Burst, tokens+spent)
	r.set(now, l, tokens)
	r.capped = l.Burst - r.tokens - spent
}

// spent is how many tokens are missing because they were used.
func (r *inactive) spent() float64 {
	if n := r.Burst - r.tokens - r.capped; n > 0 { // else none, or the level never was in force
		return n
	}
	return 0
}

// replace gives the level other tokens. What was spent does not change.
func (r *inactive) replace(tokens float64) { r.capped, r.tokens = r.Burst-tokens-r.spent(), tokens }

// charge fills the level in until now, and takes what the bucket, which has
// allowed so many tokens, allowed since the last charge. c, unless nil, is the most
// that the level had.
func (r *inactive) charge(now stage.Instant, allowed int64, c *ceiling) {
	used := allowed - r.charged.Load()
	if used != 0 { // an atomic write waits for all earlier ones
		r.charged.Add(used)
	}
	if r.tokens != inf { // else it takes over from the bucket, which has been charged
		filled := r.tokens + float64(r.Limit)*float64(max(now.Sub(r.at), 0))*1e-9
		held := min(filled, r.Burst)
		if c != nil {
			most := min(c.tokens+float64(r.Limit)*max(now.Sub(c.at), 0).Seconds(), held)
			held, r.capped = most, r.capped+held-most
		}
		if r.tokens = held - float64(max(used, 0)); r.tokens < 0 { // the rest was used of what a cap took
			least := min(filled, 0)
			r.capped = max(r.capped-max(min(float64(used), least-r.tokens), 0), 0)
			r.tokens = max(r.tokens, least)
		}
		r.boundCapped()
	}
	r.at = max(r.at, now)
}

// boundCapped keeps capped from being more than all tokens that are missing.
func (r *inactive) boundCapped() {
	if r.capped > 0 {
		r.capped = max(min(r.capped, r.Burst-r.tokens), 0)
	}
}

// full reports whether forgetting the level loses nothing, under a rule with a limit. The level of a grant without a rate,
// which an owner gives the least of weights, may never fill.
func (r *inactive) full(of rate.Limit) bool { return r.tokens >= r.Burst || r.Limit <= of*leastRate }

// leastRate is beyond the weight of a grant without a rate, and below that of any other.
const leastRate = 1. / (1 << 40)
