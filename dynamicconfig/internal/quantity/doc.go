// SPDX-License-Identifier: Apache-2.0

// Package quantity reads and writes numbers with units as config files have them: limits per
// second, minute, hour or day, slots in flight, durations with days, and percentages.
//
//	limit, err := quantity.ParseLimit("5/m") // events/s
//	quantity.Duration(48 * time.Hour)        // "2d"
//
// It reads each number that it writes as the same number. Its errors say what to write instead.
//
// Out of scope: which numbers are possible for which field.
package quantity
