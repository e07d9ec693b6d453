// SPDX-License-Identifier: Apache-2.0

package costs

import (
	"fmt"

	"github.com/headgate/headgate/ringpop"
)

// placing is what finding owners costs in a large cluster.
func placing() []operation {
	const hosts, n = 1000, 4096
	ring := func() *ringpop.Ring {
		all := make([]ringpop.Host, hosts)
		for i := range all {
			all[i].Address = fmt.Sprintf("10.0.%d.%d:7933", i/250, i%250+1)
		}
		return must(ringpop.New(all, 0))
	}
	return []operation{
		{
			name: "ring-owner/1000-hosts", per: "call", units: n, runs: 1,
			bench: func() (prepare, run func()) {
				r, all := ring(), keys(n)
				return nil, func() {
					for _, k := range all {
						r.Owner(k)
					}
				}
			},
		},
		{
			name: "ring-add-host/1000-hosts", per: "call", units: 1, runs: 1,
			bench: func() (prepare, run func()) {
				r := ring()
				return nil, func() { must(r.With(ringpop.Host{Address: "10.1.0.1:7933"})) }
			},
		},
		{name: "ring-memory/1000-hosts", per: "host", units: hosts, hold: func() any { return ring() }},
	}
}
