// SPDX-License-Identifier: Apache-2.0

// Package keys holds what a host decides by, key by key, and changes it.
//
//	rules, hosts ──▶ Set ──▶ registry: which keys are live, idle or refused
//	                  │  └──▶ builder: the State that a key's rule wants
//	                  └ Reports: what owners hear, and their grants; see package report
//
//	Key ── Current(now) ──▶ State: a stage, or slots, or the reason why neither
//
// A Key comes to life when it is first used. A key that is not used for two
// intervals becomes idle. After its rule's idle_after, the Set forgets the key. A State
// does not change once it is published; a change of rules publishes another.
//
//	set := keys.New(keys.Config{…}, snapshot, hosts)
//	st := set.For("frontend:orders").Current(now)
//	verdict, receipt := st.Stage.Take(ctx, request)
//
// Admission never waits for a report: it takes the lock of one part of the
// table. The Set's lock serializes everything that changes live keys.
//
// The package does not decide requests, and has no clock and no loop.
package keys
