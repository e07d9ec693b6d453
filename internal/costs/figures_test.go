// SPDX-License-Identifier: Apache-2.0

package costs

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	file := Figures{Allocs: 0.0003, Wire: 31, Heap: 200, Instructions: 400}
	with := func(k Kind, v float64) Figures {
		f := maps.Clone(file)
		f[k] = v
		return f
	}
	without := func(k Kind) Figures {
		f := maps.Clone(file)
		delete(f, k)
		return f
	}
	for _, tc := range []struct {
		name      string
		want, got Figures
		skip      []Kind
		said      []string // nil: nothing
	}{
		{"the same", file, file, nil, nil},
		{"an allocation more in thousands", file, with(Allocs, 0.0004), nil, []string{"WORSE: allocs", "0.0003 to 0.0004", "none is allowed"}},
		{"an allocation where there was none", with(Allocs, 0), with(Allocs, 1), nil, []string{"WORSE: allocs", "0 to 1 (none"}},
		{"a byte more on the wire", file, with(Wire, 31.0001), nil, []string{"WORSE: wire"}},
		{"what the file's digits do not show", file, with(Wire, 31.00001), nil, nil},
		{"instructions within the tolerance", file, with(Instructions, 412), nil, nil},
		{"instructions beyond it", file, with(Instructions, 413), nil, []string{"WORSE: instructions", "400 to 413, +3.25% (3% is allowed)"}},
		{"instructions saved within the tolerance", file, with(Instructions, 388), nil, nil},
		{"instructions saved", file, with(Instructions, 300), nil, []string{"better: instructions", "-25%"}},
		{"instructions that are not compared", file, with(Instructions, 500), []Kind{Instructions}, nil},
		{"more heap, with instructions skipped", file, with(Heap, 210), []Kind{Instructions}, []string{"WORSE: heap", "+5%"}},
		{"not measured any more", file, without(Heap), nil, []string{"heap are in the file (200) and not measured"}},
		{"measured for the first time", without(Heap), file, nil, []string{"heap are measured (200) and not in the file"}},
		{"a new operation", nil, file, nil, []string{"op: the file does not have it"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Compare("op", tc.want, tc.got, tc.skip...)
			if tc.said == nil && len(got) > 0 || tc.said != nil && len(got) != 1 {
				t.Fatalf("%q", got)
			}
			for _, s := range tc.said {
				if !strings.Contains(got[0], s) {
					t.Errorf("%q does not say %q", got[0], s)
				}
			}
		})
	}
}

func TestMedianOfEachKind(t *testing.T) {
	m := Median([]Figures{{Heap: 3, Instructions: 10}, {Heap: 1, Instructions: 30}, {Heap: 2, Instructions: 20}})
	if !maps.Equal(m, Figures{Heap: 2, Instructions: 20}) {
		t.Error(m)
	}
}

func TestGoldenIsReadAsItWasWritten(t *testing.T) {
	golden := &Golden{Counted: "go1.0 plan9/mips", Operations: []Operation{
		{"allow", "call", Figures{Allocs: 0, Bytes: 0, Instructions: 123.4}},
		{"encode", "key", Figures{Allocs: 0.0002, Wire: 31.25}},
		{"memory", "key", Figures{Heap: 1.5e6}},
	}}
	var text strings.Builder
	if _, err := golden.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	got, err := ReadGolden(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	same := slices.EqualFunc(got.Operations, golden.Operations, func(a, b Operation) bool {
		return a.Name == b.Name && a.Per == b.Per && maps.Equal(a.Figures, b.Figures)
	})
	if got.Counted != golden.Counted || !same {
		t.Errorf("%+v\nfrom\n%s", got, text.String())
	}
}

func TestGoldenSaysWhichLineIsBroken(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"# x\nallow call 1 2 3\n", "line 2: 5 fields"},
		{"allow call 1 2 3 4 many\n", "line 1: instructions:"},
		{"allow call 1 - - - -\nallow call 2 - - - -\n", "line 2: allow stands twice"},
	} {
		if _, err := ReadGolden(strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, want %q", tc.text, err, tc.want)
		}
	}
}

func TestAnUpdateKeepsWhatHolds(t *testing.T) {
	for _, tc := range []struct {
		name                string
		file, measured, out Figures
		skip                []Kind
	}{
		{"within the tolerance", Figures{Instructions: 400}, Figures{Instructions: 410}, Figures{Instructions: 400}, nil},
		{"beyond it", Figures{Instructions: 400}, Figures{Instructions: 420}, Figures{Instructions: 420}, nil},
		{"new", nil, Figures{Heap: 7}, Figures{Heap: 7}, nil},
		{"gone", Figures{Heap: 7, Wire: 1}, Figures{Wire: 1}, Figures{Wire: 1}, nil},
		{"not counted here", Figures{Instructions: 400, Wire: 1}, Figures{Wire: 2}, Figures{Instructions: 400, Wire: 2}, []Kind{Instructions}},
	} {
		if got := merge(tc.file, tc.measured, tc.skip); !maps.Equal(got, tc.out) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.out)
		}
	}
}
