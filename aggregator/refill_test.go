// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"math"
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/usage"
)

// A bucket that is made full is full, whatever was owed, and whatever a caller was told by an
// earlier owner before that.
func TestARefilledBucketStaysFull(t *testing.T) {
	for _, name := range []string{algorithm.NameExact, algorithm.NameAuto, algorithm.NameElastic} {
		rule := exactRule(1e-3, 100)
		rule.Algorithm = name
		a := under(t, rule)
		now, auto := Now(), name == algorithm.NameAuto
		if name == algorithm.NameElastic {
			u := reportOf(name, 150, 0, time.Second, "k")
			step(t, a, now, "h", u)
		}
		took(t, a, now, usage.Take{Auto: auto, Tokens: 150, Spent: usage.SpentBeyond})
		if got := a.Look(now, "k")[0]; got.Tokens > 0 {
			t.Errorf("%s: %v tokens of 100 after a charge of 150", name, got.Tokens)
		}
		a.Refill("k")
		if name != algorithm.NameElastic { // whose hosts ask no owner
			took(t, a, Now(), usage.Take{Auto: auto, By: a.number + 1, Told: -10, Ago: time.Hour})
		}
		if got := a.Look(Now(), "k")[0]; math.Abs(got.Tokens+got.Lent-100) > 0.1 {
			t.Errorf("%s: %v tokens of 100, and %v are lent, after it was made full", name, got.Tokens, got.Lent)
		}
	}
}

// A bucket whose rule has just changed is made full under its new name, and so is one that a migration measures.
func TestAllBucketsOfAKeyAreRefilled(t *testing.T) {
	rule := exactRule(1e-3, 100)
	a := under(t, rule)
	took(t, a, Now(), usage.Take{Tokens: 50})
	rule.Algorithm, rule.Migration = "", &dynamicconfig.Migration{From: algorithm.NameExact, To: algorithm.NameAuto, Mode: dynamicconfig.ModeNewShadowOld}
	configured(t, a, Now(), rule)
	a.Refill("k")
	if got := took(t, a, Now(), usage.Take{Auto: true, Tokens: 10}).Left; got < 90 {
		t.Errorf("%v are left of 90 under the new name", got)
	}
	took(t, a, Now(), usage.Take{Measured: true, Tokens: 50})
	a.Refill("k")
	if got := took(t, a, Now(), usage.Take{Measured: true}).Left; got < 100 {
		t.Errorf("%v are left of 100 that are measured", got)
	}
}
