// SPDX-License-Identifier: Apache-2.0

// Package doormanconfig turns the resource config of Doorman, Google's
// cooperative rate limiter, into a limits file:
//
//	data, err := os.ReadFile("resources.yaml")
//	limits, err := doormanconfig.Import("resources.yaml", data)
//	snapshot, err := dynamicconfig.Parse("limits.yaml", limits)
//
// What is read:
//
//	resources:
//	  - identifier_glob: "db-*"      # the first that matches, an equal one before all
//	    capacity: 100
//	    safe_capacity: 5             # optional; 0: nothing, -1: everything
//	    description: text            # optional
//	    algorithm:                   # optional: that of "*"
//	      kind: FAIR_SHARE           # or NO_ALGORITHM, STATIC, PROPORTIONAL_SHARE
//	      lease_length: 60           # seconds
//	      refresh_interval: 16       # seconds
//	      learning_mode_duration: 30 # seconds, optional: lease_length; 0 or less: none
//	      parameters: [{name: n, value: v}]
//	  - identifier_glob: "*"         # last, and with an algorithm
//
// Each resource becomes a rule that gives the same keys the same capacity in
// the same way: whatever the priority, and decided anew at each request. What cannot be carried over is a comment in the result; what
// Doorman itself would refuse, and any field that it does not have, is an
// error.
//
// In Doorman's globs `*` and `?` do not match `/`; in ours they do. Rules are
// put in an order in which this makes no difference: a glob with more slashes
// before those with fewer. Only names that match nothing in Doorman, because
// of their slashes, match here.
//
// A name that equals a glob with one of `*?[\` in it gets the resource of that glob in
// Doorman. Here it gets the first whose glob matches, as other names do.
//
// Out of scope: Doorman's protocol, which rpc/edge/doorman speaks.
package doormanconfig
