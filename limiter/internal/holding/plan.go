// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"slices"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/share"
)

// Plan is what a rule wants of each of its keys. It does not change.
type Plan struct {
	Rule    *dynamicconfig.Rule
	Terms   []*share.Terms // by algorithm, the old one first
	Answers int            // which of Terms answers; below 0 if none does
}

// answering is the algorithm that answers; empty if none does.
func (p *Plan) answering() string {
	if p == nil || p.Answers < 0 {
		return ""
	}
	return p.Terms[p.Answers].Algorithm
}

// measured is which of the Terms a migration asks beside the one that answers; below 0 if none.
func (p *Plan) measured() int {
	if m := p.Rule.Migration; m != nil && m.Mode == dynamicconfig.ModeOldShadowNew || m != nil && m.Mode == dynamicconfig.ModeNewShadowOld {
		return 1 - p.Answers
	}
	return -1
}

// goesOn reports whether p has one pool, which answers, and goes on under the algorithm of next
// that answers.
func (p *Plan) goesOn(next *Plan) bool {
	was := p.answering()
	return pooled(was) && len(p.pools()) == 1 && pooled(next.answering()) && !slices.Contains(next.pools(), was)
}

// pools are the algorithms of p under which the owner of a key has a pool.
func (p *Plan) pools() (pools []string) {
	if p != nil {
		for _, t := range p.Terms {
			if t.Traits.Pooled {
				pools = append(pools, t.Algorithm)
			}
		}
	}
	return pools
}
