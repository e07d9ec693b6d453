// SPDX-License-Identifier: Apache-2.0

// Package terms is what a rule says of one event beside the limit: what it may cost,
// how long it may wait, and whether it passes although it is over a limit that is
// not enforced in full.
//
//	t := terms.Of(rule, salt)
//	longest, reason := t.Apply(n, longest) // then the stage is asked, unless reason refuses
//	passes := t.LetsPass(reason)
//
// The package knows no keys, and asks no bucket. Terms do not change, but for an atomic count of
// events over the limit.
package terms

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/stage"
)

// Terms are those of a rule. nil is none. All methods are safe for concurrent use.
type Terms struct {
	longest   time.Duration // that an event waits
	costliest float64

	refuses uint64        // of 2⁶⁴ events over the limit, how many are refused
	salt    uint64        // of the coin that decides which
	over    atomic.Uint64 // events over the limit
}

// refusesAll is a limit that is enforced in full.
const refusesAll = math.MaxUint64

// Of returns the Terms of a rule that limits a rate. Rules with other salts let other events
// pass.
func Of(rule *dynamicconfig.Rule, salt uint64) *Terms {
	t := &Terms{longest: stage.Forever, costliest: math.Inf(1), refuses: refusesAll}
	if rule.MaxWait != 0 {
		t.longest = max(rule.MaxWait, 0)
	}
	if rule.MaxCost > 0 || rule.MaxDebt > 0 && rule.Burst > 0 { // under a limit of 0, cost is not what is wrong
		t.costliest = rule.Costliest()
	}
	if part := rule.Enforced(); part < 1 {
		t.refuses, t.salt = uint64(part*(1<<64)), salt
	}
	if t.longest == stage.Forever && rule.MaxDebt <= 0 && math.IsInf(t.costliest, 1) && t.refuses == refusesAll {
		return nil
	}
	return t
}

// Apply returns how long an event of cost n may wait if its caller would wait
// for longest, or why it is refused. Below 0, longest is as long as the rule allows.
func (t *Terms) Apply(n int64, longest time.Duration) (wait time.Duration, reason stage.Reason) {
	if longest < 0 {
		longest = stage.Forever
	}
	switch {
	case n < 0:
		return 0, stage.InvalidCost
	case t == nil:
		return longest, stage.Granted
	case float64(n) > t.costliest:
		return 0, stage.TooCostly
	}
	return min(longest, t.longest), stage.Granted
}

// LetsPass reports whether an event that was refused for reason may happen
// nevertheless. A hash of the number of such events decides, so that a repeated run
// lets the same events pass.
func (t *Terms) LetsPass(reason stage.Reason) bool {
	if t == nil || t.refuses == refusesAll || reason == stage.InvalidCost || reason == stage.Canceled {
		return false
	}
	return bucket.Mix(t.over.Add(1)+t.salt) >= t.refuses
}

// Longest is the longest that an event may wait.
func (t *Terms) Longest() time.Duration {
	if t == nil {
		return stage.Forever
	}
	return t.longest
}
