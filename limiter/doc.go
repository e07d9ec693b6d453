// SPDX-License-Identifier: Apache-2.0

// Package limiter enforces limits on one host: in memory, without a call to
// anybody per request (unless its rule asks for that), and with this host's
// part of what the whole cluster may use.
//
//	             Allow, Reserve, Wait                 once per interval
//	caller ──▶ Keyed ──▶ share ─── counts ──▶ Report ──▶ ┌──────────┐
//	                     │ bucket                        │ the key's│
//	                     │  ├ by grant, while it is valid│ owner    │
//	                     │  └ by fallback, else          │          │
//	                     └ rate, burst ◀────── Apply ◀── └──────────┘
//
// A Group holds the limiters of a host by key, under the rules of a
// dynamicconfig.Snapshot. They have the methods of x/time/rate's Limiter:
//
//	group := limiter.NewGroup(snapshot, hosts)
//	go group.Run(ctx, fanout)                // reports, and applies the answers
//
//	if !group.For("frontend:orders").Allow() {
//		return errTooManyRequests
//	}
//	err := group.For("batch:import").WaitN(ctx, 50)
//	…
//	group.Configure(limiter.Now(), next)     // when the rules change
//	group.SetHosts(limiter.Now(), n)         // when the cluster does
//
// # What rules a key
//
// A grant, as long as its lease lasts: this host's part of the limit, which
// the key's owner decided from what all hosts report. Else the rule's
// fallback, by default the limit divided by the hosts. A key begins in
// fallback, and falls back when its owner does not answer for a whole lease;
// callers notice nothing but another rate. A change from one to the other, or
// of the limit, keeps the tokens: nobody gets a second burst.
//
// # Slots in flight
//
// A rule may limit how much goes on at a time: `limit: 100 in-flight`. Its keys
// have slots instead of tokens, and who takes some gives them back:
//
//	release, err := group.For("db:orders").Acquire(ctx, 1, limiter.Priority(5))
//	if err != nil {
//		return err
//	}
//	defer release()
//
// The host's part of the slots is granted like a part of a rate: whole slots,
// for a lease. What is held is reported and counts as the host's, so that a
// cut takes effect as holders release. Without a grant a host has an even
// part, rounded down but at least 1: hosts that are all without one hold at
// most the limit together, or one slot each if that is more. A host that dies
// is silent, and its slots are given to others when its lease ends.
//
// # Why, and how long
//
// Decide says why, after which wait, and when to come again. A rule bounds the
// wait (max_wait) and the cost of an event (max_cost), lets events borrow what
// those after them pay (max_debt), and need not be enforced in full (enforce).
// What is not known before is estimated, and settled afterwards:
//
//	d := group.For("llm:gpt").Decide(ctx, 1, 100*time.Millisecond)
//	if !d.OK {
//		return fmt.Errorf("%v; try again after %v", d.Reason, d.RetryAfter)
//	}
//	e := group.For("llm:tokens").Take(ctx, 800, -1)
//	…
//	e.Settle(used)
//
// # Buckets elsewhere
//
// Under an algorithm with a Remote, such as exact or redis, each event asks
// for its tokens where the one bucket of the key is. When that does not answer,
// this host's part under the rule's fallback decides, and what it lets through
// is charged afterwards.
//
// # Events
//
// Listeners hear of each decision, and of keys that come and go, in batches
// and without anyone waiting for them: see WithListener.
//
// # Demand
//
// Hosts report what they want, where the algorithm asks for it: what was asked
// for and who waits, as a moving average, or the slots that were held, waited
// for and refused. Or what the caller states, with SetDemand.
//
// # Time
//
// Report, Early, Apply and every decision take the time as an argument; only
// Run and the methods without one read the clock. An Instant is monotonic, so
// that setting the wall clock changes nothing. The simulator runs the same
// code on virtual time.
//
// # By itself
//
// Bucket is one limiter without a cluster, and a faster x/time/rate. AllowAll
// asks several limits at once, all or nothing. Stepper is what other limiters
// implement to take part.
//
// # Out of scope
//
// How a limit is shared is the owner's business (packages aggregator and
// algorithm), how reports travel is rpc's, and comparing two limiters is
// shadow's. Nothing is stored: a host that restarts begins in fallback.
package limiter
