// SPDX-License-Identifier: Apache-2.0

// Package nodeload measures what headgate costs: one whole node in its own
// process among many hosts.
//
//	this process                         the process under test
//	49 peers ── usage of its keys ─────▶ one headgate.Node: an owner
//	         ◀─ grants ─────────────────
//	         ◀─ usage of their keys ──── and a host with 100,000 keys in use
//	         ── grants ────────────────▶
//
// The peers are real nodes too, all in this process. They use the keys that the node under
// test owns, and no others.
//
//	result, err := nodeload.Run(ctx, nodeload.Config{}, func(ctx context.Context) *exec.Cmd {
//		return exec.CommandContext(ctx, program, "node") // which calls nodeload.Serve
//	})
//	result.WriteTable(os.Stdout)
//
// Command scale below is that program, and writes the tables of docs/scale.md. What the
// parts of a node cost is measured in growth below, and what asking an owner takes in asks.
// Out of scope: comparing with other limiters, and how exact the limits are.
package nodeload
