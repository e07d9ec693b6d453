// SPDX-License-Identifier: Apache-2.0

// Package scenario reads what is written about a simulated cluster: hosts,
// limits, traffic, and what goes wrong when.
//
//	sc, err := scenario.Load("cron")          // one that comes with headgate
//	sc, err := scenario.Load("./mine.yaml")   // or one in a file
//
// The format is in docs/scenarios.md. The parser is strict, and an error names
// file, line and column. The package does not know what a run does with a
// scenario (package world).
package scenario
