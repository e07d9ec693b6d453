// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
)

// results are all values of a run, by benchmark and unit.
type results struct {
	cpu   string
	names []string // without by=, in the order in which they first came
	by    map[string][]string
	value map[cell][]float64
}

// cell names one thing that was measured: a benchmark without its by=, whose
// code ran, and the unit.
type cell struct{ name, by, unit string }

// read takes in the output of go test -bench. What was measured for several
// keys at a time comes out per key.
func read(output io.Reader) (*results, error) {
	r := &results{by: make(map[string][]string), value: make(map[cell][]float64)}
	in := benchfmt.NewReader(output, "output")
	for in.Scan() {
		switch record := in.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, record
		case *benchfmt.Result:
			r.cpu = record.GetConfig("cpu")
			r.add(record)
		}
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	if len(r.names) == 0 {
		return nil, fmt.Errorf("nothing was measured")
	}
	return r, nil
}

// processors is what testing puts behind a name.
var processors = regexp.MustCompile(`-\d+$`)

func (r *results) add(record *benchfmt.Result) {
	name, by, _ := strings.Cut(processors.ReplaceAllString(string(record.Name), ""), "/by=")
	if r.by[name] == nil {
		r.names = append(r.names, name)
	}
	known := false
	for _, other := range r.by[name] {
		known = known || other == by
	}
	if !known {
		r.by[name] = append(r.by[name], by)
	}
	keys, perKey := record.Value("keys/op")
	for _, v := range record.Values {
		value, unit := v.Value, v.Unit
		if v.OrigUnit != "" {
			value, unit = v.OrigValue, v.OrigUnit
		}
		if per, ok := strings.CutSuffix(unit, "/op"); ok && perKey {
			value, unit = value/keys, per+"/key"
		}
		at := cell{name, by, unit}
		r.value[at] = append(r.value[at], value)
	}
}

// sample is what was measured in a cell; nil if nothing was.
func (r *results) sample(at cell) *benchmath.Sample {
	values := r.value[at]
	if len(values) == 0 {
		return nil
	}
	return benchmath.NewSample(append([]float64(nil), values...), &benchmath.DefaultThresholds)
}

// median is a cell's, and its bounds; false if nothing was measured.
func (r *results) median(at cell) (benchmath.Summary, bool) {
	s := r.sample(at)
	if s == nil {
		return benchmath.Summary{}, false
	}
	return benchmath.AssumeNothing.Summary(s, 0.95), true
}
