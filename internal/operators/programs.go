// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"math"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/recent"
	"github.com/headgate/headgate/rpc/usage"
)

// maxProgramKeys bounds the keys of programs that are counted: others are not.
const maxProgramKeys = 100_000

// programSamples bounds what is remembered of the keys of programs: 16 MiB.
const programSamples = recent.DefaultSamples / 4

// forgetsProgram is after how long a key is forgotten that no program used.
const forgetsProgram = time.Minute

// programs counts what programs do that report at this node's edge, and remembers it.
//
// An owner that is asked says at once what it gave. What was asked for comes with the program's
// next report, maybe at another edge. So what programs were refused is the difference of two
// sums over all members: see refused. The recorder has what was offered in place of what was
// rejected.
type programs struct {
	recorder *recent.Recorder
	limits   func() *dynamicconfig.Snapshot // nil until the Desk is open

	mu   sync.Mutex // guards what follows
	keys map[string]*program
	now  int64 // counts Steps
}

// program is what programs did with one key, in tokens. The counters never decrease by much: what
// is given back was allowed before.
type program struct {
	allowed, offered float64
	used             int64 // the Step before which it was used last
}

var _ headgate.EdgeCounts = (*programs)(nil)

func newPrograms() *programs {
	return &programs{recorder: recent.New(programSamples), keys: make(map[string]*program)}
}

// Reported implements headgate.EdgeCounts.
func (p *programs) Reported(r *usage.Report, unanswered []int) {
	limits := p.limits()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == 0 { // the Desk does not run
		return
	}
	for i, key := range r.Keys {
		if len(unanswered) > 0 && unanswered[0] == i {
			unanswered = unanswered[1:]
			continue
		}
		if allowed, rejected := float64(r.Allowed[i]), float64(r.Rejected[i]); allowed+rejected > 0 && answers(limits, key, r.Algorithm) {
			p.addLocked(key, allowed, allowed+rejected)
		}
	}
}

// Took implements headgate.EdgeCounts.
func (p *programs) Took(rows []usage.Take, took []usage.Took) {
	limits := p.limits()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == 0 {
		return
	}
	for i := range rows {
		t, moved := &rows[i], rows[i].Moved(&took[i])
		switch {
		case !took[i].Decided:
		case t.Auto: // a report has it as offered
			if moved != 0 && answers(limits, t.Key, algorithm.NameAuto) {
				p.addLocked(t.Key, moved, 0)
			}
		case answers(limits, t.Key, algorithm.NameExact):
			offered := moved
			if t.Spent == usage.SpentNot && t.Tokens > 0 {
				offered = t.Tokens
			}
			p.addLocked(t.Key, moved, offered)
		}
	}
}

// answers reports whether the algorithm is the one of a key that answers: another one only
// shadows it.
func answers(limits *dynamicconfig.Snapshot, key, algorithm string) bool {
	rule, ok := limits.Match(key)
	if !ok {
		return false
	}
	i := rule.Answering()
	return i >= 0 && rule.Algorithms()[i] == algorithm
}

func (p *programs) addLocked(key string, allowed, offered float64) {
	k := p.keys[key]
	if k == nil {
		if len(p.keys) >= maxProgramKeys {
			return
		}
		k = new(program)
		p.keys[key] = k
	}
	k.allowed, k.offered, k.used = k.allowed+allowed, k.offered+offered, p.now
}

// step remembers what programs did until now. It is called once a second.
func (p *programs) step(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now++
	p.recorder.Step(now, func(add recent.Add) {
		for key, k := range p.keys {
			add(key, recent.Tokens{Allowed: int64(math.Floor(k.allowed)), Rejected: int64(math.Floor(k.offered))})
			if p.now-k.used > int64(forgetsProgram/time.Second) {
				delete(p.keys, key)
			}
		}
	})
}

// names are the keys that programs used recently, each with false.
func (p *programs) names() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[string]bool, len(p.keys))
	for key := range p.keys {
		all[key] = false
	}
	return all
}

// each calls f with what programs did with each key since it is remembered. It holds no lock.
func (p *programs) each(f func(key string, allowed, rejected float64)) {
	p.mu.Lock()
	all := make(map[string]program, len(p.keys))
	for key, k := range p.keys {
		all[key] = *k
	}
	p.mu.Unlock()
	for key, k := range all {
		f(key, k.allowed, max(k.offered-k.allowed, 0))
	}
}

// refusals counts what was refused in one period after the other. An owner says what it allowed before
// programs say what they asked for, so what it allowed ahead is taken off what they ask for later.
type refusals struct{ ahead float64 }

// next is what was refused in the next period, of what was offered.
func (r *refusals) next(allowed, offered float64) float64 {
	r.ahead += allowed - offered
	rejected := max(-r.ahead, 0)
	r.ahead = max(r.ahead, 0)
	return rejected
}

// refused is what was refused in each period.
func refused(allowed, offered []float64) []float64 {
	var r refusals
	rejected := make([]float64, len(offered))
	for i := range offered {
		rejected[i] = r.next(allowed[i], offered[i])
	}
	return rejected
}

// refusedOf puts what was refused into points whose Reject is what was offered.
func refusedOf(points []recent.Point) []recent.Point {
	var r refusals
	for i := range points {
		points[i].Reject = r.next(points[i].Allowed, points[i].Reject)
	}
	return points
}
