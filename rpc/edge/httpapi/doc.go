// SPDX-License-Identifier: Apache-2.0

// Package httpapi lets programs in any language ask for tokens over HTTP, in
// JSON.
//
//	api := httpapi.New(engine.New(node.Group(), node.Limits().Current), httpapi.Options{})
//	err := httpapi.NewServer(api).Serve(listener)
//
// and then
//
//	$ curl --json '{"key": "frontend:orders"}' http://127.0.0.1:7935/v1/allow
//	{"allowed":true,"reason":"granted","cost":1,"wait_ms":0,"limit":100,"burst":100,"remaining":99}
//
//	POST /v1/allow             takes tokens: of one key, or of many in one request
//	POST /v1/charge            takes tokens for what has happened already
//	POST /v1/reserve           takes what an event is thought to cost
//	POST /v1/settle            says what it did cost
//	GET  /v1/keys/{key}        shows a key's bucket, and takes nothing
//	GET  /v1/openapi.json      says all of this to programs
//	GET  /v1/problems/{name}   says what a kind of problem is
//	GET  /healthz, /livez      200 while it runs
//	GET  /readyz               200 while it takes requests
//
// What is not granted is not a success: the status is 429 if it may be granted
// later, and the body is a problem (RFC 9457) with the members of the answer.
// The fields RateLimit-Policy and RateLimit are those of the IETF's draft 10,
// of a policy "default"; its quota is the burst, its window how long the burst
// takes to fill. Retry-After, and retry_after_ms, are longer than need be by a
// random part, at most a quarter, so that callers do not come back together.
//
// A request of many keys is answered with 200 and a result for each. With
// all_or_nothing, tokens that were taken before one was refused are given back.
//
// A reservation is settled where it was made, and once: it is in this host's
// memory, for ten minutes at the least. So a settlement that is sent again, or
// late, gives nothing back that was not taken; what is forgotten stays taken.
//
// Out of scope: who may call (put it behind something that knows, or on a Unix socket), TLS, and
// the rules. Its only state is the open reservations, which one lock guards.
package httpapi
