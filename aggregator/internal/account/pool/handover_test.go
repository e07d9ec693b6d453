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

// Two hosts believe for a while that they own a key, and hear of new rules meanwhile. When one of them hands the key
// over, the other has no more than one bucket from which both took.
func TestAfterAHandOverAnOwnerHasNoMoreThanOneBucket(t *testing.T) {
	for seed := range uint64(3000) {
		chance := rand.New(rand.NewPCG(seed, 1))
		limit := algorithm.Limit{Rate: 100, Burst: 100}
		one := exactbucket.New(0, exactbucket.Rule{Rate: limit.Rate, Burst: limit.Burst})
		owners := [2]*asked{newcomer(t, limit), newcomer(t, limit)}
		for _, k := range owners {
			k.always = seed%2 == 0
			k.Take(0, limit, &usage.Take{Auto: !k.always}, 3, 1)
		}
		most := [2]int64{1 + chance.Int64N(300), 1 + chance.Int64N(300)} // tokens at a time
		var now time.Duration
		for range 1 + chance.IntN(20) {
			now = min(now+time.Duration(chance.Int64N(120))*time.Millisecond, 2*s)
			if chance.IntN(20) == 0 {
				limit = algorithm.Limit{Rate: 1 + float64(chance.IntN(300)), Burst: 1 + float64(chance.IntN(300))}
				for _, k := range owners {
					k.Take(now, limit, &usage.Take{Auto: !k.always}, 3, 1)
				}
				one.Rule(now, exactbucket.Rule{Rate: limit.Rate, Burst: limit.Burst})
			}
			i := chance.IntN(2)
			n := min(float64(chance.Int64N(most[i])), limit.Burst)
			if took := owners[i].Take(now, limit, &usage.Take{Auto: !owners[i].always, Tokens: n}, uint32(3+i), 1); took.OK {
				one.Charge(now, n, math.Inf(-1))
			}
		}
		row, _ := owners[0].Left(now, limit)
		row.By = 3
		owners[1].Take(now, limit, &row, 4, 2)
		if has := one.Level(now); owners[1].pool > has+1e-6 {
			t.Fatalf("seed %d: at %v the owner has %v; one bucket would have %v; handed over: %+v", seed, now, owners[1].pool, has, row)
		}
	}
}

// An owner under elastic does not know what it gave. So it hands over no more than what is left, once hosts ask.
func TestAPoolThatChangedItsReachKeepsNothing(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 100}
	k := made(algorithm.NameElastic)
	k.Report(s, limit, 1, &account.Report{Allowed: 1, Elapsed: s, Wants: 1})
	asked := plain(k).Reach(s, reaching(algorithm.NameAuto))
	if row, _ := asked.Left(s, limit); row.Told <= 0 || row.Kept != 0 {
		t.Errorf("%+v", row)
	}
}
