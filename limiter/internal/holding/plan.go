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
	return p.Terms[p.Answers].Name()
}

// MarkMeasured marks the one of two Terms that is measured, if the other one answers out of the same pool.
func (p *Plan) MarkMeasured() {
	if len(p.Terms) == 2 && p.Answers >= 0 && p.Terms[0].Traits.Pooled && p.Terms[1].Traits.Pooled {
		p.Terms[1-p.Answers].Measured = true
	}
}

// measured is which of the Terms a migration asks beside the one that answers; below 0 if none.
func (p *Plan) measured() int {
	if m := p.Rule.Migration; m != nil && m.Mode == dynamicconfig.ModeOldShadowNew || m != nil && m.Mode == dynamicconfig.ModeNewShadowOld {
		return 1 - p.Answers
	}
	return -1
}

// goesOn reports whether the key's pool answers under p, and goes on under the algorithm of next
// that answers.
func (p *Plan) goesOn(next *Plan) bool {
	was := p.answering()
	return pooled(was) && pooled(next.answering()) && !next.has(was)
}

// has reports whether one of the Terms of p, which may be nil, has this name.
func (p *Plan) has(name string) bool {
	return p != nil && slices.ContainsFunc(p.Terms, func(t *share.Terms) bool { return t.Name() == name })
}
