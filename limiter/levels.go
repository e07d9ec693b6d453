// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
)

// applied is what the bucket's pace was made from.
type applied struct {
	limit rate.Limit
	burst float64
}

// even is one host's part of the limit when it is divided evenly.
func (s *share) even(hosts int) applied {
	n := float64(max(hosts, 1))
	return applied{s.rule.Limit / rate.Limit(n), atLeastOne(s.rule.Burst/n, s.rule.Burst)}
}

// fallbackLevel is what rules without a valid grant.
func (s *share) fallbackLevel(hosts int) applied {
	if s.algorithm == Even {
		return s.even(hosts)
	}
	switch s.rule.Fallback {
	case dynamicconfig.FallbackOpen:
		return applied{rate.Inf, s.rule.Burst}
	case dynamicconfig.FallbackClosed:
		return applied{}
	case dynamicconfig.FallbackSafe:
		limit := s.rule.SafeCapacity
		return applied{limit, atLeastOne(float64(limit), s.rule.Burst)}
	default:
		return s.even(hosts)
	}
}

// grantLevel is what the grant gives.
func (s *share) grantLevel(hosts int) applied {
	limit, even := float64(s.rule.Limit), float64(s.even(hosts).limit)
	quota, burst := limit*s.grant.weight, s.grant.burst
	if s.grant.floor == rpc.FloorDrop {
		return applied{rate.Inf, s.rule.Burst}
	}
	if quota < even {
		switch s.grant.floor {
		case rpc.FloorUnused:
			quota = min(quota+max(0, limit-s.grant.used), even)
		case rpc.FloorEven:
			quota = even
		}
		if s.grant.floor != rpc.FloorNone && limit > 0 {
			burst = max(burst, s.rule.Burst*quota/limit)
		}
	}
	if s.wanting {
		if wants, stated := s.statement(); stated && quota > wants {
			// The decider takes all demand for measured, and lends some more.
			burst *= wants / quota
			quota = wants
		}
	}
	return applied{rate.Limit(quota), atLeastOne(burst, s.rule.Burst)}
}

// atLeastOne keeps a divided burst from refusing everything: one token passes
// unless the whole burst is less.
func atLeastOne(burst, whole float64) float64 {
	if burst >= 1 {
		return burst
	}
	return max(burst, min(whole, 1))
}
