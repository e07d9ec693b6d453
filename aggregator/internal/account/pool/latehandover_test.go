// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/exactbucket"
	"github.com/headgate/headgate/rpc/usage"
)

// A new owner has lent tokens when the owner before hands the key over late. With what hosts hold of
// these loans, and have used of them, the new owner has no more than one bucket from which both took.
func TestLoansCountAtALateHandOver(t *testing.T) {
	lent, worst, less := 0.0, 0.0, 0.0
	for seed := range uint64(2000) {
		chance := rand.New(rand.NewPCG(seed, 2))
		limit := algorithm.Limit{Rate: 10, Burst: 100}
		one := exactbucket.New(0, exactbucket.Rule{Rate: limit.Rate, Burst: limit.Burst})
		before, owner := newcomer(t, limit), newcomer(t, limit)
		for _, k := range []*asked{before, owner} {
			k.Take(0, limit, &usage.Take{Auto: true}, 3, 1)
		}
		gave := float64(chance.IntN(90))
		before.Take(0, limit, &usage.Take{Auto: true, Tokens: gave}, 3, 1)
		one.Charge(0, gave, math.Inf(-1))
		now, hosts := learning, 1+chance.IntN(3)
		last, used := make([]time.Duration, hosts), make([]float64, hosts)
		has := make([]float64, hosts)
		rate := float64(chance.IntN(100))
		for range 1 + chance.IntN(12) {
			h := chance.IntN(hosts)
			now = min(now+time.Duration(1+chance.IntN(500))*time.Millisecond, time.Duration(1.7*float64(interval)))
			if last[h] == 0 || chance.IntN(3) == 0 { // it reports
				elapsed := max(now-last[h], time.Millisecond)
				owner.Expire(now, func(uint32) {})
				g, ok := owner.Report(now, limit, uint32(h), &account.Report{Allowed: used[h], Elapsed: elapsed, Wants: rate, Cost: 1, Has: has[h], Lease: time.Minute})
				last[h], used[h] = now, 0
				if ok {
					has[h] = g.Weight
				}
				continue
			}
			took := owner.Take(now, limit, &usage.Take{Auto: true, Tokens: 1, More: 60, Wants: rate}, 4, uint32(h))
			if took.OK {
				one.Charge(now, 1, math.Inf(-1))
			}
			if n := math.Floor(took.Lent * chance.Float64()); n > 0 { // it uses a part at once
				used[h] += n
				one.Charge(now, n, math.Inf(-1))
			}
		}
		held := owner.lent // which hosts may use, but for what they have not reported yet
		for _, n := range used {
			held -= n
		}
		row, _ := before.Left(now, limit)
		row.By = 3
		owner.Take(now, limit, &row, 4, 99)
		more := owner.pool + held - one.Level(now)
		lent += held
		worst, less = max(worst, more), less-min(more, 0)
	}
	t.Logf("at worst %v more, of %v on average that hosts hold; %v less on average", worst, lent/2000, less/2000)
	if worst > 1e-3 {
		t.Errorf("an owner has %v tokens more than one bucket would have", worst)
	}
}
