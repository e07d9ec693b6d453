// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"context"
	"math"
	"time"

	"github.com/headgate/headgate/internal/sim/traffic"
)

// candidate is a limit, and the part of the events that one perfect bucket of it
// per key rejects.
type candidate struct{ limit, rejected float64 }

// LimitFor returns, for each part in percent, the smallest limit in events/s under
// which one perfect bucket per key rejects no more than that, to 0.1%; 0 if none does.
// Burst 0 is one second of the limit, and 1 at least.
func (l *Log) LimitFor(ctx context.Context, percents []float64, burst float64) ([]float64, error) {
	const lowest, highest, wide, narrow = 1e-4, 1e7, 32, 12
	first, err := l.rejected(ctx, between(lowest, highest, wide), burst)
	if err != nil {
		return nil, err
	}
	limits := make([]float64, len(percents))
	for i, percent := range percents {
		if first[wide-1].rejected > percent {
			continue
		}
		low, high := bracket(first, percent)
		for high/low > 1.001 && high > low {
			next, err := l.rejected(ctx, between(low, high, narrow), burst)
			if err != nil {
				return nil, err
			}
			low, high = bracket(next, percent)
		}
		limits[i] = high
	}
	return limits, nil
}

// bracket returns the two neighbours between which the rejected part falls to
// percent or less.
func bracket(all []candidate, percent float64) (low, high float64) {
	for i, c := range all {
		if c.rejected <= percent {
			return all[max(i-1, 0)].limit, c.limit
		}
	}
	last := all[len(all)-1].limit // of a narrow search, which rounding has moved below
	return last, last
}

// between returns n limits from low to high, each as much larger than the one
// before.
func between(low, high float64, n int) []float64 {
	limits := make([]float64, n)
	for i := range limits {
		limits[i] = low * math.Pow(high/low, float64(i)/float64(n-1))
	}
	return limits
}

// rejected is what one perfect bucket per key rejects under each limit.
func (l *Log) rejected(ctx context.Context, limits []float64, burst float64) ([]candidate, error) {
	n := len(limits)
	bursts := make([]float64, n)
	tokens := make([]float64, n*len(l.Keys)) // by key and limit
	for i, limit := range limits {
		if bursts[i] = burst; burst == 0 {
			bursts[i] = math.Max(limit, 1)
		}
	}
	for i := range tokens {
		tokens[i] = bursts[i%n]
	}
	at := make([]traffic.Time, len(l.Keys))
	counts := make([]int64, n)
	next := l.rows()
	for events := 0; ; events++ {
		row, ok, err := next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		if events%(1<<16) == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		passed := (row.At - at[row.Key]).Seconds()
		at[row.Key] = row.At
		for i, have := range tokens[int(row.Key)*n : (int(row.Key)+1)*n] {
			have = math.Min(have+passed*limits[i], bursts[i])
			if have+1e-6 >= 1 {
				have--
			} else {
				counts[i]++
			}
			tokens[int(row.Key)*n+i] = have
		}
	}
	all := make([]candidate, n)
	for i, limit := range limits {
		all[i] = candidate{limit, 100 * float64(counts[i]) / float64(l.Events)}
	}
	return all, nil
}

// length is how long the replay lasts.
func (l *Log) length() time.Duration {
	return max(time.Duration(float64(l.Length+time.Second)/l.speed), time.Second)
}
