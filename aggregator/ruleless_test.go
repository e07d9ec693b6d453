// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/usage"
)

// A rule may have another algorithm decide for a while, or be gone. A pool that it has decide again
// has what time has filled in, and not a second burst. It is forgotten once it is full.
func TestAPoolOutlivesItsRuleUntilItIsFull(t *testing.T) {
	for _, name := range []string{algorithm.NameExact, algorithm.NameAuto, algorithm.NameElastic} {
		rule := exactRule(10, 1000)
		rule.Algorithm = name
		a := New(algorithm.Builtin(), snapshot(t, cadence, rule))
		a.Moved(-time.Hour)
		if name == algorithm.NameElastic { // else a take makes the key
			wanted(t, a, 0, name, "h", 0, 0)
		}
		if !took(t, a, s, usage.Take{Tokens: 900, Auto: name == algorithm.NameAuto}).OK {
			t.Fatalf("%s: 900 of 1000 tokens are refused", name)
		}
		even := rule
		even.Algorithm = "even"
		for i, other := range [][]dynamicconfig.Rule{{even}, nil} {
			a.Core.Configure(s, snapshot(t, cadence, other...))
			from := time.Duration(1+40*i) * s
			for now := from; now <= from+40*s; now += s {
				a.GC(now)
			}
			become(t, a, from+40*s, rule)
			now := from + 40*s
			if got, want := took(t, a, now, usage.Take{Auto: name == algorithm.NameAuto}).Left, 100+10*(now-s).Seconds(); got < want-11 || got > want+11 { // time counts from the last report or sweep
				t.Errorf("%s: %v left of 1000 after %v, want %v", name, got, now, want)
			}
		}
		become(t, a, 81*s, even)
		for now := 81 * s; now <= 140*s; now += s {
			a.GC(now)
		}
		if got := a.keys.Len(); got != 0 {
			t.Errorf("%s: %d keys without a rule whose pools are full", name, got)
		}
	}
}

// The owner of a key ends a pool that was measured with the measurement: a rule that measures the same later begins
// another one, which hosts charge with what they used.
func TestAMeasuredPoolEndsWithTheMeasurement(t *testing.T) {
	both := exactRule(10, 1000)
	both.Algorithm, both.Migration = "", &dynamicconfig.Migration{From: algorithm.NameAuto, To: algorithm.NameExact, Mode: dynamicconfig.ModeNew}
	a := New(algorithm.Builtin(), snapshot(t, cadence, both))
	took(t, a, s, usage.Take{Tokens: 900, Auto: true, Measured: true})
	took(t, a, s, usage.Take{Tokens: 100})
	wanted(t, a, s, dynamicconfig.Measured(algorithm.NameAuto), "h", 5, 0) // a host with a grant
	become(t, a, s, exactRule(10, 1000))
	if a.GC(2 * s); a.keys.Len() != 1 {
		t.Errorf("%d pools", a.keys.Len())
	}
	if got := a.keys.Hosts.Len(); got != 0 {
		t.Errorf("%d hosts of no pool", got)
	}
	become(t, a, 2*s, both)
	if auto, exact := took(t, a, 2*s, usage.Take{Auto: true, Measured: true}).Left, left(t, a, 2*s); auto != 1000 || exact != 910 {
		t.Errorf("%v tokens under auto, and %v under exact", auto, exact)
	}
}
