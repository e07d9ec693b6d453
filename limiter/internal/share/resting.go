// SPDX-License-Identifier: Apache-2.0

package share

import (
	"math"
	"sync/atomic"

	"github.com/headgate/headgate/limiter/stage"
)

// resting is the level of a Rate that is not in force. No caller takes tokens
// from it. It fills as time passes, and is charged with what the bucket allows,
// so that a switch of levels gives no second burst.
//
// charged and ceil are safe for concurrent use. The rest is for one caller at a
// time.
type resting struct {
	Level
	tokens  float64
	at      stage.Instant
	charged atomic.Int64  // of what the bucket ever allowed
	ceil    atomic.Uint64 // float64 bits; the next charge lowers tokens to it
}

// noCeil is the bits of infinity: nothing caps the level.
var noCeil = math.Float64bits(inf)

// init makes r the level before the first grant.
func (r *resting) init(now stage.Instant) {
	r.ceil.Store(noCeil)
	r.set(now, Level{Burst: inf}, inf)
}

func (r *resting) set(now stage.Instant, l Level, tokens float64) {
	r.Level, r.tokens, r.at = l, min(tokens, l.Burst), now
}

// cap has the next charge lower the tokens to at most tokens.
func (r *resting) cap(tokens float64) {
	for {
		old := r.ceil.Load()
		if math.Float64frombits(old) <= tokens || r.ceil.CompareAndSwap(old, math.Float64bits(tokens)) {
			return
		}
	}
}

// charge fills the level in until now, and takes what the bucket, which has
// allowed so many tokens, allowed since the last charge.
func (r *resting) charge(now stage.Instant, allowed int64) {
	used := allowed - r.charged.Load()
	if used != 0 { // an addition waits for everything before it, and so does a swap
		r.charged.Add(used)
	}
	ceil := inf
	if r.ceil.Load() != noCeil {
		ceil = math.Float64frombits(r.ceil.Swap(noCeil))
	}
	if r.tokens != inf { // else it takes over from the bucket, which has been charged
		filled := r.tokens + float64(r.Limit)*float64(max(now.Sub(r.at), 0))*1e-9
		r.tokens = max(min(filled, r.Burst, ceil)-float64(max(used, 0)), 0)
	}
	r.at = now
}

// full reports whether forgetting the level loses nothing.
func (r *resting) full() bool { return r.tokens >= r.Burst || r.Limit == 0 }
