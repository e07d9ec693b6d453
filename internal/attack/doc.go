// SPDX-License-Identifier: Apache-2.0

// Package attack has only tests: they start `headgate serve` and do to each of its
// listeners what hostile clients do, at the same time, while honest ones go on.
//
//	HEADGATE_LONG=1 go test ./internal/attack -v
//
// is the long form, with 10,000 connections and a million keys. docs/edges.md has
// the bounds. Out of scope: what is decided, which is for the tests of packages.
package attack
