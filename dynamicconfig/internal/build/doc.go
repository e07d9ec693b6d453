// SPDX-License-Identifier: Apache-2.0

// Package build makes the content of a configuration out of what was stated: it checks each entry,
// fills in defaults, and refuses what does not fit together.
//
//	b := build.New(problems)
//	b.Properties(p, nil)
//	b.Defaults(build.Stated("defaults", defaults))
//	b.Rule(build.Stated("rule number 1", r))
//	content := b.Finish() // of use if problems has none
//
// The order matters: properties, defaults, rules, then the rest.
//
// Out of scope: the text of a config file, and which algorithms a process has.
package build
