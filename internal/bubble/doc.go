// SPDX-License-Identifier: Apache-2.0

// Package bubble runs whole nodes in a bubble of testing/synctest, in which no socket
// works. They call each other over memory, with the latency of a data centre, and time
// is virtual:
//
//	nodes, wire := bubble.Start(t, 3, rules)
//	nodes[0].For("k").Allow()
//	calls := wire.Calls(usage.TakesTypeURL)
//
// Out of scope: networks that fail (package rpctest). One lock guards the counts of a Wire.
package bubble
