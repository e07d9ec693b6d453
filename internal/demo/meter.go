// SPDX-License-Identifier: Apache-2.0

package demo

import "time"

// reading is the state of all counters at one moment. Rates are differences
// of two readings.
type reading struct {
	at       time.Time
	sent     []int64   // per host
	admitted [][]int64 // per series, per host
}

// meter makes running totals of counters that begin anew with a host.
type meter struct {
	series []series
	raw    [][]int64 // as last seen, per series, per host
	total  [][]int64
}

func newMeter(all []series, hosts int) *meter {
	m := &meter{series: all, raw: make([][]int64, len(all)), total: make([][]int64, len(all))}
	for i := range all {
		m.raw[i], m.total[i] = make([]int64, hosts), make([]int64, hosts)
	}
	return m
}

// note takes in that series s of a host has counted allowed. A count that
// went down began anew.
func (m *meter) note(s, host int, allowed int64) {
	grown := allowed - m.raw[s][host]
	if grown < 0 {
		grown = allowed
	}
	m.raw[s][host] = allowed
	m.total[s][host] += grown
}

// admitted is a copy of the totals.
func (m *meter) admitted() [][]int64 {
	all := make([][]int64, len(m.total))
	for i, t := range m.total {
		all[i] = append([]int64(nil), t...)
	}
	return all
}

// rates are events/s between two readings.
type rates struct {
	offered  []float64   // per host
	admitted [][]float64 // per series, per host
}

// rates from r to later; zeros when no time is between.
func (r reading) rates(later reading) rates {
	elapsed := later.at.Sub(r.at).Seconds()
	per := func(before, after []int64) []float64 {
		all := make([]float64, len(after))
		for i := range after {
			if elapsed > 0 {
				all[i] = float64(after[i]-before[i]) / elapsed
			}
		}
		return all
	}
	out := rates{offered: per(r.sent, later.sent)}
	for i := range later.admitted {
		out.admitted = append(out.admitted, per(r.admitted[i], later.admitted[i]))
	}
	return out
}

func sum(all []float64) float64 {
	total := 0.0
	for _, f := range all {
		total += f
	}
	return total
}

// results are the measurements of a window.
func (r rates) results(limit float64, all []series) []Measurement {
	var out []Measurement
	for i, s := range all {
		out = append(out, measurement(s.algorithm, limit, sum(r.offered), sum(r.admitted[i])))
	}
	return out
}
