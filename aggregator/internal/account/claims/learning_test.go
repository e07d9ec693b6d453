// SPDX-License-Identifier: Apache-2.0

package claims_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/internal/account/claims"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
)

// An owner learns while others may hold leases that it does not know of.
func TestWhatHasAnOwnerLearn(t *testing.T) {
	way, err := algorithm.Builtin().Lookup("fair-share")
	if err != nil {
		t.Fatal(err)
	}
	const moved, lease = time.Hour, 30 * time.Second
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
		c := &account.Config{
			Settings:  &account.Settings{Interval: time.Second},
			Rule:      &dynamicconfig.Rule{Limit: 100, Learning: lease, Lease: lease},
			Algorithm: way,
		}
		a, ok := claims.New(tt.at, moved, c).(account.Leaser)
		if !ok {
			t.Fatal("it is no Leaser")
		}
		tt.claim.Bands = []claims.Band{{Clients: 1, Wants: 50}}
		a.Claim(tt.at, account.Terms{Lease: lease}, tt.amount, 1, tt.claim)
		if got := a.Learns(tt.at, false); got != tt.learns {
			t.Errorf("%s: it learns: %v", name, got)
		}
	}
}
