// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/rpc"
)

func TestAnyNodeAnswersForAnyKeyAtItsEdge(t *testing.T) {
	nodes, _ := cluster(t, 3, memory.New(limits(t, `
defaults: {update_interval: 100ms, algorithm: request-weighted}
limits:
  - {key: "k*", limit: 1000/s}
`)))
	eventually(t, "all nodes know each other", func() bool {
		for _, n := range nodes {
			if n.Ring().Len() != 3 {
				return false
			}
		}
		return true
	})
	const keys = 30
	// Each host speaks to another node, and used its own part of each key.
	used := []int64{700, 200, 100}
	report := func(host int) *rpc.Grants {
		u := &rpc.Usage{Algorithm: "request-weighted"}
		for i := range keys {
			u.Keys = append(u.Keys, fmt.Sprint("k", i))
			u.Allowed = append(u.Allowed, used[host])
			u.Rejected = append(u.Rejected, 0)
			u.Elapsed = append(u.Elapsed, time.Second)
			u.Weight = append(u.Weight, 0)
		}
		payload, err := rpc.Columnar{}.EncodeUsage(u)
		if err != nil {
			t.Fatal(err)
		}
		edge := nodes[host].Edge(func(part rpc.Part, err error) { t.Errorf("%s: %v", part.Owner, err) })
		answer, err := edge.Update(t.Context(), fmt.Sprint("host ", host), payload)
		if err != nil {
			t.Fatal(err)
		}
		g, err := rpc.Columnar{}.DecodeGrants(answer, u)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	owners := make(map[string]bool)
	for i := range keys {
		owners[nodes[0].Ring().Owner(fmt.Sprint("k", i))] = true
	}
	if len(owners) != 3 {
		t.Fatalf("the keys have %d owners: the test tests nothing", len(owners))
	}
	eventually(t, "each host has its part of every key", func() bool {
		fits := true
		for host := range nodes {
			g := report(host)
			for i := range keys {
				fits = fits && math.Abs(g.Weight[i]-float64(used[host])/1000) < 0.01 && g.Lease[i] > 0
			}
		}
		return fits
	})
}
