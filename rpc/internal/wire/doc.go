// SPDX-License-Identifier: Apache-2.0

// Package wire reads and writes the messages of headgatepb without making
// them: columns and rows of numbers go straight between slices and bytes.
//
//	e := wire.NewEncoder()
//	e.Keys(3, 4, len(rows), func(i int) string { return rows[i].Key })
//	e.Varints(5, len(rows), func(i int) uint64 { return rows[i].Used })
//	payload := e.Payload(typeURL)
//
// A Row checks the values of one row. Fields with unknown numbers are skipped,
// as are known ones of another kind.
//
// The package knows the encoding of protobuf, and no message.
package wire
