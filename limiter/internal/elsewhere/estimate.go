// SPDX-License-Identifier: Apache-2.0

package elsewhere

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

// Estimate is how many tokens a bucket elsewhere has, as far as this host knows: those that
// were left as of the last answer, and what has come in since. Safe for concurrent use.
type Estimate struct {
	left   atomic.Uint64 // float64 bits, as of leftAt; a small mismatch of the two only blurs the estimate
	leftAt atomic.Int64
}

// Init makes e the estimate of a bucket that has not been asked yet: it is full.
func (e *Estimate) Init() { e.left.Store(math.Float64bits(math.Inf(1))) }

// Asked reports whether there has been an answer, a charge or a cap.
func (e *Estimate) Asked() bool { return !math.IsInf(math.Float64frombits(e.left.Load()), 1) }

// At is the estimate at now, of the bucket of rule.
func (e *Estimate) At(now stage.Instant, rule *dynamicconfig.Rule) float64 {
	tokens := math.Float64frombits(e.left.Load())
	tokens += float64(rule.Limit) * max(now.Sub(stage.Instant(e.leftAt.Load())), 0).Seconds()
	return min(tokens, rule.Burst)
}

// longestDebt is how long it takes at most to pay the debt that a bucket elsewhere is believed
// to have, if no charge can make a deeper one. What follows that bucket begins with it.
const longestDebt = time.Hour

// Set has the bucket of rule have tokens at now.
func (e *Estimate) Set(now stage.Instant, rule *dynamicconfig.Rule, tokens float64) {
	tokens = max(tokens, -max(rule.MostDebt(), float64(rule.Limit)*longestDebt.Seconds()))
	e.left.Store(math.Float64bits(tokens))
	e.leftAt.Store(int64(now))
}

// Full reports whether the bucket of rule is full at now.
func (e *Estimate) Full(now stage.Instant, rule *dynamicconfig.Rule) bool {
	return rule.Limit == 0 || e.At(now, rule) >= rule.Burst
}
