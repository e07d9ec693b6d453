// SPDX-License-Identifier: Apache-2.0

package costs

import (
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/rpc/usage"
)

// granted is what a decider answers about n keys.
func granted(name string, n int) *usage.Grants {
	g := &usage.Grants{
		Floor: usage.FloorUnused, Lease: column(n, 10*time.Second),
		Weight: make([]float64, n), Burst: make([]float64, n), Used: make([]float64, n),
	}
	for i := range n {
		g.Weight[i] = float64(i%8) / 8
		g.Burst[i] = float64(i % 200)
		g.Used[i] = float64(i) * 1.5
	}
	if name == algorithm.NameElastic { // it has tokens, and no floor that needs what is used
		g.Floor, g.Tokens, g.Used = usage.FloorNone, make([]float64, n), make([]float64, n)
		for i := range n {
			g.Tokens[i] = float64(i%50) / 2
		}
	}
	return g
}

// messages are the four steps of the built-in codec, and what it sends.
func messages() []operation {
	const n = 10_000
	var codec usage.Columnar
	var all []operation
	for _, name := range both {
		again := name != algorithm.NameElastic // nearly the same code
		report := func() *anypb.Any { return must(codec.EncodeReport(used(name, n))) }
		grants := func() *anypb.Any { return must(codec.EncodeGrants(granted(name, n), n)) }
		all = append(all,
			operation{
				name: "encode-usage/" + name, per: "key", units: n, runs: 5, slow: again,
				wire: func() int { return len(report().Value) },
				bench: func() (prepare, run func()) {
					u := used(name, n)
					return nil, func() { must(codec.EncodeReport(u)) }
				},
			},
			operation{name: "decode-usage/" + name, per: "key", units: n, runs: 5, slow: again, bench: func() (prepare, run func()) {
				payload, u := report(), new(usage.Report)
				return nil, func() { check(codec.DecodeReport(payload, u)) }
			}},
			operation{
				name: "encode-grants/" + name, per: "key", units: n, runs: 5, slow: again,
				wire: func() int { return len(grants().Value) },
				bench: func() (prepare, run func()) {
					g := granted(name, n)
					return nil, func() { must(codec.EncodeGrants(g, n)) }
				},
			},
			operation{name: "decode-grants/" + name, per: "key", units: n, runs: 5, slow: again, bench: func() (prepare, run func()) {
				payload, u := grants(), used(name, n)
				return nil, func() { must(codec.DecodeGrants(payload, u)) }
			}})
	}
	return all
}
