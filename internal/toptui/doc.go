// SPDX-License-Identifier: Apache-2.0

// Package toptui shows the keys and the hosts of a cluster live in a terminal: who uses what,
// what is refused, and what happened during the last minute.
//
//	err := toptui.Run(ctx, source, toptui.Config{Interval: 2 * time.Second, Keys: 200})
//
// A Source asks one decider. If the decider does not answer, the view keeps the last Picture, says
// of when it is, and asks again. Print prints a Picture once, as text.
//
// The view is a function of the messages that came and of the terminal's size, so it is tested as
// text. It is legible without colour. Names that strangers chose are printed safely.
//
// Out of scope: how a decider is asked (cmd/headgate/internal/inspect), and what it answers (internal/admin/api).
package toptui
