// SPDX-License-Identifier: Apache-2.0

// Package roster decides which members are on the ring here, from what is
// seen of each: it comes, it does not answer, it leaves. A member that comes
// and goes too often must wait. A host that loses all others at once
// takes itself for the one that is cut off, and keeps its ring.
//
// A Roster is arithmetic: the time is an argument. A Board is a Roster with
// a lock, a clock, a log, and those who watch it.
//
// The package does not know how members are found or asked.
package roster
