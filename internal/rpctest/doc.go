// SPDX-License-Identifier: Apache-2.0

// Package rpctest is a network in memory, for tests and simulations. Its hosts serve
// Deciders and call each other. Its links delay, lose and reorder messages, and can be cut.
//
//	network := rpctest.New(42) // the seed of all chance
//	network.Host("b").Serve(decider)
//	fan := &usage.Fanout{Host: "a", Peers: network.Host("a").Peers(), ...}
//	network.SetFaults("a", "b", rpctest.Faults{Delay: 20 * time.Millisecond, Drop: 0.1})
//	network.Cut("b", "a") // requests of a still reach b, but the answers of b are lost
//
// A call sends two messages, a request and an answer, each over the link in
// its own direction:
//
//	a ── request ──▶ link a→b ──▶ Decider of b
//	a ◀── answer ─── link b→a ◀──────┘
//
// All waiting is on timers of package time and on contexts, so that a test
// in a testing/synctest bubble takes no time. No goroutine runs between calls.
//
// Out of scope: what TCP does. A request that has not arrived by its caller's deadline
// never arrives, and callers notice a lost message only by that deadline.
package rpctest
