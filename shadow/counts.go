// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"sync/atomic"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/processor"
)

// Counts are the cost that was asked for while both limiters were asked, by
// how they answered.
type Counts struct{ Both, OnlyOld, OnlyNew, Neither int64 }

// counters are Counts under way. All processors count in one place until they
// are in each other's way there; from then on each has its own.
type counters struct {
	shared answers
	own    atomic.Pointer[[]answers] // by processor
}

// answers are counts by answer. They are a cache line.
type answers [8]atomic.Int64

// answer is how both answered, in a mode with a shadow.
func answer(mode dynamicconfig.Mode, primary, shadow bool) (i int) {
	if primary {
		i = 1
	}
	if shadow {
		i |= 2
	}
	return i | int(mode)<<2&4
}

// add counts n that were answered so, unless another processor is in the way.
func (c *counters) add(answer int, n int64) bool {
	at := &c.shared[answer&7]
	was := at.Load()
	return c.own.Load() == nil && at.CompareAndSwap(was, was+n)
}

// addOwn counts n where no other processor does.
func (c *counters) addOwn(answer int, n int64) {
	if c.own.Load() == nil {
		c.split()
	}
	if own := c.own.Load(); own != nil {
		(*own)[processor.Of(len(*own))][answer&7].Add(n)
	} else {
		c.shared[answer&7].Add(n)
	}
}

// split gives each processor its own: somebody has just lost a swap to another.
func (c *counters) split() {
	if n := processor.Number(); n > 1 {
		own := make([]answers, n)
		c.own.CompareAndSwap(nil, &own)
	}
}

// counts adds up what has been counted.
func (c *counters) counts() Counts {
	own := c.own.Load()
	sum := func(old, new bool) int64 {
		i, j := answer(dynamicconfig.ModeOldShadowNew, old, new), answer(dynamicconfig.ModeNewShadowOld, new, old)
		n := c.shared[i].Load() + c.shared[j].Load()
		if own != nil {
			for p := range *own {
				n += (*own)[p][i].Load() + (*own)[p][j].Load()
			}
		}
		return n
	}
	return Counts{Both: sum(true, true), OnlyOld: sum(true, false), OnlyNew: sum(false, true), Neither: sum(false, false)}
}
