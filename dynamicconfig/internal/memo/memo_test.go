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
