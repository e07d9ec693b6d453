// SPDX-License-Identifier: Apache-2.0

// Package sim runs a whole cluster on virtual time and says how close its
// limiters came to one perfect bucket.
//
//	scenario (YAML) ─▶ traffic ─▶ host 0 ┐ limiter.Group ── report ──▶ ┌ simulated ┐ ──▶ aggregator
//	                         ├──▶ host 1 │                             │ network   │     of the owner
//	                         └──▶ host N ┘ ◀──────── grants ────────── └───────────┘ ◀──
//	                         └──▶ oracle: one bucket that sees every event
//
// What runs is the shipped code: limiters, the split by owner, the bytes on
// the wire, rings, aggregators and algorithms. Only the thin shells around
// them (clock, loops, transport) are replaced by events in a queue.
//
//	sc, err := sim.Load("cron")             // or a path to a file
//	r, err := sim.Run(sc, "elastic", 1)     // "" runs the rules as they are
//	for _, k := range r.Keys {
//		fmt.Println(k.Key, k.UtilisationPct, k.FalseRejectPct, k.OverPct)
//	}
//
// The same scenario, algorithm and seed give the same result, byte for byte.
// A run uses one goroutine and touches nothing outside of itself, so several
// may run at the same time.
//
// The format of scenarios is in docs/scenarios.md, what is measured in
// docs/accuracy.md. Out of scope: time that a decision takes (an owner that is
// asked for an event answers at once, or not at all), and what a
// client does after a rejection.
package sim
