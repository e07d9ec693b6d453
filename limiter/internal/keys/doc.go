// SPDX-License-Identifier: Apache-2.0

// Package keys is which keys a host has, and by which rule and which State each decides.
//
//	rules, hosts ──▶ Set ──▶ registry: which keys are live, idle or refused
//	                  │        └ what a live key holds; see package holding
//	                  └ Reports: usage to owners, and their grants; see package report
//
//	Key ── Current(now) ──▶ State: a stage, or slots, or the reason why neither
//
// A Key comes to life when it is first used. A key that is not used for two
// intervals becomes idle. After its rule's idle_after, the Set forgets the key. A State
// does not change once it is published; a change of rules publishes another.
//
//	set := keys.New(keys.Config{…}, snapshot, hosts).Set()
//	st := set.For("frontend:orders").Current(now)
//	verdict, receipt := st.Stage.Take(ctx, request)
//
// Admission never waits for a report: it takes the lock of one part of the
// table. The Set's lock serializes everything that changes live keys.
//
// The package does not decide requests, and does not know what becomes of tokens, grants
// and slots when a rule changes. It has no clock and no loop.
package keys
