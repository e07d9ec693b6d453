// SPDX-License-Identifier: Apache-2.0

// Package edit changes one rule or one override in the text of a config file, and keeps
// the rest of the text as its author wrote it: comments, order, quotes and layout.
//
//	text, err := edit.Set(text, "frontend:orders",
//		edit.Field{Name: "limit", Value: "200/s"},
//		edit.Field{Name: "burst"}, // remove the field
//	)
//	text, err = edit.Remove(text, "batch:*")
//
// Each result is parsed before it is returned. So it is a valid config file, and it
// differs in meaning from the text before in that one rule, or in overrides, only.
//
// Out of scope: defaults, what happens to unmatched keys, and properties.
package edit
