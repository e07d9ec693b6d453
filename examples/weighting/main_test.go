// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/static"
)

func Example() {
	show(os.Stdout)
	// Output:
	// half-to-the-biggest: a1 33/s a2 17/s b1 50/s
	// zone-a-double: a1 40/s a2 20/s b1 40/s
}

// nodes are real ones, over real connections: two in zone a, one in zone b.
func nodes(t *testing.T, algorithmName string) []*headgate.Node {
	t.Helper()
	snapshot, err := dynamicconfig.Parse("limits", fmt.Appendf(nil, `
defaults: {update_interval: 100ms, algorithm: %s}
limits: [{key: k, limit: 1000/s}]`, algorithmName))
	if err != nil {
		t.Fatal(err)
	}
	var hosts []ringpop.Host
	var listeners []net.Listener
	for _, zone := range []string{"a", "a", "b"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
		hosts = append(hosts, ringpop.Host{Address: l.Addr().String(), Labels: "zone=" + zone})
	}
	members, err := static.New(hosts...)
	if err != nil {
		t.Fatal(err)
	}
	var all []*headgate.Node
	for i, l := range listeners {
		node, err := headgate.New(headgate.Config{Address: hosts[i].Address}, memory.New(snapshot), members,
			headgate.WithListen(l), headgate.WithLogger(slog.New(slog.DiscardHandler)),
			headgate.WithAlgorithm("half-to-the-biggest", halfToTheBiggest),
			headgate.WithAlgorithm("zone-a-double", zoneADouble))
		if err != nil {
			t.Fatal(err)
		}
		if err := node.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := node.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
		all = append(all, node)
	}
	return all
}

func TestNodesDivideByTheServicesOwnWeighing(t *testing.T) {
	for name, want := range map[string][3]float64{
		"half-to-the-biggest": {0.25, 0.25, 0.5},
		"zone-a-double":       {0.286, 0.286, 0.428},
	} {
		t.Run(name, func(t *testing.T) {
			all := nodes(t, "{account: pool, weigh: "+name+"}")
			demands := [3]float64{1000, 1000, 3000} // events/s; each is more than there is
			began := time.Now()
			var asked [3]float64
			waittest.Until(t, "the parts that the weighing says", func() bool {
				near := true
				for i, node := range all {
					for most := demands[i] * time.Since(began).Seconds(); asked[i] < most; asked[i]++ {
						node.For("k").Allow()
					}
					status, ok := node.Group().Inspect("k")
					near = near && ok && len(status.Shares) == 1 && !status.Shares[0].Fallback &&
						status.Shares[0].Weight > want[i]-0.05 && status.Shares[0].Weight < want[i]+0.05
				}
				return near
			})
		})
	}
}

func TestWeighingsDivideDemandsOfAnySize(t *testing.T) {
	for name, weigh := range map[string]algorithm.Weigh{"half-to-the-biggest": halfToTheBiggest, "zone-a-double": zoneADouble} {
		for _, wants := range [][]float64{{1}, {1, 1}, {1e12, 1e-9}, {1e-9, 1e15, 1e-30}, {5e-324, 1e300}} {
			demands, parts := make([]algorithm.Demand, len(wants)), make([]float64, len(wants))
			for i, w := range wants {
				demands[i] = algorithm.Demand{Host: fmt.Sprint(i), Wants: w}
			}
			weigh(100, demands, parts)
			sum := 0.0
			for _, part := range parts {
				if !(part >= 0 && part <= 100) {
					t.Errorf("%s of %g: parts %g", name, wants, parts)
				}
				sum += part
			}
			if sum > 100*(1+1e-9) {
				t.Errorf("%s of %g: parts %g sum to %v", name, wants, parts, sum)
			}
		}
	}
}

// The order of demands says nothing, and a limit of 0 leaves nothing to divide.
func TestWeighingsDoNotDependOnTheOrderOfDemands(t *testing.T) {
	for name, weigh := range map[string]algorithm.Weigh{"half-to-the-biggest": halfToTheBiggest, "zone-a-double": zoneADouble} {
		for _, capacity := range []float64{100, 0} {
			divide := func(order ...string) map[string]float64 {
				wants := map[string]float64{"a": 30, "b": 30, "c": 10, "d": 20}
				demands, parts := make([]algorithm.Demand, len(order)), make([]float64, len(order))
				for i, host := range order {
					demands[i] = algorithm.Demand{Host: host, Wants: wants[host]}
				}
				weigh(capacity, demands, parts)
				of := make(map[string]float64)
				for i, host := range order {
					of[host] = parts[i]
				}
				return of
			}
			first := divide("a", "b", "c", "d")
			for host, part := range divide("d", "b", "c", "a") {
				if !(math.Abs(part-first[host]) < 1e-9) || capacity == 0 && part != 0 {
					t.Errorf("%s of %v: %s gets %v, and %v in another order", name, capacity, host, first[host], part)
				}
			}
		}
	}
}
