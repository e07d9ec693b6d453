// SPDX-License-Identifier: Apache-2.0

// Package holding is what this host holds of one key under its rule, and how that
// follows a change of the rule.
//
//	Plan ──▶ Builder ──▶ Holding: the parts that decide, and are reported
//	            ▲           ├ one, or the old and the new of a migration
//	            └───────────┘ carried: what earlier parts left behind
//
// A Holding does not change once it is published. A change of the rule makes another
// one out of it: what both have stays, and what decides from then on has no more
// tokens than what decided before. So no change gives a second burst.
//
//	c := builder.Begin(now, "frontend:orders", old, plan, hosts)
//	… // publish c.Next
//	c.End()
//
// The lock of the owner of a published Holding guards its carryover and its Subjects.
//
// The package knows neither which keys there are nor how rules match them.
package holding
