// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/testrun"
)

// ran is the first row of a run.
func ran(t *testing.T, name, algorithm string, seed uint64) measure.Row {
	t.Helper()
	testrun.NotUnderRace(t, "a run of the simulator is one goroutine")
	sc, err := scenario.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(sc, algorithm, seed)
	if err != nil {
		t.Fatal(err)
	}
	return r.Rows()[0]
}

// An owner that is asked for each event is the one bucket that the oracle is.
func TestExactIsTheOracle(t *testing.T) {
	for _, scenario := range []string{"low-limit", "burst-on-few", "burst-to-the-brim"} {
		if row := ran(t, scenario, "exact", 1); row.FalseRejectPct != 0 || row.OverPct != 0 || math.Abs(row.UtilisationPct-100) > 1e-9 || row.AsksPerHostS == 0 {
			t.Errorf("%s: %+v", scenario, row)
		}
	}
}

// Where the limit is low, auto is as exact is; where it is high, it is no worse
// than elastic, and asks for at most a few of the events that elastic rejects.
func TestAutoIsTheBetterOfTwo(t *testing.T) {
	if row := ran(t, "low-limit", "auto", 1); row.FalseRejectPct > 0.1 || row.OverPct > 0.1 || row.ReportsPerHostS+row.AsksPerHostS > 1 {
		t.Errorf("low-limit: %+v", row)
	}
	seeds := 2
	if testrun.Long() {
		seeds = 4
	}
	for _, scenario := range []string{"burst-on-few", "owner-crash"} {
		var better, rejected float64 // of auto, in the mean of all seeds
		for seed := range uint64(seeds) {
			auto, elastic := ran(t, scenario, "auto", seed+1), ran(t, scenario, "elastic", seed+1)
			better += (auto.UtilisationPct - elastic.UtilisationPct) / float64(seeds)
			rejected += (auto.FalseRejectPct - elastic.FalseRejectPct) / float64(seeds)
			if auto.ReportsPerHostS > elastic.ReportsPerHostS+8 || auto.OverPct > elastic.OverPct+0.1 {
				t.Errorf("%s: %+v, and elastic %+v", scenario, auto, elastic)
			}
		}
		if better < -0.2 || rejected > 0.05 {
			t.Errorf("%s: auto uses %v%% more than elastic, and rejects %v%% more", scenario, better, rejected)
		}
	}
}

const leavesOrDies = `
name: moves
duration: 60s
hosts: 3
owners: 2
limits:
  - {key: "k", limit: 0.01/s, burst: 50, fallback: closed}
traffic:
  - {key: "k", hosts: 0, rate: {steps: {0s: 20/s, 15s: STOP}}}
  - {key: "k", hosts: 1-2, total: {steps: {30s: 20/s}}}
events:
`

// Nobody gets a second burst when the bucket moves: who knew it tells the next
// owner, or else who asked it. Who is cut off gets nothing.
func TestBucketsMoveInTheSimulator(t *testing.T) {
	testrun.NotUnderRace(t, "a run of the simulator is one goroutine")
	for _, algorithm := range []string{"exact", "auto"} {
		for event, want := range map[string]int64{
			"{at: 20s, do: leave, hosts: owner of k}":             50, // and others ask first
			"{at: 20s, do: crash, hosts: owner of k, for: 20s}":   50, // those who asked before do
			"{at: 1s, do: partition, hosts: 0, from: owners}":     50, // the others have the rest
			"{at: 0s, do: partition, hosts: all, from: owners}":   0,
			"{at: 0s, do: pause, hosts: owners, for: 60s}":        0,
			"{at: 0s, do: slow, hosts: owners, for: 60s, by: 1s}": 0,
		} {
			stop := "0/s"
			if strings.Contains(event, "crash") {
				stop = "20/s"
			}
			sc, err := scenario.Parse("moves.yaml", []byte(strings.Replace(leavesOrDies, "STOP", stop, 1)+"  - "+event+"\n"), nil)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Run(sc, algorithm, 1)
			if err != nil {
				t.Fatal(err)
			}
			lent := int64(0)
			if algorithm == "auto" && want > 0 {
				lent = 2 // a host that is cut off may hold a loan
			}
			if got := r.Rows()[0].Admitted; got > want || got < want-lent {
				t.Errorf("%s, %s: %d admitted, want %d", algorithm, event, got, want)
			}
		}
	}
}

func TestAskingIsTheSameAgain(t *testing.T) {
	testrun.NotUnderRace(t, "a run of the simulator is one goroutine")
	for _, algorithm := range []string{"exact", "auto"} {
		var first []byte
		for range 2 {
			r, err := Run(until(load(t, "owner-crash"), time.Minute), algorithm, 3)
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
}
