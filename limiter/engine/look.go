// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/rpc/edge"
)

// Look describes key's bucket, and changes nothing. It returns false if no rule matches the
// key. While the rule lets everything through, the bucket is infinite, as in a Decision.
func (e *Engine) Look(key string) (edge.Bucket, bool) {
	var rule *dynamicconfig.Rule
	if e.limits != nil {
		rule, _ = e.limits().Match(key)
	}
	b, ok := e.look(key, rule)
	if rule != nil && (rule.Bypassed() || rule.Answering() < 0) {
		b.Limit, b.Burst, b.Left, b.Fallback = math.Inf(1), math.Inf(1), math.Inf(1), false
	}
	return b, ok
}

// look is Look for a key that rule, if not nil, matches and limits.
func (e *Engine) look(key string, rule *dynamicconfig.Rule) (edge.Bucket, bool) {
	if status, ok := e.group.Inspect(key); ok && len(status.Shares) > 0 {
		return live(rule, status), true
	}
	if rule == nil {
		return edge.Bucket{}, false
	}
	if status, ok := e.group.Inspect(rule.Key); ok && rule.Shared && len(status.Shares) > 0 {
		return live(rule, status), true
	}
	full := policy(rule)
	return edge.Bucket{Rule: rule.Key, Algorithm: rule.Algorithms()[max(rule.Answering(), 0)], Policy: full, Limit: full.Limit, Burst: full.Burst, Left: full.Burst}, true
}

// live is the bucket of a key that is in use, and that rule matches, if not nil.
func live(rule *dynamicconfig.Rule, s limiter.Status) edge.Bucket {
	of := s.Answering()
	return edge.Bucket{
		Rule:      s.Rule,
		Algorithm: of.Algorithm,
		Policy:    policy(rule),
		Limit:     events(of.Level.Limit),
		Burst:     of.Level.Burst,
		Left:      of.Level.Tokens,
		Live:      true,
		Fallback:  of.Fallback,
	}
}
