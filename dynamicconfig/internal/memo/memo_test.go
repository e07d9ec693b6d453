// SPDX-License-Identifier: Apache-2.0

package memo

import (
	"runtime"
	"testing"
)

func TestFindsTheNewestThatAreInUse(t *testing.T) {
	var m Memo[int]
	all := make([]*int, size+1)
	for i := range all {
		all[i] = new(int)
		*all[i] = i
		m.Add(all[i])
	}
	for i, want := range all {
		if i == 0 {
			want = nil
		}
		if got := m.Find(func(n *int) bool { return *n == i }); got != want {
			t.Errorf("number %d is found at %p, and is at %p", i, got, want)
		}
	}
	for of, want := range map[int]int{0: 1, 3: 3, 9: size} {
		if got := m.Nearest(func(n *int) int { return max(*n-of, of-*n) }); *got != want {
			t.Errorf("number %d is the nearest to %d", *got, of)
		}
	}
	if got := m.Nearest(func(*int) int { return 7 }); *got != size {
		t.Errorf("number %d is the newest of those that are as near", *got)
	}
	runtime.KeepAlive(all)
}

func TestKeepsNothingInMemory(t *testing.T) {
	var m Memo[[1 << 10]int]
	m.Add(new([1 << 10]int))
	runtime.GC()
	if m.Find(func(*[1 << 10]int) bool { return true }) != nil {
		t.Error("what nobody uses any more is found")
	}
}
