// SPDX-License-Identifier: Apache-2.0

package topkeys

import (
	"math"
	"slices"
	"sync"
	"time"
)

const (
	// half is after how long half of what happened is forgotten.
	half = 15 * time.Second
	// margin is how many keys a Sketch remembers for each that is asked for.
	margin = 16
	// maxRules bounds the rules that Utilization knows of.
	maxRules = 10_000
)

// Count is what happened to one key since the Step before.
type Count struct {
	Key, Rule string
	// Allowed and Rejected are in tokens.
	Allowed, Rejected float64
	// Limit is the cluster's, in tokens/s, or in slots; infinite if nothing is limited.
	Limit float64
	// InFlight: the Limit is of slots, of which this host holds Held.
	InFlight bool
	Held     float64
	// Weight is the host's part of the Limit divided by an even part; 1 where the limit is divided
	// evenly, or where that is not known.
	Weight float64
}

// Counts calls f with each key that is in use, once.
type Counts func(f func(Count))

// Watch finds keys. Use New. It is safe for concurrent use.
type Watch struct {
	keys int

	mu                       sync.Mutex // guards what follows
	use, rejects, near, skew *Sketch
	known                    map[string]*totals // of what any Sketch remembers
	rules                    map[string]*utilization
}

// totals are what was allowed and rejected of a key since a Sketch remembers it.
type totals struct {
	allowed, rejected float64
	still             bool // in this Step
}

// utilization is that of the key of a rule that is nearest to its limit.
type utilization struct {
	average float64
	now     float64 // in this Step
}

// New returns a Watch for keys keys of each kind.
func New(keys int) *Watch {
	keys = max(keys, 1)
	sketch := func() *Sketch { return NewSketch(margin * keys) }
	return &Watch{keys: keys, use: sketch(), rejects: sketch(), near: sketch(), skew: sketch(), known: make(map[string]*totals), rules: make(map[string]*utilization)}
}

// Step takes in what happened during the last elapsed time. Sums are averages per second.
func (w *Watch) Step(elapsed time.Duration, counts Counts) {
	w.mu.Lock()
	defer w.mu.Unlock()

	if elapsed <= 0 {
		return
	}
	keep := math.Exp2(-elapsed.Seconds() / half.Seconds())
	all := [...]*Sketch{w.use, w.rejects, w.near, w.skew}
	for _, s := range all {
		s.Begin(keep)
	}
	for _, r := range w.rules {
		r.now = 0
	}
	each := (1 - keep) / elapsed.Seconds()
	var rule string // of the key before, as keys of one rule are often most
	var of *utilization
	counts(func(c Count) {
		used, sum := c.utilization(elapsed), (c.Allowed+c.Rejected)*each
		if used == 0 && sum == 0 {
			return
		}
		adds := [...]float64{sum, c.Rejected * each, used * (1 - keep), math.Abs(c.Weight-1) * sum}
		if total := w.known[c.Key]; total != nil {
			total.allowed += c.Allowed
			total.rejected += c.Rejected
			for i, s := range all {
				s.Add(c.Key, adds[i])
			}
		} else {
			for i, s := range all {
				s.addNew(c.Key, adds[i])
			}
		}
		if of == nil || c.Rule != rule {
			rule, of = c.Rule, w.ruleLocked(c.Rule)
		}
		of.now = max(of.now, used)
	})
	for _, s := range all {
		s.End()
		for _, e := range s.kept {
			if w.known[e.Key] == nil {
				w.known[e.Key] = new(totals)
			}
			w.known[e.Key].still = true
		}
	}
	for key, total := range w.known {
		if !total.still {
			delete(w.known, key)
		}
		total.still = false
	}
	for rule, r := range w.rules {
		if r.average = r.average*keep + r.now*(1-keep); r.average < negligible {
			delete(w.rules, rule)
		}
	}
}

// ruleLocked is what is known of a rule. Beyond maxRules, it is forgotten at once.
func (w *Watch) ruleLocked(rule string) *utilization {
	r := w.rules[rule]
	if r == nil {
		r = new(utilization)
		if len(w.rules) < maxRules {
			w.rules[rule] = r
		}
	}
	return r
}

// utilization is the part of the limit that this host used.
func (c Count) utilization(elapsed time.Duration) float64 {
	switch {
	case !(c.Limit > 0):
		return 0
	case c.InFlight:
		return c.Held / c.Limit
	default:
		return c.Allowed / elapsed.Seconds() / c.Limit
	}
}

// Keys are those that are at the top in any way, at most four times as many as New was given,
// in no order.
func (w *Watch) Keys() []string {
	w.mu.Lock()
	defer w.mu.Unlock()

	var names []string
	for _, s := range []*Sketch{w.use, w.rejects, w.near, w.skew} {
		for _, e := range s.Largest(w.keys) {
			names = append(names, e.Key)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Key is what a Watch knows of a key.
type Key struct {
	// Allowed and Rejected are in tokens since the Watch remembers the key. They never decrease.
	Allowed, Rejected float64
	// Used is which part of the limit this host has used during about the last half minute. It is
	// 0 if the key is not among those nearest to their limits.
	Used float64
}

// Key returns what is known of key, and whether it is remembered.
func (w *Watch) Key(key string) (Key, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	total := w.known[key]
	if total == nil {
		return Key{}, false
	}
	return Key{total.allowed, total.rejected, w.near.Sum(key)}, true
}

// Rule is Used of the key of a rule that is nearest to its limit.
func (w *Watch) Rule(rule string) float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rules[rule]; r != nil {
		return r.average
	}
	return 0
}
