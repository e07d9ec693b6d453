// SPDX-License-Identifier: Apache-2.0

// Package tui shows the demo live in a terminal.
//
//	┌ what goes on, in words              0:12 of 1:00 ┐
//	│ a row per host: rates, weight, state, bar        │
//	│ a bar per algorithm, and its last minute         │
//	└ phases, newest warning                           ┘
//
// Run plays the demo beside the view and ends when it ends, or when q, Esc or
// Ctrl-C is pressed:
//
//	result, err := tui.Run(ctx, func(ctx context.Context, watch func(demo.Frame)) (demo.Result, error) {
//		return demo.Run(ctx, config, watch)
//	})
//
// The view is a function of one Frame and the terminal's size, so it is
// tested as text. It is legible without colour, and takes dark or light
// colours by the terminal's background. Out of scope: terminals that cannot
// move the cursor; see demo.Plain.
package tui
