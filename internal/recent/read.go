// SPDX-License-Identifier: Apache-2.0

package recent

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"
)

// Series returns what happened to key from since on, the oldest first. Periods in which
// nothing happened are left out.
func (r *Recorder) Series(key string, since time.Time) []Point {
	r.mu.Lock()
	defer r.mu.Unlock()

	s := r.keys[key]
	if s == nil {
		return nil
	}
	var points []Point
	s.since(since.Unix(), func(p Point) { points = append(points, p) })
	return points
}

// Amount returns how many tokens of key were allowed and rejected from since on, and before until.
func (r *Recorder) Amount(key string, since, until time.Time) (allowed, rejected float64) {
	r.Amounts(since, until, func(of Amounts) { allowed, rejected = of(key) })
	return allowed, rejected
}

// Amounts returns how many tokens of a key were allowed and rejected in a time.
type Amounts func(key string) (allowed, rejected float64)

// Amounts calls f with the amounts from since on, and before until. It is fastest for keys in the order in which a Step
// gives them. f must not use r otherwise.
func (r *Recorder) Amounts(since, until time.Time, f func(of Amounts)) {
	r.mu.Lock()
	defer r.mu.Unlock()

	from, to := since.Unix(), until.Unix()
	next := 0 // of order
	f(func(key string) (allowed, rejected float64) {
		var s *series
		if next < len(r.order) && r.order[next].key == key {
			s = r.order[next].of
		} else {
			s = r.keys[key]
		}
		next++
		if s != nil {
			s.since(from, func(p Point) {
				if p.Second >= from && p.Second < to {
					allowed += p.Allowed
					rejected += p.Reject
				}
			})
		}
		return allowed, rejected
	})
}

// since calls f with what happened from a second on, the oldest first.
func (s *series) since(from int64, f func(Point)) {
	first := sort.Search(len(s.samples), func(i int) bool { return int64(s.samples[i].second)+slot > from })
	for _, p := range s.samples[first:] {
		second, length := int64(p.second), int64(1)
		if second < s.merged {
			length = slot
		}
		if second+length > from {
			f(Point{second, length, float64(p.allowed), float64(p.rejected), float64(p.costly)})
		}
	}
}

// Total is what happened to a key during what is remembered.
type Total struct {
	Key      string  `json:"key"`
	Allowed  float64 `json:"allowed"`
	Rejected float64 `json:"rejected"`
}

// Totals returns the n keys that were used most.
func (r *Recorder) Totals(n int) []Total {
	r.mu.Lock()
	defer r.mu.Unlock()

	var all []Total
	for key, s := range r.keys {
		t := Total{Key: key}
		for _, p := range s.samples {
			t.Allowed += float64(p.allowed)
			t.Rejected += float64(p.rejected)
		}
		if t.Allowed+t.Rejected > 0 {
			all = append(all, t)
		}
	}
	return largest(all, n)
}

// Largest returns the n keys of sums that were used most.
func Largest(sums map[string]Total, n int) []Total {
	return largest(slices.Collect(maps.Values(sums)), n)
}

func largest(all []Total, n int) []Total {
	slices.SortFunc(all, func(a, b Total) int {
		return cmp.Or(cmp.Compare(b.Allowed+b.Rejected, a.Allowed+a.Rejected), strings.Compare(a.Key, b.Key))
	})
	return all[:min(n, len(all))]
}

// Since is when r began to remember, at most an hour ago.
func (r *Recorder) Since() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Unix(max(r.began, r.last-whole), 0)
}

// Sum adds up what several hosts remember of one key. The periods of the sum are those of
// the host with the longest at that time.
func Sum(hosts ...[]Point) []Point {
	slots := make(map[int64]bool) // that some host has as one
	for _, points := range hosts {
		for _, p := range points {
			if p.Length > 1 {
				slots[p.Second] = true
			}
		}
	}
	sums := make(map[int64]Point)
	for _, points := range hosts {
		for _, p := range points {
			at := p.Second - p.Second%slot
			if !slots[at] {
				at = p.Second
			}
			s := sums[at]
			s.Second, s.Length = at, 1
			if slots[at] {
				s.Length = slot
			}
			s.Allowed += p.Allowed
			s.Reject += p.Reject
			s.Costly += p.Costly
			sums[at] = s
		}
	}
	all := make([]Point, 0, len(sums))
	for _, p := range sums {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Point) int { return cmp.Compare(a.Second, b.Second) })
	return all
}
