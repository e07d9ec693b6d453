// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// A host asks for an event that no bucket of the rule can ever pay. The cluster above hears of
// what the others want, and not of that.
func TestAnAskThatCanNeverPassIsNoDemand(t *testing.T) {
	a := below(t, dynamicconfig.Rule{Algorithm: algorithm.NameExact, Burst: 100})
	for now := time.Duration(0); now < 20*s; now += s {
		took(t, a, now, usage.Take{Tokens: 10})
		if now == 10*s {
			took(t, a, now, usage.Take{Tokens: rpc.MaxTokens})
		}
		a.GC(now + s/2)
	}
	c := answered(t, a, 20*s, lease(100))
	if len(c.Bands) != 1 || c.Bands[0].Wants > 500 {
		t.Errorf("it claims %+v, and its hosts want 10/s", c.Bands)
	}
}

// The owner forgets a key with a parent some time after the last ask.
func TestAnExactKeyWithAParentIsForgotten(t *testing.T) {
	a := below(t, dynamicconfig.Rule{Algorithm: algorithm.NameExact, Burst: 100})
	took(t, a, 0, usage.Take{Tokens: 10})
	answered(t, a, s, lease(1000))
	now := s
	for ; now < 10*time.Minute && a.keys.Len() > 0; now += 3 * s {
		a.GC(now)
	}
	if a.keys.Len() > 0 {
		t.Errorf("after %v there are %d keys", now, a.keys.Len())
	}
}

// The owner forgets old keys just after a host has asked for one. The claim for it is not lost.
func TestAKeyThatIsAskedForKeepsItsClaim(t *testing.T) {
	a := below(t, dynamicconfig.Rule{Algorithm: algorithm.NameExact, Burst: 100})
	took(t, a, 0, usage.Take{Tokens: 10})
	a.GC(s / 20)
	if c := answered(t, a, s, lease(100)); c.Key != "k" {
		t.Errorf("it claims %+v", c)
	}
}

// A key is in debt when the last host leaves it. The cluster above gives a key without demand
// nothing, so the debt is not paid back. The owner forgets the key all the same.
func TestAKeyInDebtThatNobodyWantsIsForgotten(t *testing.T) {
	for _, name := range []string{algorithm.NameExact, algorithm.NameAuto} {
		above := leased(t, dynamicconfig.Rule{Limit: 1000, Algorithm: algorithm.NameFairShare, Learning: dynamicconfig.None})
		a := below(t, dynamicconfig.Rule{Algorithm: name, Burst: 100, MaxWait: time.Minute})
		now := time.Duration(0)
		pass := func(d time.Duration) {
			for end := now + d; now < end; now += s {
				if asked := a.Parent().Ask(now, "region"); asked != nil {
					a.Parent().Hear(now, asked, above.Claim(now, asked), nil)
				}
				above.GC(now)
				a.GC(now)
			}
		}
		auto := name == algorithm.NameAuto
		for range 30 {
			took(t, a, now, usage.Take{Auto: auto, Tokens: 10})
			pass(s)
		}
		for range 2 { // for the second, there is the whole limit
			took(t, a, now, usage.Take{Auto: auto, Tokens: 1e6, Spent: usage.SpentBeyond})
			pass(9 * s)
		}
		pass(time.Hour)
		if a.keys.Len() > 0 {
			t.Errorf("%s: after an hour there are %d keys, with %v tokens", name, a.keys.Len(), took(t, a, now, usage.Take{Auto: auto}).Left)
		}
	}
}
