// SPDX-License-Identifier: Apache-2.0

// Package adminclient calls a decider at its address for operators, --admin.
//
//	var a adminclient.Decider
//	a.Flags(cmd.Flags())
//	…
//	return a.Use(cmd, func(ctx context.Context, c *adminclient.Client) error {
//		return c.Ask(ctx, http.MethodGet, "/v1/keys", "", &page)
//	})
//
// Store is the decider's database of limits, with the methods that any such database has.
//
// Out of scope: what commands ask, and how they print the answers.
package adminclient
