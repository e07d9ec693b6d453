// SPDX-License-Identifier: Apache-2.0

package rowset

import (
	"maps"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// Against a map, for any history.
func TestASetIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Set[int]
		want := make(map[uint32]int)
		numbers := make(map[uint32]int32)
		// Few hosts, hosts in a row, and hosts that meet in small tables.
		host := rapid.OneOf(rapid.Uint32Range(0, 5), rapid.Uint32Range(100, 160), rapid.SampledFrom([]uint32{0, 16, 32, 48, 64, 1 << 31, 1<<32 - 1}))
		for step := range rapid.IntRange(1, 400).Draw(t, "steps") {
			h := host.Draw(t, "host")
			i := s.Find(h)
			if _, ok := want[h]; ok != (i != None) || ok && i != numbers[h] {
				t.Fatalf("step %d: host %d found at %d, was added: %v, at %d", step, h, i, ok, numbers[h])
			}
			for guess := int32(-1); guess <= int32(len(s.rows)); guess++ {
				if s.FindAt(guess, h) != i {
					t.Fatalf("step %d: host %d is number %d, and %d when %d is guessed", step, h, i, s.FindAt(guess, h), guess)
				}
			}
			if i == None {
				i = s.Add(h)
				*s.At(i), want[h], numbers[h] = step, step, i
			} else if rapid.Bool().Draw(t, "remove") {
				s.Remove(i)
				delete(want, h)
			}
			if s.Len() != len(want) {
				t.Fatalf("step %d: Len() = %d, want %d", step, s.Len(), len(want))
			}
		}
		got := make(map[uint32]int)
		for i := range s.All {
			got[s.Host(i)] = *s.At(i)
		}
		if !maps.Equal(got, want) {
			t.Fatalf("has %v, want %v", got, want)
		}
	})
}

func TestAllMayRemove(t *testing.T) {
	var s Set[struct{}]
	for h := range uint32(50) {
		s.Add(h)
	}
	for i := range s.All {
		s.Remove(i)
	}
	if s.Len() != 0 || s.Find(7) != None {
		t.Errorf("%d left", s.Len())
	}
}

func TestRowsAreCompact(t *testing.T) {
	var s Set[[4]uint64]
	const hosts = 1000
	for h := range uint32(hosts) {
		s.Add(h)
	}
	each := float64(cap(s.rows)*int(unsafe.Sizeof(s.rows[0]))+4*len(s.index))/hosts - float64(unsafe.Sizeof([4]uint64{}))
	if each > 8+4+8 { // host and flag, index, room to grow
		t.Errorf("%.1f bytes beside each row", each)
	}
}

// To find a host that is not there, and to remove one, takes a look at a run of slots that are in use. With 10,000
// hosts of a key, a run is no longer than with some hundred, whichever hosts of a cluster they are.
func TestRunsOfTheIndexAreShort(t *testing.T) {
	for name, host := range map[string]func(i int) uint32{
		"all hosts":    func(i int) uint32 { return uint32(i) },
		"later hosts":  func(i int) uint32 { return uint32(50_000 + i) },
		"every second": func(i int) uint32 { return uint32(2 * i) },
		"every 16th":   func(i int) uint32 { return uint32(16 * i) },
		"some hosts":   func(i int) uint32 { return uint32(3*i + i*i%3) },
		"two zones":    func(i int) uint32 { return uint32(i + i%2<<14) },
	} {
		longest, at := 0, 0
		var s Set[struct{}]
		for i := range 30_000 {
			s.Add(host(i))
			if i%997 != 0 || s.index == nil {
				continue
			}
			run := 0
			for twice := range 2 * len(s.index) { // a run may begin at the end
				if run++; s.index[twice%len(s.index)] == 0 {
					run = 0
				}
				if run > longest {
					longest, at = run, i
				}
			}
		}
		if longest > 500 {
			t.Errorf("%s: of %d, %d are in one run", name, at, longest)
		}
	}
}
