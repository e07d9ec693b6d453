// SPDX-License-Identifier: Apache-2.0

// Package demand estimates how many events/s a host wants of a key from what it counts.
//
//	var d demand.Estimate
//	if d.Tick(events, 0.2) { // every 200 ms
//		// the demand has changed by more than chance explains: report it
//	}
//	wants, _ := d.Report(sinceTick, dt, sinceReport, period, 1)
//
// The package is arithmetic. It knows no keys, tokens, grants or clocks, and nothing
// of when reports are sent.
package demand
