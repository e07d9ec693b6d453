// SPDX-License-Identifier: Apache-2.0

// Package conformance has only tests: they hold every algorithm, through every way in,
// to the same meaning of a charge, a wait, a refund and of what is left. They run a
// cluster in a bubble of testing/synctest, and write docs/conformance.md:
//
//	go test ./internal/conformance -update
//
// Out of scope: how well an algorithm uses a limit (the simulator), and what a protocol
// says about each field (the tests of its package).
package conformance
