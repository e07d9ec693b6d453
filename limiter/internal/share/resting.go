// SPDX-License-Identifier: Apache-2.0

package share

import (
	"math"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/limiter/stage"
)

// resting is the level of a Rate that is not in force. No caller takes tokens
// from it. It fills as time passes, and is charged with what the bucket allows,
// so that a switch of levels gives no second burst. The charge makes no debt; a
// debt that the level had in force is paid as time passes.
//
// charged is safe for concurrent use. The rest is for one caller at a time.
type resting struct {
	// fills is how many tokens come in per second. It is negative, or -0, of a level that limits
	// nothing: there, as many come in as the rule's limit says, because the next grant may limit.
	fills   float64
	burst   float64
	tokens  float64
	capped  float64 // tokens that are missing because of a cap, not because they were used
	at      stage.Instant
	charged atomic.Int64 // of what the bucket ever allowed
}

// init makes r the level before the first grant.
func (r *resting) init(now stage.Instant) {
	r.at = now
	r.set(now, Level{Burst: inf}, inf, 0)
}

// set has r be l with so many tokens, under a rule with this limit.
func (r *resting) set(now stage.Instant, l Level, tokens float64, ruled rate.Limit) {
	r.fills, r.burst, r.tokens, r.at = float64(l.Limit), l.Burst, min(tokens, l.Burst), max(r.at, now)
	if l.Limit == rate.Inf {
		r.fills = math.Copysign(float64(ruled), -1)
	}
	r.boundCapped()
}

// level is what r applies.
func (r *resting) level() Level {
	if math.Signbit(r.fills) {
		return Level{rate.Inf, r.burst}
	}
	return Level{rate.Limit(r.fills), r.burst}
}

// charge fills the level in until now, and takes what the bucket, which has
// allowed so many tokens, allowed since the last charge. c, unless nil, is the most
// that the level had.
func (r *resting) charge(now stage.Instant, allowed int64, c *ceil) {
	used := allowed - r.charged.Load()
	if used != 0 { // an atomic write waits for all earlier ones
		r.charged.Add(used)
	}
	if r.tokens != inf { // else it takes over from the bucket, which has been charged
		filled := r.tokens + math.Abs(r.fills)*float64(max(now.Sub(r.at), 0))*1e-9
		held := min(filled, r.burst)
		if c != nil {
			most := min(c.tokens+math.Abs(r.fills)*max(now.Sub(c.at), 0).Seconds(), held)
			held, r.capped = most, r.capped+held-most
		}
		r.tokens = max(held-float64(max(used, 0)), min(filled, 0))
		r.boundCapped()
	}
	r.at = max(r.at, now)
}

// boundCapped has no more tokens missing because of caps than are missing at all.
func (r *resting) boundCapped() {
	if r.capped > 0 {
		r.capped = max(min(r.capped, r.burst-r.tokens), 0)
	}
}

// full reports whether forgetting the level loses nothing.
func (r *resting) full() bool { return r.tokens >= r.burst || r.fills <= 0 }
