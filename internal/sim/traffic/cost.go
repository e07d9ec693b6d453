// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"math"
	"math/rand/v2"
)

// Cost is what an event costs: From to To, with equal chance, or, with a Shape,
// by a bounded Pareto distribution: most costs are near From, and few are large.
type Cost struct {
	From, To int64
	Shape    float64 // 0: uniform; the nearer to 0, the more of the cost is in few events

	low float64 // of the Pareto distribution, before rounding
}

// One is the cost of an event that costs 1.
var One = Cost{From: 1, To: 1}

// Pareto returns heavy-tailed costs of that mean, none larger than most.
func Pareto(mean float64, most int64, shape float64) Cost {
	low, high := 0.0, mean
	for range 100 {
		if middle := (low + high) / 2; boundedMean(middle, float64(most), shape) < mean {
			low = middle
		} else {
			high = middle
		}
	}
	return Cost{From: max(int64(math.Round(high)), 1), To: most, Shape: shape, low: high}
}

// boundedMean is the mean of a Pareto distribution that is cut at both ends.
func boundedMean(low, high, shape float64) float64 {
	if low <= 0 {
		return 0
	}
	ratio := low / high
	if math.Abs(shape-1) < 1e-9 {
		return low * -math.Log(ratio) / (1 - ratio)
	}
	return low * shape / (shape - 1) * (1 - math.Pow(ratio, shape-1)) / (1 - math.Pow(ratio, shape))
}

// Draw returns the cost of an event.
func (c Cost) Draw(r *rand.Rand) int64 {
	switch {
	case c.Shape > 0:
		tail := 1 - math.Pow(c.low/float64(c.To), c.Shape)
		v := c.low * math.Pow(1-r.Float64()*tail, -1/c.Shape)
		return min(max(int64(math.Round(v)), 1), c.To)
	case c.From == c.To:
		return c.From
	}
	return c.From + r.Int64N(c.To-c.From+1)
}
