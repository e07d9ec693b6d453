// SPDX-License-Identifier: Apache-2.0

// Package topkeys finds the few keys of one host that an operator should look at: those that are
// used most, rejected most, nearest to their limit, and least evenly used over the hosts.
//
//	w := topkeys.New(10)
//	w.Step(time.Second, counts) // once a second, with what happened to each key
//	names := w.Keys()           // at most 40
//
// A Sketch for each of the four remembers a bounded number of keys, however many there are. A
// key that nothing happens to leaves after a while.
//
// Out of scope: where counts come from, and what is shown of the keys. One lock guards a Watch; a
// Sketch has none.
package topkeys
