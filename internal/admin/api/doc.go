// SPDX-License-Identifier: Apache-2.0

// Package api is what operators ask of a daemon, and change, over HTTP and JSON:
//
//	GET  /v1/limits                    the newest version, with its ETag
//	PUT  /v1/limits                    make a text the newest version, with If-Match
//	GET  /v1/limits/status             which limits are in force
//	POST /v1/limits/check              what is wrong with a text, and what it would change
//	POST /v1/limits/dry-run            what a text would have done with the last hour
//	GET  /v1/limits/suggest            limits with room above what was offered
//	POST /v1/limits/rollback           make an earlier version the newest again
//	GET  /v1/limits/history            who changed what, when and why
//	GET  /v1/limits/history/{version}  one version
//	GET  /v1/limits/rules              the rules in force
//	PUT  /v1/limits/rule               set fields of one rule, or add it; DELETE takes it away
//	GET  /v1/limits/overrides          what holds for a time, and until when
//	PUT  /v1/limits/override           override or bypass a limit for a time; DELETE ends it now
//	GET  /v1/me                        who asks, and what they may change
//	GET  /v1/keys                      the keys in use at this daemon
//	GET  /v1/migrations                rules that change their algorithm, and how the two differ
//	POST /v1/migrations/step           take such a rule to another mode
//	POST /v1/keys/reset                make the bucket of one key full again
//	GET  /v1/usage                     what happened to a key during the last hour
//	GET  /v1/top                       the keys that are used most now, and what each member does
//	GET  /v1/explain                   why one key is limited as it is
//	GET  /v1/explain/past              why it was limited as it was, ?at=TIME of the last hour
//	PUT  /v1/trace                     remember decisions about a key; DELETE ends it
//	GET  /v1/cluster                   the members
//	GET  /v1/events                    what happens, as server-sent events
//	GET  /v1/openapi.json              all of it in full
//
//	a := api.New(api.Options{Limits: node.Limits(), Store: db, Operators: policy, …})
//	server.Handle("/v1/", a)
//
// Each request shows a certificate, a bearer token, or the cookie with a token that a
// browser has after /v1/login. The file of operators says who may see and change what; see
// package callers. A caller that guesses tokens is slowed down. Each change is in the log with
// its author, as is each refused one. A request that a page of another site has a browser
// send is refused.
//
// An error is a problem of RFC 9457. Mistakes in limits are in it one by one, each with its
// line, column and source.
//
// This package puts together what those below answer: versions (the limits and their
// versions), migrate, keys (as they are now), busiest, lasthour and events. access finds out
// who asks, and reply has the forms of answers.
//
// Out of scope: the server and its port (internal/admin), where versions are kept
// (dynamicconfig/history), and pages (internal/admin/ui).
package api
