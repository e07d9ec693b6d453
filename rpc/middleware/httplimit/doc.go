// SPDX-License-Identifier: Apache-2.0

// Package httplimit limits the requests that a net/http server takes.
//
//	limit, err := httplimit.New(engine.New(node.Group(), nil), httplimit.Options{
//		Key: "api:{header:X-Tenant}:{ip/24}",
//	})
//	http.ListenAndServe(address, limit.Wrap(mux))
//
// The key of a request is built by a template: package keys says how. What
// becomes of a request that is over the limit is Options.Throttle: it is
// answered with 429, Retry-After and the fields of package httpapi; or it waits
// for its turn first; or its connection is closed without an answer.
//
// Out of scope: what the limits are, and clients. examples/retry is a client
// that comes back after Retry-After.
package httplimit
