// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/headgate/headgate/rpc/usage"
)

// Quiet hosts tell a new owner of their loans with their regular reports, up to an
// interval after it began.
func TestANewOwnerHearsOfLoansLate(t *testing.T) {
	old, heir := under(t, autoRule(1, 1000)), under(t, autoRule(1, 1000))
	now, held := time.Minute, 0.0
	for i := range 10 {
		wanted(t, old, now, "auto", fmt.Sprint("h", i), 9, 0)
	}
	now += time.Second
	for i := range 10 {
		held += wanted(t, old, now, "auto", fmt.Sprint("h", i), 9, sureWeight).Tokens[0]
	}
	heir.Moved(now)
	// The key moves. A host without a grant asks the new owner first.
	took(t, heir, now, usage.Take{Auto: true, Tokens: 1})
	now += time.Second
	for i := range 10 {
		wanted(t, heir, now, "auto", fmt.Sprint("h", i), 9, sureWeight)
	}
	left := took(t, heir, now, usage.Take{Auto: true}).Left
	if left > 500 {
		t.Errorf("hosts hold %v of the old owner, and the new owner has %v left of 1000", held, left)
	}
}

const sureWeight = 1. / (1 << 42)

// A key that is handed over goes on with what there was, whoever is faster: the earlier
// owner, or a host that asks the new one.
func TestAKeyThatIsHandedOverGoesOnWithWhatThereWas(t *testing.T) {
	for _, hostFirst := range []bool{false, true} {
		for _, rates := range []bool{false, true} {
			const limit, burst = 1000, 10000
			old, heir := under(t, autoRule(limit, burst)), under(t, autoRule(limit, burst))
			now, wants := time.Minute, 9.0
			if rates {
				wants = 500 // of which hosts get a part as rates
			}
			for range 2 {
				for i := range 10 {
					wanted(t, old, now, "auto", fmt.Sprint("h", i), wants, 0)
				}
				now += time.Second
			}
			took(t, old, now, usage.Take{Auto: true, Tokens: 3000})
			before := took(t, old, now, usage.Take{Auto: true}).Left

			heir.Moved(now)
			asked := 0.0
			if hostFirst { // a host that holds a grant of the earlier owner
				took(t, heir, now, usage.Take{Auto: true, Tokens: 5, More: 10})
				asked = 5
			}
			rows := old.HandoverBuckets(now)
			if len(rows) != 1 || !rows[0].Handed || (rows[0].Rates > 0) != rates {
				t.Fatalf("handed over: %+v", rows)
			}
			took(t, heir, now, rows[0])
			if got, want := took(t, heir, now, usage.Take{Auto: true}).Left, before-asked; math.Abs(got-want) > 0.01 {
				t.Errorf("a host first: %v, rates: %v: %v left, want %v", hostFirst, rates, got, want)
			}
			// While the new owner listens, what comes in is what hosts do not hold as rates.
			const moment = 200 * time.Millisecond
			more := (1 - rows[0].Rates) * limit * moment.Seconds()
			if got, want := took(t, heir, now+moment, usage.Take{Auto: true}).Left, before-asked+more; math.Abs(got-want) > 0.01 {
				t.Errorf("a host first: %v, rates: %v: %v left after %v, want %v", hostFirst, rates, got, moment, want)
			}
			// A host that asks says nothing that the earlier owner has not said.
			took(t, heir, now+moment, usage.Take{Auto: true, More: 10})
			if got, want := took(t, heir, now+moment, usage.Take{Auto: true}).Left, before-asked+more; math.Abs(got-want) > 0.01 {
				t.Errorf("a host first: %v, rates: %v: %v left after a host asked, want %v", hostFirst, rates, got, want)
			}
		}
	}
}

// Nobody gets more by handing over than a new key has.
func TestAHandOverGivesNoMoreThanANewKeyHas(t *testing.T) {
	heir := under(t, autoRule(100, 1000))
	heir.Moved(time.Minute)
	for range 3 {
		took(t, heir, time.Minute, usage.Take{Auto: true, Tokens: 10, More: 10})
		took(t, heir, time.Minute, usage.Take{Auto: true, Handed: true, Told: 1e15, By: 7})
	}
	if left := took(t, heir, time.Minute, usage.Take{Auto: true}).Left; left != 970 {
		t.Errorf("%v left, want 970", left)
	}
}
