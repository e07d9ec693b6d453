// SPDX-License-Identifier: Apache-2.0

// Package algorithm decides how a limit is shared: arithmetic only, no clock,
// lock, goroutine or I/O.
//
//	demands of all hosts ──▶ Algorithm ──▶ a grant for each host
//
// The aggregator gathers the demands and calls the algorithm that a key's
// rule names. To share in a way of your own, write one function, a Weigh, and
// register it on the pool, which is the account of Elastic:
//
//	registry := algorithm.Builtin()
//	err := registry.Register("even-parts", algorithm.Pool(
//		func(capacity float64, demands []algorithm.Demand, parts []float64) {
//			for i := range parts {
//				parts[i] = capacity / float64(len(demands))
//			}
//		}))
//
// A Node has headgate.WithAlgorithm for that.
//
// So it has bursts, debt and early reports like Elastic. The order of demands
// means nothing: a Weigh that needs one sorts them, by Host.
//
// An algorithm may also be a Leasing one. Its capacity is not a rate that is
// divided anew all the time, but an amount that hosts claim and hold for a
// while: of None, Static, ProportionalShare and FairShare, Leases is the
// account. Connections, slots in flight and what a cluster below may hand on are
// leased.
//
// Auto is Elastic where a limit is high enough for the hosts that use it, and
// else has one Bucket decide each event: grants and takes come out of one
// account.
//
// An algorithm that needs messages and state of its own is not for this
// package: see the type URLs in package rpc.
package algorithm
