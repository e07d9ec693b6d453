// SPDX-License-Identifier: Apache-2.0

package rules

import "github.com/headgate/headgate/dynamicconfig"

// Side is the smaller side of a cluster that may be split: how many deciders it has, and
// how many are missing. The zero Side is the whole cluster.
type Side struct{ Deciders, Missing int }

// Part is the part of rule's limit that all hosts of this side share, in [0, 1]: what the
// rule's fallback would give each of them. Of slots, that is one at least, unless it is none.
func (s Side) Part(rule *dynamicconfig.Rule) float64 {
	if s.Missing <= 0 || rule == nil {
		return 1
	}
	part := s.part(rule)
	if part > 0 && rule.InFlight {
		part = max(part, min(1/float64(rule.Limit), 1))
	}
	return part
}

// part is Part, which may be less than a slot.
func (s Side) part(rule *dynamicconfig.Rule) float64 {
	switch rule.Fallback {
	case dynamicconfig.FallbackOpen:
		return 1
	case dynamicconfig.FallbackClosed:
		return 0
	case dynamicconfig.FallbackSafe:
		if rule.Limit == 0 {
			return 0
		}
		return min(float64(rule.SafeCapacity)*float64(s.Deciders)/float64(rule.Limit), 1)
	default:
		return float64(s.Deciders) / float64(s.Deciders+s.Missing)
	}
}
