// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

// estimate is how many tokens a remote bucket has, as far as this host knows: those that
// were left as of the last answer, and what has come in since. Safe for concurrent use.
type estimate struct {
	left   atomic.Uint64 // float64 bits, as of leftAt; a small mismatch of the two only blurs the estimate
	leftAt atomic.Int64
}

// init makes e the estimate of a bucket that has not been asked yet: it is full.
func (e *estimate) init() { e.left.Store(math.Float64bits(math.Inf(1))) }

// asked reports whether there has been an answer, a charge or a cap.
func (e *estimate) asked() bool { return !math.IsInf(math.Float64frombits(e.left.Load()), 1) }

// at is the estimate at now, of the bucket of rule.
func (e *estimate) at(now stage.Instant, rule *dynamicconfig.Rule) float64 {
	tokens := math.Float64frombits(e.left.Load())
	tokens += float64(rule.Limit) * max(now.Sub(stage.Instant(e.leftAt.Load())), 0).Seconds()
	return min(tokens, rule.Burst)
}

// longestDebt is how long it takes at most to pay the debt that a Remote is believed to
// have, if no charge can make a deeper one. What follows the Remote begins with it.
const longestDebt = time.Hour

// set has the bucket of rule have tokens at now.
func (e *estimate) set(now stage.Instant, rule *dynamicconfig.Rule, tokens float64) {
	tokens = max(tokens, -max(rule.MostDebt(), float64(rule.Limit)*longestDebt.Seconds()))
	e.left.Store(math.Float64bits(tokens))
	e.leftAt.Store(int64(now))
}

// full reports whether the bucket of rule is full at now.
func (e *estimate) full(now stage.Instant, rule *dynamicconfig.Rule) bool {
	return rule.Limit == 0 || e.at(now, rule) >= rule.Burst
}
