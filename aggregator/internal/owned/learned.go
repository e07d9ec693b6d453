// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/exactbucket"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// learned is what an owner keeps to learn from what callers were told elsewhere.
//
// An owner that is new to a key does not know what is left. Every caller says
// what it was told last and when, by whichever owner: since then the bucket can
// have gained no more than time fills in. So each report is a bound from above,
// and the bucket is lowered to the least of them, whenever they come. What was
// taken here after a report was made comes off its bound; for that, all that
// was taken since the key came here is kept in taken.
type learned struct {
	came  time.Duration // when the key came here
	taken float64       // since then
	last  time.Duration // when something was taken
}

func newLearned(now time.Duration) learned {
	return learned{came: now, last: now - rpc.MaxElapsed - 1}
}

// learn lowers b to what t's caller knows of it from another owner, but not
// below floor. Apart: that owner does not know what was taken here.
func (l *learned) learn(now time.Duration, b *exactbucket.Bucket, t *usage.Take, floor float64, apart bool) {
	told := now - t.Ago
	most := t.Told + b.Rate()*t.Ago.Seconds()
	if told < l.came || apart {
		most -= l.taken
	}
	b.Lower(now, max(most, floor))
	if told >= l.last { // the key has been elsewhere since
		l.came, l.taken = now, 0
	}
}

// serve takes from b for t. Its Tokens become what was taken. What is spent
// already and what was told leave at least floor. Apart is as in learn.
func (l *learned) serve(now time.Duration, b *exactbucket.Bucket, t *usage.Take, by uint32, floor float64, apart bool) usage.Took {
	if t.By != 0 && t.By != by {
		l.learn(now, b, t, floor, apart)
	}
	took, asked := usage.Took{Decided: true, OK: true}, t.Tokens
	switch {
	case t.Tokens <= 0:
		before := b.Level(now)
		b.Give(now, -t.Tokens)
		t.Tokens = max(t.Tokens, before-b.Level(now)) // a full bucket takes in less
	case t.Spent == usage.SpentBeyond:
		t.Tokens = b.Charge(now, t.Tokens, floor)
	case t.Spent == usage.SpentApart:
		t.Tokens = b.Charge(now, t.Tokens, -b.Burst())
	default:
		longest := t.Longest
		if longest < 0 {
			longest = rpc.MaxWait
		}
		v := b.Take(now, t.Tokens, longest)
		took.OK, took.Wait = v.OK, v.Wait
		if !v.OK {
			took.Retry = min(v.Retry, rpc.MaxWait)
			t.Tokens = 0
		}
	}
	if t.Tokens != 0 {
		l.taken += t.Tokens
		l.last = now
	}
	if took.OK {
		took.Short = asked - t.Tokens
	}
	took.Left = b.Level(now)
	return took
}

// bucketRule is rule for a bucket, with a limit of its own.
func bucketRule(rule *dynamicconfig.Rule, limit algorithm.Limit) exactbucket.Rule {
	return exactbucket.Rule{Rate: limit.Rate, Burst: limit.Burst, MaxWait: rule.MaxWait, MaxDebt: rule.MaxDebt, MaxCost: rule.MaxCost}
}
