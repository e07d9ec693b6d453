// SPDX-License-Identifier: Apache-2.0

// Package forgiven is how much of a debt is forgiven under a lower limit, and how much was since it was made. It is arithmetic, and knows no bucket.
package forgiven

import (
	"math"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
)

// Mark says how much of a bucket's debts was forgiven up to an instant. If tokens that left a
// debt are given back later, the part that was forgiven does not come back. The Mark is the
// binary logarithm of the part of a debt that is left; 0 if nothing was forgiven.
type Mark float64

// nothing is the logarithm of a part that is not worth a token.
const nothing = -2048

// Back is how many of n tokens come back. They were taken when the Mark was before.
func (m Mark) Back(before Mark, n int64) int64 {
	if m < before && n > 0 {
		return int64(float64(n)*math.Exp2(float64(m-before)) + 1e-6)
	}
	return n
}

// After is the Mark once a bucket's tokens have changed from before to tokens without being
// refilled. It is m if the bucket had no debt, or has no more tokens than before.
func (m Mark) After(before, tokens float64) Mark {
	if before < 0 && before < tokens {
		return m.less(min(tokens, 0) / before)
	}
	return m
}

// less is the Mark once only a part of each debt is left.
func (m Mark) less(part float64) Mark { return m + Mark(max(math.Log2(part), nothing)) }

// Reset is the Mark once all debts are forgiven.
func (m Mark) Reset() Mark { return m + nothing }

// Marks are the newest ones of the two levels of a bucket. They are zero until a debt is forgiven.
type Marks struct {
	// of are those of the debts in the bucket, by the level at which they were made. in is
	// the level in force; by chance, it is the first or the second.
	of [2]Mark
	in uint8

	kept Mark // of the inactive level, of its own debts
}

// Debt marks a Receipt whose tokens left a debt at a level.
type Debt struct {
	in   uint8
	mark Mark
}

// Debt is the mark of a debt that is made now.
func (m Marks) Debt() Debt { return Debt{m.in, m.of[m.in]} }

// Back is how many of n tokens come back. They left a debt whose mark is d.
func (m Marks) Back(d Debt, n int64) int64 { return m.of[d.in].Back(d.mark, n) }

// Change makes new Marks of the debts in the bucket by f, and of those at the inactive level by g.
func (m Marks) Change(f, g func(Mark) Mark) Marks {
	m.of, m.kept = [2]Mark{f(m.of[0]), f(m.of[1])}, g(m.kept)
	return m
}

// Carried are the Marks once the other level decides, and has this part of the debt.
func (m Marks) Carried(part float64) Marks {
	if m == (Marks{}) && part == 1 {
		return m
	}
	own := m.of[m.in]
	m = m.Change(func(of Mark) Mark { return of.less(part) }, func(Mark) Mark { return own })
	m.in ^= 1
	return m
}

// Parted are the Marks once the other level decides, and has its own debt, of which the
// debts that were made at this level are no part.
func (m Marks) Parted() Marks {
	own := m.of[m.in]
	m.of[m.in] = own.Reset()
	m.in ^= 1
	m.of[m.in], m.kept = m.kept, own
	return m
}

// Follow is the tokens of a bucket whose limit was before, under a rule. Under a lower limit, a
// debt that is deeper than a charge can make becomes less in proportion, so that
// it does not take longer to pay.
func Follow(before rate.Limit, rule *dynamicconfig.Rule, tokens float64) float64 {
	less := float64(rule.Limit / before)
	if tokens < 0 && less > 0 && less < 1 {
		return max(tokens, min(tokens*less, -rule.MostDebt()))
	}
	return tokens
}
