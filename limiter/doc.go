// SPDX-License-Identifier: Apache-2.0

// Package limiter decides, in memory, whether an event may happen.
//
//	Allow() ──▶ Keyed ──▶ share ──▶ bucket: one atomic word
//	             │          │ counts what was allowed and rejected
//	             │          │
//	Group ───────┘          ├─▶ Report(now) ──usage──▶ owner of the key
//	  finds it by key       └◀─ Apply(now) ◀──grant───
//	                            no grant for a lease: fallback
//
// A Group holds the limiters of one host. Each key that is used gets one, made
// from the rule that matches it; it holds for ever and follows the config:
//
//	group := limiter.NewGroup(snapshot, hosts)
//	orders := group.For("frontend:orders")
//	if !orders.Allow() {
//		return errTooManyRequests
//	}
//	if err := orders.Wait(ctx); err != nil { … }    // or wait for a turn
//	if !limiter.AllowAll(now, limiter.Ask{Limiter: orders, N: 1}, limiter.Ask{Limiter: all, N: 1}) { … }
//	go group.Run(ctx, fanout)                       // follow the load
//
// A host applies its weighted part of the limit while it has a grant, and the
// rule's fallback while it has none. Both buckets know of all usage, so that
// going from one to the other gives nobody a second burst.
//
// Bucket is a limiter by itself, for one host: *rate.Limiter without a lock.
//
// Report, Apply, Early, Configure and SetHosts are steps that take the time;
// Run is the loop around them. How a limit is shared is not decided here: see
// packages aggregator and algorithm.
package limiter
