// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestNamesAreTakenOnce(t *testing.T) {
	r := Builtin()
	for _, name := range []string{NameRequestWeighted, NameElastic, NameAuto, NameNone} {
		if err := r.Register(name, RequestWeighted); !errors.Is(err, ErrTaken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.Register("mine", FairShare); err != nil {
		t.Fatal(err)
	}
	if err := r.Register("mine", FairShare); !errors.Is(err, ErrTaken) {
		t.Errorf("twice: %v", err)
	}
	for _, name := range []string{"", "claims/mine"} { // a pair, which would be the pool
		if err := r.Register(name, FairShare); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
}

// A weigher that is registered once runs on each account, and on the pool by its
// name alone.
func TestPairsAreAWeigherOnAnAccount(t *testing.T) {
	r := Builtin()
	if err := r.Register("mine", FairShare); err != nil {
		t.Fatal(err)
	}
	for _, weigher := range []string{"mine", NameRequestWeighted, NameProportionalShare, NameFairShare} {
		for _, account := range Accounts {
			a, err := r.Lookup(Pair(account, weigher))
			if err != nil || a.Account != account || a.Weigher.Weigh == nil {
				t.Errorf("%s on %s: %+v, %v", weigher, account, a, err)
			}
		}
	}
	for name, pair := range map[string]string{"mine": "pool", NameElastic: "pool", NameRequestWeighted: "average", NameFairShare: "claims"} {
		if a, err := r.Lookup(name); err != nil || a.Account != pair {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

func TestUnknownNamesAreRefusedWithWhatThereIs(t *testing.T) {
	r := Builtin()
	for name, says := range map[string]string{
		"no-such":           "known are auto, drop-ratio, elastic, ",
		"poll/fair-share":   `there is no account "poll"; known are average, pool, claims`,
		"pool/fairshare":    `account pool has no weigher "fairshare"; known are fair-share, proportional-share, request-weighted`,
		"pool/none":         `account pool has no weigher "none"`,
		"average/static":    `account average has no weigher "static"`,
		"claims/drop-ratio": `account claims has no weigher "drop-ratio"`,
		"pool/":             `account pool has no weigher ""`,
	} {
		if _, err := r.Lookup(name); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if names := r.Weighers(AccountPool); !slices.IsSorted(names) || slices.Contains(names, NameDropRatio) {
		t.Errorf("%q", names)
	}
}

// A weighing of a service's own: the same part for each host that wants something.
func ExampleRegistry_Register() {
	even := func(capacity float64, demands []Demand, parts []float64) {
		for i := range parts {
			parts[i] = capacity / float64(len(demands))
		}
	}
	registry := Builtin()
	fmt.Println(registry.Register("even-parts", even))

	onAverages, err := registry.Lookup("average/even-parts")
	fmt.Println(onAverages.Account, err)

	parts := make([]float64, 2)
	even(100, []Demand{{Host: "a", Wants: 10}, {Host: "b", Wants: 300}}, parts)
	fmt.Println(parts)
	// Output:
	// <nil>
	// average <nil>
	// [50 50]
}
