// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/testrun"
)

// Hosts that gossip may be a burst and an interval each ahead of each other, and
// pay it back: steady load comes close to the limit, wherever it is.
func TestGossipComesClose(t *testing.T) {
	testrun.NotUnderRace(t, "a run of the simulator is one goroutine")
	for _, tt := range []struct {
		scenario    string
		utilisation float64 // at least, %
		over        float64 // at most, %
	}{{"steady-skew", 99.5, 1}, {"burst-on-few", 99.5, 0}, {"low-limit", 97, 20}} {
		sc, err := scenario.Load(tt.scenario)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(sc, "gossip", 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range r.Rows() {
			if row.UtilisationPct < tt.utilisation || row.OverPct > tt.over || row.ReportsPerHostS == 0 {
				t.Errorf("%s: %+v", tt.scenario, row)
			}
		}
	}
}

func TestGossipIsTheSameAgain(t *testing.T) {
	testrun.NotUnderRace(t, "a run of the simulator is one goroutine")
	sc := until(load(t, "bad-network"), time.Minute)
	var first []byte
	for range 2 {
		r, err := Run(sc, "gossip", 3)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(r.Rows())
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = text
		} else if !bytes.Equal(first, text) {
			t.Errorf("%s, then %s", first, text)
		}
	}
}
