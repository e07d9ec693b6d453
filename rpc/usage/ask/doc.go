// SPDX-License-Identifier: Apache-2.0

// Package ask sends the Takes of package usage: a host asks the owner of a key for
// the tokens of single events.
//
//	taker := &ask.Taker{Host: self, Placement: ring, Peers: client}
//	took, err := taker.Take(ctx, usage.Take{Key: "frontend:orders", Tokens: 1})
//
// Callers that come at about the same time share one message. What was taken
// without an answer is given back. Forward does the same for callers that do not
// know the ring.
//
// Out of scope: the buckets (aggregator), and what to do without an answer (limiter). A Taker is
// safe for concurrent use: each of its queues has a lock.
package ask
