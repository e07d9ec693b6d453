// SPDX-License-Identifier: Apache-2.0

// Package conformance tests that a limit means the same by every way into headgate, under
// every algorithm. Its test writes the table of docs/conformance.md.
//
// Out of scope: how well algorithms share a limit among hosts, which internal/sim
// measures.
package conformance
