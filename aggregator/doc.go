// SPDX-License-Identifier: Apache-2.0

// Package aggregator gathers what all hosts report about the keys that one
// host owns, and answers each report with that host's part of the limits.
//
//	host a ─ usage ──▶ ┌──────────────────────────────────────────┐
//	       ◀─ grants ─ │ table ─▶ key ─▶ account: average, pool or  │ ◀─ Configure
//	host b ─ usage ──▶ │                 claims                    │
//	       ◀─ grants ─ │                  └─▶ algorithm.Weigh      │ ◀─ GC
//	host c ─ usage ──▶ └──────────────────────────────────────────┘
//
// The way of a report is Step, Table.Visit, update.Rows, row, decide, and then the
// Report of the key's account. This package has the messages and the
// steps; internal/owned has the keys, and internal/rules says what rules mean for them.
//
// An Aggregator is an rpc.Decider, so whatever carries payloads can serve it:
//
//	registry := algorithm.Builtin()
//	registry.Register("mine", weigh)                 // a custom weighting
//	a := aggregator.New(registry, snapshot, aggregator.WithLogger(log))
//	go a.Run(ctx)                                    // forgets silent hosts
//
//	var mux rpc.Mux
//	err := mux.Register(usage.ReportTypeURL, a)
//	…
//	err = a.Configure(next)                          // when the rules change
//
// Under Update there is Core, which has no clock and no I/O: the same calls give the
// same answers. The simulator runs it on virtual time.
//
// Keys under `exact`, `auto` and `elastic` are one account, the pool. Hosts ask it for
// each event, for what they lack, or never: takes of tokens (usage.TakesTypeURL) are
// served one by one, see Take.
//
// # What it costs
//
// A report costs the same per key however many hosts use that key. Built-in weighers
// have a form for one host. Any other weighs all hosts at once: at most eight times in an
// interval, and when hosts are new.
//
// # What it bounds
//
// Keys (max_owned_keys) and hosts per key (max_hosts_per_key); a key or host
// beyond that gets no grant, and uses its fallback. An average forgets a host
// gc_after its last report, a pool ten intervals after it, and claims with its lease. A key
// is forgotten with its last host, a host's name with its last key, a bucket when it is full. A weigher that panics or returns
// nonsense costs its own keys their grants, and a line in the log.
//
// # Rules that change
//
// Limit, burst, interval, parameters, parent and algorithm of a rule may change,
// and come or go, at any time. With parameters that its algorithm does not take, a
// key goes on as it was, and a new key has no grants.
//
// The owner's rule chooses the account of a key. A host that names another
// algorithm gets no answer: it keeps its grant until its lease ends, and then falls
// back. Its use and its grant count in the rule's account meanwhile. So in a
// rollout all hosts together have at most the limit, and beside that what the
// hosts that have not reported to the new account yet hold, for one interval. A
// migration is two accounts, each of which keeps the limit.
//
// # Reports that overlap
//
// A report counts for the time since the host's last one. If it is about more, an
// answer was lost, the key is named twice in the message, or two hosts have one
// name. The pool then counts the part that is new; other accounts take the
// report for one more sample of the host's demand. overlapping_reports counts them.
//
// # Out of scope
//
// Which host owns a key (ringpop), how reports travel (rpc), how a limit is shared
// (algorithm), and enforcing it (limiter). An aggregator never calls a
// limiter, and stores nothing that it would not relearn in one lease.
package aggregator
