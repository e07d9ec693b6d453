// SPDX-License-Identifier: Apache-2.0

// Package edge is what those edges have in common that answer for one bucket
// at a time: quotaservice, httpapi, and the interceptors of rpc/middleware.
// Each asks a Buckets and puts the Decision into its own protocol:
//
//	d := buckets.Decide(ctx, "frontend:orders", 1, edge.AsLongAsTheRule)
//	if !d.OK {
//		// d.Reason says why, d.RetryAfter when to come again.
//	}
//	// The caller waits for d.Wait before it acts.
//
// Package limiter/buckets makes a Buckets of a limiter.Group.
//
// Out of scope: how a bucket decides (package limiter).
package edge
