// SPDX-License-Identifier: Apache-2.0

// Package world runs a whole cluster on virtual time: its hosts, owners,
// network, membership and mishaps, as a scenario says.
//
//	scenario ─▶ traffic ─▶ host 0 ┐ limiter.Group ── report ──▶ ┌ simulated ┐ ──▶ aggregator
//	                  ├──▶ host 1 │                             │ network   │     of the owner
//	                  └──▶ host N ┘ ◀──────── grants ────────── └───────────┘ ◀──
//	                  └──▶ measure.Bucket: one bucket that sees every event
//
// What runs is the shipped code: limiters, the split by owner, the bytes on
// the wire, rings, aggregators and algorithms. Only the thin shells around
// them (clock, loops, transport) are replaced by events in a queue.
//
//	sc, err := scenario.Load("cron")        // or a path to a file
//	r, err := world.Run(sc, "elastic", 1)   // "" runs the rules as they are
//	for _, k := range r.Keys {
//		fmt.Println(k.Key, k.UtilisationPct, k.FalseRejectPct, k.OverPct)
//	}
//
// The same scenario, algorithm and seed give the same result, byte for byte.
// A decision that asks an owner waits for the simulated network, on a coroutine;
// others have none. One thing runs at a time, and a run touches nothing outside of
// itself, so several may run at the same time.
//
// The processes of hosts, and the network between them, are package fleet. This one has the
// traffic, the actions and the bucket that sees every event.
//
// The package does not know how scenarios are written (package scenario), how
// traffic is drawn (package traffic), or what figures mean (package measure).
// Out of scope: time that an owner takes to decide, other than what makes it slow.
package world
