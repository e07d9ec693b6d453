// SPDX-License-Identifier: Apache-2.0

// Package limiter enforces limits on one host. It decides in memory, by this host's part of what the
// whole cluster may use. Under auto, the default algorithm, it asks the key's owner for what this
// host's part does not cover, and the caller waits for the answer. Under exact and redis, each request
// is asked for elsewhere. Under elastic, none is.
//
//	             Allow, Reserve, Wait, Decide          once per interval
//	caller ──▶ Limiter ──▶ stage ──── counts ──▶ report ──▶ ┌──────────┐
//	                       │ bucket                         │ the key's│
//	                       │  ├ by grant, while it is valid │ owner    │
//	                       │  └ by fallback, else           │          │
//	                       └ rate, burst ◀─── grants ◀───── └──────────┘
//
// A Group holds the limiters of a host by key, under the rules of a
// dynamicconfig.Snapshot. They have those methods of x/time/rate's Limiter that
// take or show tokens. A service with a headgate.Node uses Node.For, or
// Node.Group. Without a Node:
//
//	group := limiter.NewGroup(snapshot, hosts)
//	go group.Run(ctx, fanout) // reports, and applies the answers
//
//	if !group.For("frontend:orders").Allow() {
//		return errTooManyRequests
//	}
//	err := group.For("batch:import").WaitN(ctx, 50)
//	…
//	group.Configure(next) // when the rules change
//	group.SetHosts(n)     // when the cluster does
//
// # How one request is decided
//
// The function decide, in take.go, is the only way. It finds the rule that matches the key, applies the
// rule's terms (internal/terms: max_cost and max_wait), and asks the stage that the tokens come from,
// which knows max_debt. Then it allows a part of what is over the limit, if the rule does not enforce
// the limit in full, counts the decision, and sends it to listeners. Allow has two shorter forms of it.
// Where a bucket alone decides, Allow calls that bucket. Where the rule has no terms and there is no
// listener, the function allow, beside decide, leaves out the steps that would do nothing. The stage's
// Settle gives back or charges what was taken, once.
//
// A stage is this host's part of the limit (internal/share), a remote bucket
// (internal/remote), a migration's pair (package shadow), or somebody's
// *rate.Limiter (FromRate).
//
// # Grants and fallbacks
//
// A key has a grant until the grant's lease ends. The grant is this host's part of the limit, which the
// key's owner computes from the reports of all hosts. Without a grant, the rule's fallback applies, by
// default the limit divided by the hosts. A key begins in fallback, and falls back when its owner does
// not answer for a whole lease. Callers notice only that the rate changes. A change from one to the
// other, or of the limit, keeps the tokens, so that there is no second burst.
//
// # Slots in flight
//
// A rule may limit how many events are under way at a time: `limit: 100
// in-flight`. Its keys have slots instead of tokens. Callers acquire and release
// them:
//
//	release, err := group.For("db:orders").Acquire(ctx, 1, limiter.Priority(5))
//	if err != nil {
//		return err
//	}
//	defer release()
//
// The owner grants a host's part of the slots as it grants a part of a rate: in whole slots, for a
// lease. The host reports the slots that it holds, and they stay its own until they are released, so
// that a cut takes effect as holders release. Without a grant a host has an even part, rounded down but
// at least 1. Hosts that are all without a grant hold at most the limit together, or one slot each if
// that is more. When a host dies, its slots are given to others once its lease ends.
//
// # Decisions and estimates
//
// Decide gives the reason, the wait, and after how long to try again. Take is
// for a cost that is known only afterwards. It takes an estimate, and Settle
// corrects it:
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
// Under an algorithm with a stage.Remote, such as exact or redis, the key has one bucket, on another
// host, and each event asks there. If there is no answer, this host's part under the rule's fallback
// decides, and the bucket is charged afterwards for what that let through. Under auto, a host with a
// grant asks only for events that the grant does not cover.
//
// # Time
//
// Package driver, and the stage of a Limiter, take the time as an argument. Run, and methods that do
// not take a time, read the clock. A stage.Instant is monotonic, so setting the wall clock changes
// nothing. The simulator runs the same code on virtual time, and tests run it in a bubble of
// testing/synctest: see package headgatetest.
//
// # Out of scope
//
// The owner decides how a limit is shared (packages aggregator and algorithm), rpc carries reports, and
// shadow compares two limiters. Nothing is stored: a host that restarts begins in fallback.
package limiter
