// SPDX-License-Identifier: Apache-2.0

package share

import (
	"math"

	"github.com/headgate/headgate/limiter/stage"
)

// Mark is how much was forgiven of the debts of a bucket, as of an instant: what was taken
// into a debt, and comes back later, is less by as much. The Mark is the binary logarithm of
// the part that is left of a debt; 0 if nothing was forgiven.
type Mark float64

// nothing is the logarithm of a part that is not worth a token.
const nothing = -2048

// Back is how many of n tokens come back that were taken when the Mark was before.
func (m Mark) Back(before Mark, n int64) int64 {
	if m < before && n > 0 {
		return int64(float64(n)*math.Exp2(float64(m-before)) + 1e-6)
	}
	return n
}

// After is the Mark once a bucket that had so many tokens before has more, without having
// paid for them; m if the bucket had no debt.
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

// marks are the newest Marks of a Rate. They are zero until a debt is forgiven.
type marks struct {
	// of are those of the debts in the bucket, by the level at which they were made. in is
	// the level in force; by chance, it is the first or the second.
	of [2]Mark
	in uint8

	kept      Mark // of the level that rests, of its own debts
	elsewhere Mark // of a bucket elsewhere that is asked, as far as this host knows
}

// owing marks a Receipt whose tokens left a debt at a level.
type owing struct {
	in   uint8
	mark Mark
}

// owing is the mark of a debt that is made now.
func (m marks) owing() owing { return owing{m.in, m.of[m.in]} }

// back is how many of n tokens come back that left a debt.
func (m marks) back(o owing, n int64) int64 { return m.of[o.in].Back(o.mark, n) }

// change makes new Marks of the debts in the bucket by f, and of those that rest by g.
func (m marks) change(f, g func(Mark) Mark) marks {
	m.of, m.kept = [2]Mark{f(m.of[0]), f(m.of[1])}, g(m.kept)
	return m
}

// carried are the marks once the other level decides, and has this part of the debt.
func (m marks) carried(part float64) marks {
	if (m == marks{elsewhere: m.elsewhere}) && part == 1 {
		return m
	}
	own := m.of[m.in]
	m = m.change(func(of Mark) Mark { return of.less(part) }, func(Mark) Mark { return own })
	m.in ^= 1
	return m
}

// parted are the marks once the other level decides, and has its own debt, of which the
// debts that were made at this level are no part.
func (m marks) parted() marks {
	own := m.of[m.in]
	m.of[m.in] = own.Reset()
	m.in ^= 1
	m.of[m.in], m.kept = m.kept, own
	return m
}

// marks are the newest. Safe for concurrent use.
func (r *rare) marks() marks { return r.seldom.Load().newest() }

func (s *seldom) newest() marks {
	if s == nil {
		return marks{}
	}
	return s.marks
}

// Back is how many tokens of a Receipt come back if the event did cost actual: less than
// the difference if they were part of a debt that was forgiven since.
func (r *rare) Back(receipt stage.Receipt, actual int64) int64 {
	receipt, _ = alone(receipt)
	if owes, ok := receipt.Rest.(owing); ok {
		return r.marks().back(owes, receipt.N-actual)
	}
	return receipt.N - actual
}

// mark notes new marks of the bucket and of the level that rests.
func (r *rare) mark(m marks) {
	if m != r.marks() {
		r.replace(func(s *seldom) { m.elsewhere = s.elsewhere; s.marks = m })
	}
}

// MarkElsewhere is the newest Mark of the bucket elsewhere. Safe for concurrent use.
func (r *rare) MarkElsewhere() Mark { return r.marks().elsewhere }

// ChangeMarkElsewhere replaces that Mark by what f makes of it. Safe for concurrent use.
func (r *rare) ChangeMarkElsewhere(f func(Mark) Mark) {
	r.replace(func(s *seldom) { s.elsewhere = f(s.elsewhere) })
}
