// SPDX-License-Identifier: Apache-2.0

package world

import (
	"testing"

	"github.com/headgate/headgate/internal/sim/ledger"
	"github.com/headgate/headgate/internal/testrun"
)

func TestAnOverrideEndsByItself(t *testing.T) {
	k := run(t, base(t, `events: [{at: 40s, do: override, key: k, factor: 0.2x, for: 30s}]`), "request-weighted", 1).Keys[0]
	near(t, "before", between(k, 20, 40), 1000)
	near(t, "overridden", between(k, 50, 70), 200)
	near(t, "after", between(k, 80, 100), 1000)
}

func TestARuleNamesAnotherAlgorithm(t *testing.T) {
	k := run(t, base(t, `events: [{at: 40s, do: algorithm, key: k, algorithm: even}]`), "", 1).Keys[0]
	near(t, "auto", between(k, 20, 40), 1000)
	near(t, "even", between(k, 50, 100), 280)
}

func TestTheLedgerAgrees(t *testing.T) {
	testrun.NotUnderRace(t, "a run of the simulator is one goroutine")
	for _, algorithm := range []string{"auto", "request-weighted", "gossip"} {
		books := new(ledger.Ledger)
		if _, err := (Options{Algorithm: algorithm, Seed: 1, Ledger: books}).Run(t.Context(), base(t)); err != nil {
			t.Fatal(err)
		}
		for host, r := range books.Rows[0] {
			if r.Admitted == 0 || r.Offered != r.Admitted+r.Refused+r.Lost || r.Allowed != r.Admitted || r.Rejected != r.Refused {
				t.Errorf("%s, host %d: %+v", algorithm, host, totals(r))
			}
			if late := r.Allowed - r.AnsweredAllowed; algorithm == "request-weighted" && (late < 0 || late > 3500) {
				t.Errorf("host %d admitted %d, and reported %d", host, r.Allowed, r.AnsweredAllowed)
			}
		}
	}
}

// totals is r without its seconds.
func totals(r ledger.Row) ledger.Row {
	r.Seconds = nil
	return r
}
