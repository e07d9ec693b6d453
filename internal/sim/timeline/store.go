// SPDX-License-Identifier: Apache-2.0

package timeline

// Store keeps what events refer to by number. The zero Store is empty.
type Store[T any] struct {
	kept []T
	free []int32
}

// Keep stores v for the event that has its number.
func (s *Store[T]) Keep(v T) int32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		s.kept[i] = v
		return i
	}
	s.kept = append(s.kept, v)
	return int32(len(s.kept) - 1)
}

// Fetch gives back what has a number, and keeps it no longer.
func (s *Store[T]) Fetch(ref int32) T {
	var none T
	v := s.kept[ref]
	s.kept[ref] = none
	s.free = append(s.free, ref)
	return v
}
