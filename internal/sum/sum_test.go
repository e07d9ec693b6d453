// SPDX-License-Identifier: Apache-2.0

package sum

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// amounts are numbers of all sizes, and what is none.
var amounts = rapid.OneOf(
	rapid.Float64Range(0, 1000),
	rapid.Float64Range(0, Max),
	rapid.SampledFrom([]float64{0, 1, 0.1, Unit, Unit / 2, 1 - Unit, split, math.Nextafter(split, 0), Max, 2 * Max, math.MaxFloat64, math.Inf(1), math.NaN(), -1}),
)

// plain is x in whole Units.
func plain(x float64) *big.Int {
	if !(x > 0) {
		return new(big.Int)
	}
	units, _ := new(big.Float).Mul(new(big.Float).SetPrec(200).SetFloat64(min(x, Max)), big.NewFloat(1/Unit)).Int(nil)
	return units
}

func (s *Sum) big() *big.Int {
	n := new(big.Int).Lsh(big.NewInt(s.high), lowBits)
	return n.Add(n, big.NewInt(s.low))
}

// A Sum is what numbers of any length say, after any history, and exactly zero
// when all is taken away.
func TestASumIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Sum
		var in []float64
		want := new(big.Int)
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			x := amounts.Draw(t, "x")
			switch n := len(in); {
			case n > 0 && rapid.Bool().Draw(t, "replaces"):
				i := rapid.IntRange(0, n-1).Draw(t, "i")
				s.Replace(in[i], x)
				want.Sub(want, plain(in[i]))
				in[i] = x
			case n > 0 && rapid.Bool().Draw(t, "takes"):
				s.Sub(in[n-1])
				want.Sub(want, plain(in[n-1]))
				in = in[:n-1]
				continue
			default:
				s.Add(x)
				in = append(in, x)
			}
			want.Add(want, plain(x))
			if got := s.big(); got.Cmp(want) != 0 {
				t.Fatalf("%v: %v units, want %v", in, got, want)
			}
			rounded, _ := new(big.Float).SetInt(want).Float64()
			if got := s.Value() / Unit; math.Abs(got-rounded) > rounded*0x1p-51 {
				t.Fatalf("%v: value %v, want %v", in, got, rounded)
			}
		}
		for _, x := range in {
			s.Sub(x)
		}
		if !s.Zero() || s.Value() != 0 {
			t.Fatalf("without %v: %+v", in, s)
		}
	})
}

func TestTheLargestAmountsFit(t *testing.T) {
	var s Sum
	s.Add(0.1)
	s.high += (1<<23 - 1) * (Max / split) // as many times the largest
	s.Add(Max)
	if got := s.Value(); got != (1<<23)*Max {
		t.Errorf("value %v", got)
	}
}

func TestUpIsNotLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(0, 10).Draw(t, "x")
		var s Sum
		s.Add(Up(x))
		if got := s.Value(); got < x || got > x+Unit+x*0x1p-48 {
			t.Fatalf("%v became %v", x, got)
		}
	})
	for x, want := range map[float64]float64{0: 0, -1: 0, math.NaN(): 0, math.Inf(1): Max, 1e-300: Unit} {
		if got := Up(x); got != want {
			t.Errorf("%v became %v, want %v", x, got, want)
		}
	}
}

func TestPartsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOf(rapid.Float64Range(0, 1)).Draw(t, "parts")
		var p Parts
		want := 0.0
		for _, x := range all {
			p.Add(x)
			want += x
		}
		if got := p.Value(); math.Abs(got-want) > float64(len(all))*partUnit*2 {
			t.Fatalf("%v add up to %v", all, got)
		}
		for _, x := range all {
			p.Sub(x)
		}
		if p != 0 {
			t.Fatalf("%v is left of %v", p, all)
		}
	})
}

// Whatever comes and goes, a float64 sum of Grains is as if it had been added up anew.
func TestSumsOfGrainsAreExact(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	held := make([]float32, 100)
	all := 0.0
	for range 100_000 {
		i := chance.IntN(len(held))
		x := math.Exp(chance.Float64()*40 - 25) // from 1e-11 to 3e6
		all -= float64(held[i])
		held[i] = Grains(x)
		all += float64(held[i])
		if got := float64(held[i]); math.Abs(got-x) > x*0x1p-24+Grain/2 || got != math.Trunc(got/Grain)*Grain {
			t.Fatalf("%v of %v", got, x)
		}
	}
	for _, x := range held {
		all -= float64(x)
	}
	if all != 0 {
		t.Errorf("%v is left of nothing", all)
	}
}

func TestGrainsOfAnythingAreANumber(t *testing.T) {
	for _, x := range []float64{0, 1e-300, 0x1p-25, 1, 1 << 27, 1 << 28, 1 << 53, 1e38} {
		if got := float64(Grains(x)); math.Abs(got-x) > x*0x1p-24+Grain/2 {
			t.Errorf("%v of %v", got, x)
		}
	}
}
