// SPDX-License-Identifier: Apache-2.0

package growth

import (
	"fmt"
	"runtime"

	"github.com/headgate/headgate/internal/nodeload/workload"
	"github.com/headgate/headgate/ringpop"
)

// RingCost is what a ring of so many hosts takes.
type RingCost struct {
	Hosts int `json:"hosts"`
	// BuildMs and AddMs are CPU to build it, and to add one host.
	BuildMs float64 `json:"build_ms"`
	AddMs   float64 `json:"add_ms"`
	// LookupNs is CPU to find a key's owner.
	LookupNs float64 `json:"lookup_ns"`
	// Bytes is memory for a host.
	Bytes float64 `json:"bytes_per_host"`
	// Balance is how many keys the fullest host has, in relation to the mean.
	Balance float64 `json:"balance"`
}

func membersOf(hosts int) []ringpop.Host {
	addresses := make([]string, hosts)
	for i := range addresses {
		addresses[i] = fmt.Sprintf("10.%d.%d.%d:7933", i>>16, i>>8&0xff, i&0xff)
	}
	return workload.Members(addresses)
}

func ringCost(hosts int) (RingCost, error) {
	all := membersOf(hosts + 1)
	before := held()
	var build, add, look stopwatch
	var ring *ringpop.Ring
	var err error
	build.time(func() { ring, err = ringpop.New(all[:hosts], 0) })
	if err != nil {
		return RingCost{}, err
	}
	after := held()
	runtime.KeepAlive(all)
	add.time(func() { _, err = ring.With(all[hosts]) })
	names := workload.Keys(max(100*hosts, 100_000))
	counts := make(map[string]int, hosts)
	for _, name := range names {
		counts[ring.Owner(name)]++
	}
	most := 0
	for _, n := range counts {
		most = max(most, n)
	}
	look.time(func() {
		for _, name := range names {
			ring.Owner(name)
		}
	})
	return RingCost{
		Hosts: hosts, BuildMs: build.per(1) / 1e6, AddMs: add.per(1) / 1e6, LookupNs: look.per(len(names)),
		Bytes: (after - before) / float64(hosts), Balance: float64(most) * float64(hosts) / float64(len(names)),
	}, err
}
