// SPDX-License-Identifier: Apache-2.0

// Package simplot draws what a simulated cluster did.
//
//	events/s  ▓▓▓▓ offered   ▒▒▒▒ the perfect bucket   ── admitted   ╌╌ limit
//	          ┊ marks
//	part of   ████ host 3 ▓▓▓▓ host 1 ░░░░ the others: where the limit was
//	the limit
//
// Each result has a panel per key, and all panels have the same scales:
//
//	r, err := world.Options{Seed: 1, Weights: true}.Run(ctx, sc)
//	err = simplot.Save("crowd.svg", sc, []*measure.Result{r})
//
// SaveTradeoffs draws what algorithms rejected above what they paid, a panel for
// each scenario.
//
// The same results make the same bytes. Out of scope: anything that moves.
package simplot
