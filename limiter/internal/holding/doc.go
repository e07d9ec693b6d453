// SPDX-License-Identifier: Apache-2.0

// Package holding is what this host holds of one key under its rule, and how that
// follows a change of the rule.
//
//	Plan ──▶ Builder ──▶ Holding: the parts that decide, and are reported
//	            ▲           ├ one, or the old and the new of a migration
//	            └───────────┘ carried: what earlier parts left behind
//
// A Holding does not change once it is published. When the rule changes, a Change makes the
// next Holding out of it. Parts that both have stay, and the part that decides from then on
// has no more tokens than the one that decided before. So no change gives a second burst.
// The account says how many tokens that is, on this host and in each remote bucket.
//
//	c := builder.Begin(now, "frontend:orders", old, plan, hosts)
//	… // publish c.Next
//	c.End()
//
// Whoever publishes a Holding has a lock that guards its carryover and its Subjects: package keys.
//
// The package knows neither which keys there are nor how rules match them.
package holding
