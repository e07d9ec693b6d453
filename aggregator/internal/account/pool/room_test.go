// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"testing"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
)

// A pool fills up beside what hosts hold of it, and no further.
func TestAPoolFillsUpBesideWhatIsLent(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 100}
	for name, k := range map[string]account.Account{"elastic": known(limit), "auto": askedOf(limit)} {
		k.Report(0, limit, 1, &account.Report{Elapsed: interval, Wants: 200, Cost: 1})
		k.Report(time.Second, limit, 2, &account.Report{Elapsed: interval, Cost: 1})
		s := k.State(4*time.Second, limit)
		if s.Lent < 10 || s.Tokens+s.Lent > limit.Burst {
			t.Errorf("%s: %v tokens beside %v that are lent, of a burst of %v", name, s.Tokens, s.Lent, limit.Burst)
		}
	}
}

// A burst that becomes less than what hosts hold of it makes no debt: the pool fills up to a
// quarter of it.
func TestABurstBelowWhatIsLentMakesNoDebt(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 1000}
	for name, k := range map[string]account.Account{"elastic": known(limit), "auto": askedOf(limit)} {
		for host := range uint32(8) { // each is lent a part of what is left
			k.Report(0, limit, host, &account.Report{Elapsed: interval, Wants: 2000, Cost: 1})
		}
		limit.Burst = 100
		k.Report(time.Second, limit, 9, &account.Report{Elapsed: interval, Cost: 1})
		if s := k.State(time.Second, limit); s.Lent <= limit.Burst || s.Tokens != limit.Burst/4 {
			t.Errorf("%s: %v tokens beside %v that are lent, under a burst of %v", name, s.Tokens, s.Lent, limit.Burst)
		}
		limit.Burst = 1000
	}
}

// A loan is a float32 in the account, and yet no larger than what the host has room for.
func TestALoanIsNoMoreThanAHostHasRoomFor(t *testing.T) {
	limit := algorithm.Limit{Rate: 1000, Burst: 1e9}
	for _, most := range []float64{1.00000009, 1<<24 + 3, 1<<26 + 5} {
		k := askedOf(limit)
		k.Report(0, limit, 1, &account.Report{Elapsed: interval, Wants: 1e9, Cost: 1})
		if lent := k.lends(0, 1, most, 0, 1e9, 1); lent < most/2 || lent > most {
			t.Errorf("%v is lent to a host with room for %v", lent, most)
		}
	}
}
