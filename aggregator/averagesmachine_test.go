// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"math"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/usage"
)

// averaged is a host of a key whose owner keeps averages.
type averaged struct {
	name   string
	named  string  // the algorithm that it has heard of
	wants  int64   // events/s
	weight float64 // what it was granted
	until  time.Duration
	last   time.Duration
}

// deciders is how many hosts of the smaller side of a split own keys.
const deciders = 3

// sample is the average of one host as the dumb owner has it.
type sample struct {
	rate float64
	last time.Duration
	away bool // it named another algorithm than the rule, and demands what it may use under that
}

// averages is a key whose owners keep averages, its hosts, and what an owner without anything
// clever makes of the reports that reach it.
type averages struct {
	*rapid.T

	rule     dynamicconfig.Rule
	interval time.Duration
	a        *Aggregator
	hosts    []*averaged
	now      time.Duration
	births   int
	missing  int  // in a split
	late     bool // the owner's ring
	moved    time.Duration

	known  map[string]sample
	exists bool
	learns time.Duration
}

// lone is a config of one rule.
func lone(t *rapid.T, rule dynamicconfig.Rule, interval time.Duration) *dynamicconfig.Snapshot {
	p := dynamicconfig.Properties{UpdateInterval: interval, DecayAfter: 2 * interval, GCAfter: 10 * interval, NewDataWeight: 0.5}
	c, err := dynamicconfig.Config{Properties: p, Rules: []dynamicconfig.Rule{rule}}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// odd is an owner under one rule, which knows weigh by the name odd.
func odd(t *rapid.T, weigh algorithm.Weigh, rule dynamicconfig.Rule, interval time.Duration) *Aggregator {
	registry := algorithm.Builtin()
	if err := registry.Register("odd", weigh); err != nil {
		t.Fatal(err)
	}
	return New(registry, lone(t, rule, interval))
}

func (m *averages) configure() {
	m.a.Core.Configure(m.now, lone(m.T, m.rule, m.interval))
}

// move gives the key to a new owner, which knows nothing.
func (m *averages) move(late bool) {
	a := New(algorithm.Builtin(), lone(m.T, m.rule, m.interval))
	m.a, m.late, m.moved, m.known, m.exists, m.missing = a, late, m.now, map[string]sample{}, false, 0
	if late {
		m.moved = -time.Hour
		a.RingMoved(Cluster{Placement: always("another"), Self: "me"})
	}
	a.Moved(m.moved)
}

// faded is what is left of s at now.
func (m *averages) faded(s sample) float64 {
	age, left := m.now-s.last, 1.0
	if age >= 10*m.interval {
		return 0
	}
	if age >= 2*m.interval {
		left = math.Pow(0.5, float64(age/m.interval))
	}
	return s.rate * left
}

// sweep forgets who was silent for too long.
func (m *averages) sweep() {
	for name, s := range m.known {
		if m.now-s.last >= 10*m.interval {
			delete(m.known, name)
		}
	}
}

// demand is what all hosts demand that are away, or that are not.
func (m *averages) demand(away bool) (all float64) {
	for _, s := range m.known {
		if s.away == away {
			all += m.faded(s)
		}
	}
	return all
}

// rest is the part of the limit that hosts away leave.
func (m *averages) rest() float64 {
	if limit := float64(m.rule.Limit) * m.part(); limit > 0 {
		return max(1-m.demand(true)/limit, 0)
	}
	return 1
}

// report has h report, and checks what it is granted. The answer may be lost.
func (m *averages) report(h *averaged, heard bool) {
	elapsed := max(m.now-h.last, time.Millisecond)
	u := reportOf(h.named, int64(float64(h.wants)*elapsed.Seconds()/2), int64(float64(h.wants)*elapsed.Seconds()/2), elapsed, "k")
	has := 0.0
	if m.now < h.until {
		has = h.weight
	}
	u.Weight[0], h.last = has, m.now
	var g usage.Grants
	if err := m.a.Step(m.now, h.name, u, &g); err != nil {
		m.Fatal(err)
	}
	if err := g.Check(1); err != nil {
		m.Fatal(err)
	}
	m.sweep()
	least := min(m.interval, time.Minute)
	if !m.exists {
		from := m.moved
		if m.late {
			from = m.now
		}
		m.exists, m.learns = true, from+least
	}
	if total := u.Allowed[0] + u.Rejected[0]; total > 0 {
		r := float64(total) / max(elapsed, min(time.Second, m.interval)).Seconds()
		away := h.named != m.rule.Algorithm
		if away {
			r = max(r/2, min(r, min(has, m.part())*float64(m.rule.Limit)))
		}
		before, ok := m.known[h.name]
		if !ok && has > 0 && len(m.known) == 0 {
			m.learns = max(m.learns, m.now+m.interval)
		}
		if ok && before.away == away {
			r = 0.5*r + 0.5*m.faded(before)
		}
		m.known[h.name] = sample{r, m.now, away}
	}
	if g.Lease[0] == 0 {
		return
	}
	if h.named != m.rule.Algorithm {
		m.Fatalf("%s is granted %v under an algorithm that the rule does not name", h.name, g.Weight[0])
	}
	part, floor := m.part(), 0.0
	if h.named == algorithm.NameEvenFloor && m.missing > 0 { // of the whole cluster, hosts see to it
		floor = min(part/deciders, 1./float64(deciders+m.missing))
	}
	switch got := g.Weight[0]; {
	case m.now < m.learns && has > 0:
		if got != max(has, floor) {
			m.Fatalf("at %v, %s keeps %v, and had %v", m.now, h.name, got, has)
		}
	case h.named == algorithm.NameDropRatio:
		if want := min(1, float64(m.rule.Limit)*part*m.rest()/m.demand(false)); m.demand(false) > 0 && math.Abs(got-want) > 1e-6 {
			m.Fatalf("at %v, %s lets %v pass, want %v", m.now, h.name, got, want)
		}
	case h.named == "average/fair-share":
	case m.known[h.name].away: // it has used nothing since it heard of the rule
		if got != floor {
			m.Fatalf("at %v, %s gets %v, want %v", m.now, h.name, got, floor)
		}
	case m.demand(false) > 0:
		if want := max(part*m.rest()*m.faded(m.known[h.name])/m.demand(false), floor); math.Abs(got-want) > 1e-6 {
			m.Fatalf("at %v, %s gets %v, want %v: %+v", m.now, h.name, got, want, m.known)
		}
	}
	if heard {
		h.weight, h.until = g.Weight[0], m.now+g.Lease[0]
	}
}

// part is that of the limit which the owner has.
func (m *averages) part() float64 {
	if k := m.a.keys.Table.Shard(m.a.keys.Table.Hash("k")).Map(m.rule.Algorithm).Find(m.a.keys.Table.Hash("k"), "k"); k != nil && k.Rule != nil {
		return k.Part(m.now)
	}
	return 1
}

func (m *averages) join() {
	m.births++
	m.hosts = append(m.hosts, &averaged{name: fmt.Sprint("host", m.births), named: m.rule.Algorithm, last: m.now - s, wants: int64(rapid.IntRange(0, 500).Draw(m.T, "wants"))})
}

func (m *averages) host() *averaged {
	return m.hosts[rapid.IntRange(0, len(m.hosts)-1).Draw(m.T, "host")]
}

// Each host is granted its part of what all hosts demand that the owner has heard of, whatever
// becomes of messages, rules and owners; and a host that reports to a new owner keeps what it
// had, and no more, for an interval. When all is quiet again, all hosts together have all.
func TestAveragesAddUpWhateverHappens(t *testing.T) {
	names := rapid.SampledFrom([]string{algorithm.NameRequestWeighted, algorithm.NameRequestWeighted, algorithm.NameEvenFloor, algorithm.NameDropRatio, "average/fair-share"})
	rapid.Check(t, func(t *rapid.T) {
		m := &averages{T: t, interval: s, rule: dynamicconfig.Rule{Key: "k", Limit: 100, Algorithm: names.Draw(t, "algorithm"), Lease: time.Minute, Refresh: 10 * s, Learning: time.Minute}}
		m.move(false)
		for range 3 {
			m.join()
		}
		report := func(t *rapid.T) {
			switch h := m.host(); rapid.SampledFrom([]string{"heard", "heard", "heard", "unheard", "lost"}).Draw(t, "fate") {
			case "heard":
				m.report(h, true)
			case "unheard":
				m.report(h, false)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"report": report, "report again": report, "report more": report,
			"wants": func(t *rapid.T) { m.host().wants = int64(rapid.IntRange(0, 500).Draw(t, "wants")) },
			"time": func(t *rapid.T) {
				if m.now += time.Duration(rapid.IntRange(1, 8000).Draw(t, "ms")) * time.Millisecond; rapid.Bool().Draw(t, "gc") {
					m.a.GC(m.now) // takes the account to another algorithm
					m.a.GC(m.now)
					m.sweep()
					m.exists = m.a.keys.Len() > 0
				}
			},
			"join": func(*rapid.T) { m.join() },
			"leave": func(t *rapid.T) {
				i := rapid.IntRange(0, len(m.hosts)-1).Draw(t, "host")
				if m.hosts = append(m.hosts[:i], m.hosts[i+1:]...); len(m.hosts) == 0 {
					m.join()
				}
			},
			"limit": func(t *rapid.T) {
				m.rule.Limit = rapid.SampledFrom([]rate.Limit{0, 1, 100, 1000}).Draw(t, "limit")
				m.configure()
			},
			"algorithm": func(t *rapid.T) {
				m.rule.Algorithm = names.Draw(t, "algorithm")
				m.configure()
			},
			"hears of the algorithm": func(*rapid.T) {
				if h := m.host(); h.named != m.rule.Algorithm {
					h.named, h.weight = m.rule.Algorithm, 0
				}
			},
			"interval": func(t *rapid.T) {
				m.interval = rapid.SampledFrom([]time.Duration{s, 2 * s, 5 * s}).Draw(t, "interval")
				m.configure()
			},
			"parent": func(t *rapid.T) {
				m.rule.Parent = rapid.Bool().Draw(t, "parent")
				m.configure()
			},
			"climb": func(t *rapid.T) {
				if asked := m.a.Parent().Ask(m.now, "region"); asked != nil {
					answers := &claims.Leases{Rows: make([]claims.Lease, len(asked.Rows))}
					for i := range answers.Rows {
						answers.Rows[i] = claims.Lease{Amount: float64(rapid.IntRange(1, 200).Draw(t, "leases")), Lasts: 20 * s, Refresh: 5 * s, Safe: 3}
					}
					m.a.Parent().Hear(m.now, asked, answers, nil)
				}
			},
			"split": func(t *rapid.T) {
				m.missing = rapid.SampledFrom([]int{0, 0, 4}).Draw(t, "missing")
				m.a.Split(m.now, deciders, m.missing)
			},
			"moves": func(t *rapid.T) { m.move(rapid.Bool().Draw(t, "its ring is late")) },
		})

		m.rule.Parent = false
		m.configure()
		m.missing = 0
		m.a.Split(m.now, deciders, 0)
		sum := 0.0
		for round := range 60 {
			m.now += m.interval
			for _, h := range m.hosts {
				if h.named = m.rule.Algorithm; round == 30 {
					h.wants = max(h.wants, 10)
				}
				m.report(h, true)
			}
		}
		for _, h := range m.hosts {
			sum += h.weight
		}
		least := 1.0
		switch m.rule.Algorithm {
		case algorithm.NameDropRatio:
			return
		case "average/fair-share": // gives no more than is wanted
			least = 0
		}
		if sum < least-1e-3 || sum > 1+1e-3 {
			t.Fatalf("all hosts together have %v: %+v", sum, m.known)
		}
	})
}
