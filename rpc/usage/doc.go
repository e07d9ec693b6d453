// SPDX-License-Identifier: Apache-2.0

// Package usage is the message family by which hosts and the owners of keys
// agree on who may use what. A Report says what a host used in a while, and is
// answered with Grants. Takes say that a host needs tokens for events at hand,
// and are answered with Taken: they are reports that cannot wait.
//
//	limiter ──Report──▶ Fanout ──Codec──▶ Any ──transport──▶ Mux ──▶ Decider
//	   ▲                  │ one call per owner                        │
//	   └────Grants────────┴──Codec──── Any ◀──────────────────────────┘
//
// A host asks the owners, and gets each answer as it comes:
//
//	fan := &usage.Fanout{Host: self, Placement: ring, Peers: client}
//	fan.Update(ctx, report, time.Second, func(p usage.Part, g *usage.Grants, err error) {
//		if err != nil {
//			return // only p's keys go without a new grant
//		}
//		for i, row := range p.Rows { // grant i is for report.Keys[row]
//			apply(report.Keys[row], g.Weight[i], g.Burst[i], g.Lease[i])
//		}
//	})
//
// Package ask sends Takes. Out of scope: what to answer (aggregator), and when to
// report again (limiter).
package usage
