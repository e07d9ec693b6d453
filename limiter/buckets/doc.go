// SPDX-License-Identifier: Apache-2.0

// Package buckets lets the limiters of a Group answer the edges of package
// rpc/edge and the interceptors of rpc/middleware, which know no limiter:
//
//	api := httpapi.New(buckets.Of(node.Group(), node.Limits().Current), httpapi.Options{})
//
// Decisions are made in this process, as those of a Limiter are.
//
// Out of scope: protocols.
package buckets
