// SPDX-License-Identifier: Apache-2.0

package claims_test

import (
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/internal/account/claims"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
)

const lease = 30 * time.Second

func config(t *testing.T) *account.Config {
	way, err := algorithm.Builtin().Lookup("fair-share")
	if err != nil {
		t.Fatal(err)
	}
	return &account.Config{
		Settings:  &account.Settings{Interval: time.Second},
		Rule:      &dynamicconfig.Rule{Limit: 100, Learning: lease, Lease: lease},
		Algorithm: way,
	}
}

func leaser(t *testing.T, now, moved time.Duration, c *account.Config) account.Leaser {
	a, ok := claims.New(now, moved, c).(account.Leaser)
	if !ok {
		t.Fatal("it is no Leaser")
	}
	return a
}

func wants(w float64) []claims.Band { return []claims.Band{{Clients: 1, Wants: w}} }

// An owner learns while others may hold leases that it does not know of.
func TestWhatHasAnOwnerLearn(t *testing.T) {
	const moved = time.Hour
	for name, tt := range map[string]struct {
		at     time.Duration
		amount float64 // that there is
		claim  claims.Claim
		learns bool
	}{
		"keys have moved":                     {moved, 100, claims.Claim{}, true},
		"all is leased":                       {moved, 100, claims.Claim{Has: 100}, false},
		"there is nothing to lease":           {moved, 0, claims.Claim{}, true},
		"the first has nothing":               {moved + lease, 100, claims.Claim{}, false},
		"the first has something":             {moved + lease, 100, claims.Claim{Has: 10}, true},
		"the first is told to keep something": {moved + lease, 100, claims.Claim{Has: 10, Keep: true}, false},
	} {
		a := leaser(t, tt.at, moved, config(t))
		tt.claim.Bands = wants(50)
		a.Claim(tt.at, account.Terms{Lease: lease}, tt.amount, 1, tt.claim)
		if got := a.Learns(tt.at, false); got != tt.learns {
			t.Errorf("%s: it learns: %v", name, got)
		}
	}
}

// What a host holds that was handed over may be a part of the limit, or an amount: until the host says which, a
// new limit leaves others what both leave.
func TestWhatIsHandedOverCountsAsMoreOfTwo(t *testing.T) {
	for _, tt := range []struct{ limit, others float64 }{{50, 10}, {100, 60}, {200, 120}} {
		c := config(t)
		a := leaser(t, 0, 0, c)
		a.Claim(0, account.Terms{Lease: lease}, 100, 1, claims.Claim{Has: 40, Keep: true, Headroom: true, Bands: wants(40)})
		a.Learned(0)
		rule := *c.Rule
		c.Rule, rule.Limit = &rule, rate.Limit(tt.limit)
		a.Configure(0, c)
		if got := a.Claim(0, account.Terms{Lease: lease}, tt.limit, 2, claims.Claim{Bands: wants(1000)}); got.Amount != tt.others {
			t.Errorf("40 of 100 are handed over; under a limit of %v another host gets %v, want %v", tt.limit, got.Amount, tt.others)
		}
	}
}

// While the cluster above has not said what there is, hosts that report get no answer. What they go on with counts
// for longer than their leases last.
func TestWhatHostsHoldCountsWhileTheClusterAboveIsSilent(t *testing.T) {
	a := leaser(t, time.Hour, 0, config(t))
	for now := time.Hour; now < time.Hour+2*lease; now += lease / 4 {
		a.Expire(now, func(uint32) {})
		a.Report(now, algorithm.Limit{}, 1, &account.Report{Has: .5, Wants: 50, Slots: -1, Lease: lease, Waits: true})
		if a.Leased() != 50 {
			t.Fatalf("at %v, %v is leased; the host has 50", now, a.Leased())
		}
	}
}

// While a change of the algorithm reaches the hosts, some report under the earlier one. The new account learns
// whoever reports first, so that no host is given what others have already.
func TestAnAccountLearnsFromHostsOfAnotherAlgorithm(t *testing.T) {
	has := map[uint32]float64{1: .4, 2: .3, 3: .3}
	for _, order := range [][]uint32{{1, 2, 3}, {2, 1, 3}, {3, 1, 2}} {
		a := leaser(t, time.Hour, 0, config(t))
		all := 0.0
		for _, host := range order {
			r := account.Report{Has: has[host], Wants: 100, Slots: -1, Lease: lease, Elsewhere: host != 2}
			g, ok := a.Report(time.Hour, algorithm.Limit{Rate: 100}, host, &r)
			if !ok {
				g.Weight = r.Has
			}
			all += g.Weight
		}
		if all > 1 {
			t.Errorf("hosts report in the order %v, and hold %v of the limit", order, all)
		}
	}
}
