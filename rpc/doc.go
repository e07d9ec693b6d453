// SPDX-License-Identifier: Apache-2.0

// Package rpc carries what limiting hosts report to the deciders that own
// their keys, and the answers back. It knows no algorithm.
//
//	limiter ──Usage──▶ Fanout ──Codec──▶ Any ──transport──▶ Mux ──▶ Decider
//	   ▲                 │ one call per owner                        │
//	   └────Grants───────┴──Codec──── Any ◀──────────────────────────┘
//
// A host asks the owners, and gets each answer as it comes:
//
//	fan := &rpc.Fanout{Host: self, Placement: ring, Peers: client}
//	fan.Update(ctx, usage, time.Second, func(p rpc.Part, g *rpc.Grants, err error) {
//		if err != nil {
//			return // only p's keys go without a new grant
//		}
//		for i, row := range p.Rows { // grant i is for usage.Keys[row]
//			apply(usage.Keys[row], g.Weight[i], g.Burst[i], g.Lease[i])
//		}
//	})
//
// A Mux hands each payload to the Decider of its type. The built-in payload is
// registered as any other:
//
//	var mux rpc.Mux
//	err := mux.Register(rpc.UsageTypeURL, aggregator)
//	err = mux.Register(rpc.TypeURL(&mypb.Request{}), mine)
//
// A service with a Node hands its Codec and its Decider to headgate.WithPayload.
//
// Beside Usage there are Claims, by which a Claimant leases amounts, and Takes,
// by which a Taker asks owners for the tokens of single events.
//
// The transports are elsewhere: rpcyarpc is the real one, rpctest is in
// memory. headgatepb holds the protocol. Both sides check every message, and
// refuse it whole when anything in it is beyond its bounds: see ErrPayload.
//
// Out of scope: who owns a key (ringpop), what to answer (aggregator), when
// to ask again (limiter). Nothing is retried here; the next report is soon.
package rpc
