// SPDX-License-Identifier: Apache-2.0

// Package processor says on which processor a goroutine runs, so that what all of them count need
// not be in one place. To write to a cache line that another processor has just written to costs
// more than a whole decision does. It does not know what is counted, and keeps no state.
package processor

import (
	"runtime"
	_ "unsafe" // for go:linkname
)

//go:linkname pin runtime.procPin
func pin() int

//go:linkname unpin runtime.procUnpin
func unpin()

// Number is how many there are; 1 or more. It may change.
func Number() int { return runtime.GOMAXPROCS(0) }

// Of is a number from 0 to n-1, which must be 1 or more: another one for each
// processor if there are no more than n. By the time that it is used its caller
// may run on another one, so it says what is likely fast and nothing else.
func Of(n int) int {
	p := pin()
	unpin()
	if p >= n {
		p %= n
	}
	return p
}
