// SPDX-License-Identifier: Apache-2.0

// Package edge is the contract behind those ways in that ask about events:
// quotaservice, httpapi, and the interceptors of rpc/middleware. Each is a codec: it
// makes an Ask of a message, and a message of the Decision of an Engine.
//
//	d := engine.Decide(ctx, edge.Ask{Key: "frontend:orders", Cost: 1, Longest: edge.AsLongAsTheRule})
//	if !d.OK {
//		// d.Reason says why, d.RetryAfter when to come again.
//	}
//	// The caller waits for d.Wait before it acts.
//
// Package limiter/engine has the Engine that decides by a limiter.Group.
//
// Out of scope: how a bucket decides (package limiter).
package edge
