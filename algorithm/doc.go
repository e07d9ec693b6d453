// SPDX-License-Identifier: Apache-2.0

// Package algorithm decides how a limit is shared: arithmetic only, no clock,
// lock, goroutine or I/O.
//
//	demands of all hosts ──▶ Algorithm ──▶ a grant for each host
//
// The aggregator gathers the demands and calls the algorithm that a key's
// rule names. To share in a way of your own, write one function and hand it
// to the Node:
//
//	// halfEven shares half of the limit evenly, and half by use.
//	func halfEven(limit algorithm.Limit, demands []algorithm.Demand, grants []algorithm.Grant) {
//		sum := 0.0
//		for _, d := range demands {
//			sum += d.Total()
//		}
//		for i, d := range demands {
//			weight := 1 / float64(len(demands))
//			if sum > 0 {
//				weight = (weight + d.Total()/sum) / 2
//			}
//			grants[i] = algorithm.Grant{Weight: weight, Burst: weight * limit.Burst}
//		}
//	}
//
//	node, err := headgate.New(config, source, members,
//		headgate.WithAlgorithm("half-even", algorithm.Func(halfEven)))
//
// Without a Node, Registry.Register adds it to those of Builtin.
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
