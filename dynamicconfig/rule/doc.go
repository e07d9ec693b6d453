// SPDX-License-Identifier: Apache-2.0

// Package rule says what a configuration can state: rules that give keys their limits, overrides
// that change a limit for a time, the cluster's own properties, and what each algorithm needs.
//
//	r := rule.Rule{Key: "frontend:*", Limit: 100}
//	o := rule.Override{Key: "frontend:*", Factor: 2}
//	o.On(&r).Amount() // "200/s"
//
// Package dynamicconfig has the same types under their own names, so that most programs import
// only that.
//
// Out of scope: reading and checking a configuration, and finding the rule of a key.
package rule
