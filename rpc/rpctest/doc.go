// SPDX-License-Identifier: Apache-2.0

// Package rpctest is a network in memory, for tests and simulations: hosts
// that serve Deciders and call each other, over links that delay, lose,
// reorder and cut what is sent.
//
//	network := rpctest.New(42) // the seed of all chance
//	network.Host("b").Serve(decider)
//	fan := &usage.Fanout{Host: "a", Peers: network.Host("a").Peers(), ...}
//	network.SetFaults("a", "b", rpctest.Faults{Delay: 20 * time.Millisecond, Drop: 0.1})
//	network.Cut("b", "a") // b still hears a, but its answers are lost
//
// A call sends two messages, a request and an answer, each over the link in
// its own direction:
//
//	a ── request ──▶ link a→b ──▶ Decider of b
//	a ◀── answer ─── link b→a ◀──────┘
//
// All waiting is on timers of package time and on contexts, so that a test
// in a testing/synctest bubble takes no time. Nothing runs between calls.
//
// Out of scope: what TCP does. A request that did not arrive by its caller's
// deadline never does, and a lost message is noticed by that deadline only.
package rpctest
