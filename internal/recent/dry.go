// SPDX-License-Identifier: Apache-2.0

package recent

import (
	"math"

	"github.com/headgate/headgate/dynamicconfig"
)

// Dry is what a limit would have done with what happened.
type Dry struct {
	Offered  float64 `json:"offered"`  // in tokens
	Rejected float64 `json:"rejected"` // of them, as it was
	Would    float64 `json:"would"`    // of them, under the limit
}

// Replay offers what happened to one key, over all hosts, to a bucket of rule, which is full
// at the beginning. Within a period, tokens are asked for evenly, and in parts too. The answer is that of one perfect
// bucket: no rule's fallback, and no host's part, rejects more. A rule of slots in flight
// rejects as much as did happen, because counts do not say how long they were held.
func Replay(points []Point, rule *dynamicconfig.Rule) (d Dry) {
	limit, burst := float64(rule.Limit), rule.Burst
	tokens, at := burst, int64(0)
	for _, p := range points {
		offered := p.Allowed + p.Reject
		d.Offered += offered
		d.Rejected += p.Reject
		if rule.InFlight {
			d.Would += p.Reject
			continue
		}
		if math.IsInf(limit, 1) {
			continue
		}
		if at != 0 && p.Second > at {
			tokens = min(tokens+limit*float64(p.Second-at), burst)
		}
		// Even events use what flows in first, and then the bucket.
		flows := limit * float64(p.Length)
		taken := min(offered, tokens+flows)
		tokens = min(tokens+flows-taken, burst)
		d.Would += (offered - taken) * rule.Enforced()
		at = p.Second + p.Length
	}
	return d
}

// Unlimited is Replay without a rule: all is allowed, or, if denied, nothing.
func Unlimited(points []Point, denied bool) (d Dry) {
	for _, p := range points {
		d.Offered += p.Allowed + p.Reject
		d.Rejected += p.Reject
	}
	if denied {
		d.Would = d.Offered
	}
	return d
}

// Peak is the most that was offered, in tokens per second, over any period of points, without
// events that cost more than any may: they are costly tokens in all.
func Peak(points []Point) (most, costly float64) {
	for _, p := range points {
		most = max(most, (p.Allowed+p.Reject-p.Costly)/float64(p.Length))
		costly += p.Costly
	}
	return most, costly
}
