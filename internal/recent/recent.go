// SPDX-License-Identifier: Apache-2.0

// Package recent remembers, in bounded memory, what the keys of one host were allowed and
// rejected during the last hour: by the second for five minutes, and by ten seconds before.
//
//	r := recent.New(recent.DefaultSamples)
//	r.Step(now, counts) // once a second, with the counters of all keys
//	points := r.Series("login:alice", now.Add(-time.Minute))
//
// It reads counters that the limiters keep anyway, so that a decision costs nothing more. A
// second in which nothing happened to a key takes no memory. When there is too much to
// remember, the keys that were used least are forgotten. The names of keys that are not in use
// any more count too, so that clients that make up keys cannot fill the memory with them.
//
// A Dry says what another limit would have rejected.
//
// Out of scope: where the counters come from, and the sum over hosts (internal/operators). One
// lock guards a Recorder.
package recent

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// What is remembered.
const (
	Hour  = time.Hour
	fine  = 300 // seconds that are remembered one by one, at least
	tidy  = 60  // seconds between looks at what is old
	slot  = 10  // seconds in a slot of those before
	whole = int64(Hour / time.Second)
)

// DefaultSamples is for New: they take 64 MiB, and for a minute a tenth more, beside about 150 bytes for each key in use.
const DefaultSamples = 4 << 20

// What counts beside samples, in samples.
const (
	sampleSize = 16
	seriesCost = 10      // of a key that is not in use any more, beside its name
	slack      = 1 << 16 // before a Step forgets what is not old: a Recorder may have few samples
)

// Counts calls add with each key that is in use, once.
type Counts func(add Add)

// Add takes in what happened to a key since it came to life, and returns what happened since the
// Step before. A Recorder keeps the strings.
type Add func(key string, counters Tokens) Tokens

// Tokens are what was allowed and rejected of a key.
type Tokens struct {
	Allowed, Rejected int64

	// Costly is how much of Rejected is of events that cost more than any may.
	Costly int64
}

// Point is what happened in a period.
type Point struct {
	Second  int64   `json:"t"` // when the period began, in Unix time
	Length  int64   `json:"s"` // in seconds: 1 or 10
	Allowed float64 `json:"a"` // in tokens
	Reject  float64 `json:"r"`
	Costly  float64 `json:"c,omitempty"` // of Reject: see Tokens
}

// Recorder remembers. Use New. It is safe for concurrent use.
type Recorder struct {
	most int // samples

	mu      sync.Mutex // guards what follows
	keys    map[string]*series
	samples int   // of all keys
	names   int   // bytes of the names of keys
	inUse   int   // bytes of the names of the keys that the newest Step gave
	began   int64 // the first Step
	last    int64 // the newest Step
	before  int64 // the Step before that
	forgets int64 // the Step in which to forget what is old

	// order is the keys as the Step before gave them, and next is where this one is: keys
	// come in the same order mostly, and then none is looked up.
	order []ordered
	next  int
}

type ordered struct {
	key string
	of  *series
}

// series is one key.
type series struct {
	counters Tokens // when they were read last
	total    int64  // of what is in samples
	samples  []sample
	merged   int64 // up to this second, samples are slots
	seen     int64 // the newest Step in which it was there
}

// sample is a second, or a slot, in which something happened: 16 bytes.
type sample struct {
	second                    uint32
	allowed, rejected, costly float32
}

// New returns a Recorder of at most samples samples. One of 0 remembers nothing but the counters,
// for what Add returns.
func New(samples int) *Recorder {
	return &Recorder{most: max(samples, 0), keys: make(map[string]*series)}
}

// Step reads the counters at now. Call it about once a second. What happened since the Step before counts as the second of now.
func (r *Recorder) Step(now time.Time, counts Counts) {
	second := now.Unix()
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.last != 0 && second <= r.last {
		second = r.last // a clock that was set back; what happens goes to the same second
	}
	first := r.last == 0
	if first {
		r.began = second
	}
	r.before, r.last = r.last, second
	r.next, r.inUse = 0, 0
	counts(func(key string, counters Tokens) Tokens { return r.count(second, key, counters, first) })
	clear(r.order[r.next:])
	r.order = r.order[:r.next]
	if second >= r.forgets || r.cost() > r.most+max(r.most/10, slack) {
		r.forgets = second + tidy
		r.forget(second)
	}
}

// cost is what samples and the keys that the newest Step did not give take, in samples.
func (r *Recorder) cost() int {
	return r.samples + (len(r.keys)-r.next)*seriesCost + (r.names-r.inUse)/sampleSize
}

// count takes in the counters of one key, and returns what they have more than at the Step before.
func (r *Recorder) count(second int64, key string, counters Tokens, first bool) Tokens {
	s := r.find(second, key)
	if first { // they are of the time before
		s.counters = counters
	}
	if s.seen < r.before { // the key was not there, and is a new one
		s.counters = Tokens{}
	}
	s.seen = second
	// Tokens that came back may have a counter go down.
	more := Tokens{
		Allowed:  max(counters.Allowed-s.counters.Allowed, 0),
		Rejected: max(counters.Rejected-s.counters.Rejected, 0),
		Costly:   max(counters.Costly-s.counters.Costly, 0),
	}
	s.counters = counters
	if more.Allowed == 0 && more.Rejected == 0 || r.most == 0 {
		return more
	}
	if n := len(s.samples); n == 0 || int64(s.samples[n-1].second) != second {
		s.samples = append(s.samples, sample{second: uint32(second)}) //nolint:gosec // until 2106
		r.samples++
	}
	s.samples[len(s.samples)-1].add(sample{0, float32(more.Allowed), float32(more.Rejected), float32(more.Costly)})
	s.total += more.Allowed + more.Rejected
	return more
}

// add adds what happened in b to a.
func (a *sample) add(b sample) {
	a.allowed += b.allowed
	a.rejected += b.rejected
	a.costly += b.costly
}

// find is the series of a key, which is made if it is not there.
func (r *Recorder) find(second int64, key string) *series {
	i := r.next
	r.next++
	r.inUse += len(key)
	if i < len(r.order) && r.order[i].key == key {
		return r.order[i].of
	}
	s := r.keys[key]
	if s == nil {
		s = &series{merged: second, seen: r.before}
		r.keys[key] = s
		r.names += len(key)
	}
	if i < len(r.order) {
		r.order[i] = ordered{key, s}
	} else {
		r.order = append(r.order, ordered{key, s})
	}
	return s
}

// forget makes slots of what is old, and forgets what is too old, and what there is no room for.
func (r *Recorder) forget(second int64) {
	for key, s := range r.keys {
		before := len(s.samples)
		s.age(second)
		r.samples -= before - len(s.samples)
		if len(s.samples) == 0 && s.seen < second {
			r.delete(key)
		}
	}
	if r.cost() <= r.most {
		return
	}
	// The keys that were used least go first, until a tenth is free.
	type used struct {
		key string
		*series
	}
	var all []used
	for key, s := range r.keys {
		if len(s.samples) > 0 {
			all = append(all, used{key, s})
		}
	}
	slices.SortFunc(all, func(a, b used) int { return cmp.Or(cmp.Compare(a.total, b.total), strings.Compare(a.key, b.key)) })
	for _, u := range all {
		if r.cost() <= r.most-r.most/10 {
			break
		}
		r.samples -= len(u.samples)
		u.samples, u.total = nil, 0
		if u.seen < second { // or its counters stay, so that only what comes counts
			r.delete(u.key)
		}
	}
}

func (r *Recorder) delete(key string) {
	delete(r.keys, key)
	r.names -= len(key)
}

// age makes slots of the samples that are older than fine seconds, and drops those that are older than an hour.
func (s *series) age(second int64) {
	until := (second - fine) / slot * slot // slots are whole
	kept := s.samples[:0]
	for _, p := range s.samples {
		if int64(p.second) < second-whole {
			s.total -= int64(p.allowed + p.rejected)
			continue
		}
		if int64(p.second) < until {
			p.second -= p.second % slot
			if n := len(kept); n > 0 && kept[n-1].second == p.second {
				kept[n-1].add(p)
				continue
			}
		}
		kept = append(kept, p)
	}
	s.merged = max(s.merged, until)
	s.samples = kept
	if len(kept) < cap(kept)/4 {
		s.samples = slices.Clone(kept)
	}
}
