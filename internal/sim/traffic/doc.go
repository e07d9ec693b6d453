// SPDX-License-Identifier: Apache-2.0

// Package traffic generates events on virtual time, or reads them from a trace:
// rates that change, bursts, and their chance.
//
//	r := traffic.Chance(seed, "stream", host)
//	rates := traffic.Sine{Mean: 60, Amplitude: 50, Period: 40 * time.Second}.Segments(r)
//	rate, until := rates(0) // events/s from time 0 on, and when that changes
//
// The same seed gives the same events. The package does not know hosts, limits
// or how any of it is written in a file.
package traffic
