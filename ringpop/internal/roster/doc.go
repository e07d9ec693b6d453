// SPDX-License-Identifier: Apache-2.0

// Package roster decides which members are on the ring here, from what is
// seen of each: it comes, it does not answer, it leaves. A member that comes
// and goes too often must wait. A host that loses more deciders at once than
// it still reaches takes itself for one on the smaller side of a split, and
// says how many are missing.
//
// A roster is arithmetic: the time is an argument. A Board is a roster with
// a lock, a clock, a log, and those who watch it.
//
// The package does not know how members are found or asked.
package roster
