// SPDX-License-Identifier: Apache-2.0

// Package fit gives memory of slices back.
package fit

// Slice is s without the room of a time when there were many more.
func Slice[E any](s []E) []E {
	if cap(s) > 1024 && len(s) < cap(s)/8 {
		return append(make([]E, 0, 2*len(s)), s...)
	}
	return s
}
