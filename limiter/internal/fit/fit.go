// SPDX-License-Identifier: Apache-2.0

// Package fit frees the memory of slices that were much longer before. It does not know what is in
// them, and keeps no state.
package fit

// Slice returns s. If s has room for many more elements than it has, Slice returns a copy with
// less room.
func Slice[E any](s []E) []E {
	if cap(s) > 1024 && len(s) < cap(s)/8 {
		return append(make([]E, 0, 2*len(s)), s...)
	}
	return s
}
