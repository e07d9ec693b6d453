// SPDX-License-Identifier: Apache-2.0

// Package algorithm says how a limit is divided: pure functions, their names and
// their parameters; no clock, lock, state or I/O.
//
//	demands of all hosts ──▶ Weigh ──▶ a part for each host
//
// To divide in a way of your own, write one function and register it:
//
//	registry := algorithm.Builtin()
//	err := registry.Register("even-parts",
//		func(capacity float64, demands []algorithm.Demand, parts []float64) {
//			for i := range parts {
//				parts[i] = capacity / float64(len(demands))
//			}
//		})
//
// A Node has headgate.WithAlgorithm for that. The order of demands means nothing: a
// Weigh that needs one sorts them, by Host.
//
// A Weigh runs on each account of the owner. Rules name a pair of the two, such as
// pool/even-parts, or a short name:
//
//	account  keeps                                             short names
//	average  moving averages of demand                         request-weighted, drop-ratio
//	pool     one bucket for the key; hosts hold what it lends  elastic, auto, and your own
//	claims   amounts that hosts hold until a time              none, static, fair-share, …
//
// Elastic says what the pool lends, and Overshoot how much can be too much.
//
// The package does not know how accounts work: that is the aggregator's. An algorithm
// that needs messages and state of its own is not for this package either: see the
// type URLs in package rpc.
package algorithm
