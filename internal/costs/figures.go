// SPDX-License-Identifier: Apache-2.0

package costs

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Kind says what a figure counts.
type Kind string

// The kinds, as they are named in the file.
const (
	Allocs       Kind = "allocs"
	Bytes        Kind = "bytes"
	Wire         Kind = "wire"
	Heap         Kind = "heap"
	Instructions Kind = "instructions"
)

// Kinds has all kinds, in the order of the file's columns.
var Kinds = []Kind{Allocs, Bytes, Wire, Heap, Instructions}

// Tolerance is by which part a figure may differ; 0 for not at all.
func (k Kind) Tolerance() float64 {
	switch k {
	case Bytes, Heap, Instructions:
		return 0.03
	default:
		return 0
	}
}

// Figures are what one operation costs per unit, by what was measured.
type Figures map[Kind]float64

// Compare says what differs between what is written about an operation and
// what was measured, a sentence for each figure. Kinds in skip are not looked
// at.
func Compare(operation string, want, got Figures, skip ...Kind) []string {
	if want == nil {
		return []string{operation + ": the file does not have it"}
	}
	var differences []string
	for _, k := range Kinds {
		if slices.Contains(skip, k) {
			continue
		}
		w, wanted := want[k]
		g, measured := got[k]
		switch {
		case !wanted && !measured:
		case !wanted:
			differences = append(differences, fmt.Sprintf("%s: %s are measured (%s) and not in the file", operation, k, format(g)))
		case !measured:
			differences = append(differences, fmt.Sprintf("%s: %s are in the file (%s) and not measured", operation, k, format(w)))
		default:
			if d := difference(k, w, g); d != "" {
				differences = append(differences, operation+": "+d)
			}
		}
	}
	return differences
}

// difference is "" within the tolerance.
func difference(k Kind, want, got float64) string {
	want, got = round(want), round(got)
	if math.Abs(got-want) <= k.Tolerance()*want {
		return ""
	}
	how := "WORSE"
	if got < want {
		how = "better"
	}
	part := ""
	if want != 0 {
		part = fmt.Sprintf(", %+.3g%%", 100*(got-want)/want)
	}
	allowed := "none is allowed"
	if t := k.Tolerance(); t > 0 {
		allowed = fmt.Sprintf("%v%% is allowed", 100*t)
	}
	return fmt.Sprintf("%s: %s, %s to %s%s (%s)", how, k, format(want), format(got), part, allowed)
}

// Median is the median of each kind, over measurements of one operation.
func Median(measured []Figures) Figures {
	m := make(Figures)
	for _, k := range Kinds {
		var values []float64
		for _, f := range measured {
			if v, ok := f[k]; ok {
				values = append(values, v)
			}
		}
		if len(values) > 0 {
			slices.SortFunc(values, cmp.Compare)
			m[k] = values[len(values)/2]
		}
	}
	return m
}
