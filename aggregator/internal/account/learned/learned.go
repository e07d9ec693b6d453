// SPDX-License-Identifier: Apache-2.0

// Package learned serves takes from the bucket of a key whose owner may be new: it learns what
// there is from what other owners answered callers. It knows no hosts, and not where the bucket
// comes from.
package learned

import (
	"math"
	"slices"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/exactbucket"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// State is what an owner keeps to learn from what other owners answered callers.
//
// An owner that is new to a key does not know what is left. Every caller says
// the last answer that it got and when, from whichever owner: since then the bucket can
// have gained no more than time fills in. So each report is a bound from above,
// and the bucket is lowered to the least of them, whenever they come. What was
// taken here after a report was made comes off its bound; for that, all that
// was taken since the key came here is kept in taken.
type State struct {
	came  time.Duration // when the key came here
	taken float64       // since then
	last  time.Duration // when something was taken

	former [4]uint32 // owners that handed the key over since it came; 0: no other one
}

// New is the State of a key that comes here at now.
func New(now time.Duration) State {
	return State{came: now, last: now - rpc.MaxElapsed - 1}
}

// learn lowers b to what t's caller knows of it from another owner, but not
// below floor. Apart: that owner does not know what was taken here, so this comes off the level that it had. If that
// owner says what it gave (Kept), the bucket may have the level that b has without that, if it is more. Neither
// is more than one bucket would have.
func (s *State) learn(now time.Duration, b *exactbucket.Bucket, t *usage.Take, floor float64, apart bool) {
	told := now - t.Ago
	most := t.Told + b.Rate()*t.Ago.Seconds()
	if told < s.came || apart {
		most -= s.taken
	}
	if t.Kept > 0 {
		most = max(most, b.Level(now)-(b.Burst()-t.Kept))
	}
	b.Lower(now, max(most, floor))
	if told >= s.last { // the key has been elsewhere since
		s.came, s.taken = now, 0
	}
}

// Leave says that the next owner hears of all that was taken here.
func (s *State) Leave() { s.taken, s.former = 0, [4]uint32{} }

// Handed notes that the owner called by hands the key over, and reports whether it does so for the first
// time. If more owners than there is room for do, the others count as if they had done so before.
func (s *State) Handed(by uint32) (first bool) {
	free := slices.Index(s.former[:], 0)
	if free < 0 || slices.Contains(s.former[:], by) {
		return false
	}
	s.former[free] = by
	return true
}

// toldLeast is the lowest level that a caller is believed to have been answered: the deepest
// debt. The owner before may have one that is deeper: if the rule has no max_wait and no
// max_debt, events wait for as long as their callers like.
func toldLeast(t *usage.Take, rule *dynamicconfig.Rule, limit algorithm.Limit) float64 {
	deepest := account.Deepest(rule, limit)
	if t.Handed && rule.MaxWait == 0 && rule.MaxDebt <= 0 {
		return min(deepest, -limit.Rate*rpc.MaxWait.Seconds())
	}
	return deepest
}

// Serve takes from b, which is under rule with this limit, for t. Its Tokens become what
// was taken. Apart is as in learn. Beside b there are so many tokens that hosts were lent: an
// event is decided as if these were in b too, which owes them then.
func (s *State) Serve(now time.Duration, b *exactbucket.Bucket, t *usage.Take, by uint32, rule *dynamicconfig.Rule, limit algorithm.Limit, apart bool, lent float64) usage.Took {
	if t.By != 0 && t.By != by {
		s.learn(now, b, t, toldLeast(t, rule, limit), apart)
	}
	took, asked := usage.Took{Decided: true, OK: true}, t.Tokens
	switch {
	case t.Tokens <= 0:
		before := b.Level(now)
		b.Give(now, -t.Tokens)
		t.Tokens = max(t.Tokens, before-b.Level(now)) // a full bucket takes in less
	case t.Spent == usage.SpentBeyond:
		t.Tokens = b.Charge(now, t.Tokens, account.Deepest(rule, limit))
	case t.Spent == usage.SpentApart:
		t.Tokens = b.Charge(now, t.Tokens, -b.Burst())
	default:
		longest := t.Longest
		if longest < 0 {
			longest = rpc.MaxWait
		}
		b.Give(now, lent)
		v := b.Take(now, t.Tokens, longest)
		b.Charge(now, lent, math.Inf(-1))
		took.OK, took.Wait = v.OK, v.Wait
		if !v.OK {
			took.Retry = min(v.Retry, rpc.MaxWait)
			t.Tokens = 0
		}
	}
	// All tokens that were given back count: they fit into a bucket of which a caller says that it
	// has less.
	if net := min(asked, t.Tokens); net != 0 {
		s.taken += net
		s.last = now
	}
	if took.OK {
		took.Short = asked - t.Tokens
	}
	took.Left = b.Level(now)
	return took
}

// Last is when something was taken, or when the key came here.
func (s *State) Last() time.Duration { return max(s.last, s.came) }
