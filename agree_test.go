// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/internal/bubble"
	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/sim/world"
	"github.com/headgate/headgate/internal/testrun"
)

// clump is events that come at once at a host.
type clump struct {
	at   time.Duration
	host int
}

const (
	clumpSize  = 10
	clumpsFor  = 20 * time.Second
	clumpLimit = 500 // per second
)

// clumps are 900, 50 and 50 events per second at three hosts, in order of time. The
// hosts do not send in step.
func clumps(seed uint64) (all []clump) {
	r := rand.New(rand.NewPCG(seed, 0))
	for host, rate := range []int{900, 50, 50} {
		every := time.Second * clumpSize / time.Duration(rate)
		for at := time.Duration(r.Int64N(int64(every))); at < clumpsFor; at += every {
			all = append(all, clump{at, host})
		}
	}
	slices.SortStableFunc(all, func(a, b clump) int { return cmp.Compare(a.at, b.at) })
	return all
}

// Three nodes that start cold, and the simulator, admit all that the limit allows of
// the same traffic, although its clumps look like short bursts. The nodes run in a
// bubble, in which the machine's speed does not matter. Their reports begin at random
// points of the interval, as those of the simulator do.
func TestNodesAndTheSimulatorAgreeAboutClumps(t *testing.T) {
	const unlucky = 2
	runs := 8
	switch {
	case testing.Short():
		runs = unlucky + 1
	case testrun.Long():
		runs = 20
	}
	for _, algorithm := range []string{"elastic", "auto"} {
		dips := make(map[string][][]int)
		for seed := range uint64(runs) {
			all := clumps(seed)
			admitted := make(map[string][]int)
			synctest.Test(t, func(t *testing.T) { admitted["nodes"] = clumpsAtNodes(t, algorithm, all) })
			admitted["the simulator"] = clumpsSimulated(t, algorithm, seed, all)
			for who, seconds := range admitted {
				if dipped(seconds) {
					dips[who] = append(dips[who], seconds)
				}
			}
			if a, b := sumOf(admitted["nodes"]), sumOf(admitted["the simulator"]); max(a, b)-min(a, b) > a/40 {
				t.Errorf("%s, %d: nodes admitted %d, and the simulator %d", algorithm, seed, a, b)
			}
		}
		for who, all := range dips {
			if len(all) > unlucky {
				t.Errorf("%s: %s dipped in %d of %d runs: %v", algorithm, who, len(all), runs, all)
			}
		}
	}
}

// dipped reports whether less than nine tenths of the limit were admitted over two
// seconds, after the first ones, in which a bucket that is full at first is used.
func dipped(admitted []int) bool {
	for s := 2; s+2 <= len(admitted); s++ {
		if sumOf(admitted[s:s+2]) < 2*clumpLimit*9/10 {
			return true
		}
	}
	return false
}

// The same over real connections, in real time: three runs, of which one may be
// unlucky. A machine that does not get to send for a while sends all that is due at
// once then, and such a run does not count.
func TestNodesOnLoopbackUseTheLimitOfClumps(t *testing.T) {
	if !testrun.Long() {
		t.Skip("takes two minutes, in which the machine should be idle: set HEADGATE_LONG=1")
	}
	for _, algorithm := range []string{"elastic", "auto"} {
		var dips [][]int
		for seed := range uint64(3) {
			nodes, _ := cluster(t, 3, memory.New(limits(t, clumpRules(algorithm))))
			seconds, late := play(nodes, clumps(seed))
			if late > 100*time.Millisecond {
				t.Logf("%s: the machine stood still for %v, so this run shows nothing", algorithm, late)
			} else if dipped(seconds) {
				dips = append(dips, seconds)
			}
		}
		if len(dips) > 1 {
			t.Errorf("%s: nodes dipped in %d of 3 runs: %v", algorithm, len(dips), dips)
		}
	}
}

// clumpRules are the limits file of the nodes.
func clumpRules(algorithm string) string {
	return fmt.Sprintf("limits: [{key: k, algorithm: %s, limit: %d/s}]", algorithm, clumpLimit)
}

func sumOf(all []int) (sum int) {
	for _, n := range all {
		sum += n
	}
	return sum
}

// clumpsAtNodes is how much three nodes admit in each second. Time is the bubble's.
func clumpsAtNodes(t *testing.T, algorithm string, all []clump) []int {
	nodes, _ := bubble.Start(t, 3, clumpRules(algorithm))
	admitted, _ := play(nodes, all)
	return admitted
}

// play has nodes decide about all events, each at its time, and returns how many they
// admit in each second, and how late an event was at most.
func play(nodes []*headgate.Node, all []clump) (admitted []int, late time.Duration) {
	admitted = make([]int, clumpsFor/time.Second)
	began := time.Now()
	for _, c := range all {
		<-time.After(time.Until(began.Add(c.at)))
		late = max(late, time.Since(began)-c.at)
		for range clumpSize {
			if nodes[c.host].For("k").Allow() {
				admitted[c.at/time.Second]++
			}
		}
	}
	return admitted, late
}

// clumpsSimulated is how much the simulator admits in each second.
func clumpsSimulated(t *testing.T, algorithm string, seed uint64, all []clump) []int {
	t.Helper()
	text := fmt.Sprintf("name: clumps\nduration: %s\nnetwork: {latency: %s}\nlimits: [{key: k, limit: %d/s}]\ntrace: clumps.csv\n", clumpsFor, bubble.OneWay, clumpLimit)
	var trace strings.Builder
	trace.WriteString("time_s,host,key,cost\n")
	for _, c := range all {
		trace.WriteString(strings.Repeat(fmt.Sprintf("%.9f,host-%d,k,1\n", c.at.Seconds(), c.host), clumpSize))
	}
	sc, err := scenario.Parse("clumps.yaml", []byte(text), func(string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(trace.String())), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	result, err := world.Run(sc, algorithm, seed)
	if err != nil {
		t.Fatal(err)
	}
	var admitted []int
	for _, s := range result.Keys[0].Seconds {
		admitted = append(admitted, int(s.Admitted))
	}
	return admitted
}
