// SPDX-License-Identifier: Apache-2.0

// Package glob matches keys with patterns, and finds the first of many patterns that matches
// a key.
//
//	g, err := glob.Compile("frontend:*")
//	g.Match("frontend:orders")
//
//	var x glob.Index
//	x.Add(0, g)
//	x.Finish()
//	x.Find("frontend:orders") // 0
//
// Out of scope: rules. An Index knows a rule by its number only.
package glob
