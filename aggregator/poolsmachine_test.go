// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// drawer is an honest host that draws on the pool of a key.
type drawer struct {
	name     string
	named    string     // the algorithm that it has heard of
	limit    rate.Limit // and the limit
	wants    float64
	at       time.Duration
	reported time.Duration
	allowed  float64 // since it reported last and was answered
	tokens   float64
	weight   float64
	burst    float64
	until    time.Duration
}

// advance brings d up to now.
func (d *drawer) advance(now time.Duration) {
	if now >= d.until {
		d.tokens, d.weight = 0, 0
	}
	d.tokens = max(d.tokens, min(d.tokens+d.weight*float64(d.limit)*(now-d.at).Seconds(), d.burst))
	d.at = now
}

// pools is a key whose hosts draw on one pool, its owners and its hosts.
type pools struct {
	*rapid.T

	rule      dynamicconfig.Rule
	interval  time.Duration
	a         *Aggregator
	hosts     []*drawer
	now       time.Duration
	used      float64 // beyond the limit, since the window began in which that is most
	most      float64
	allowance float64 // what losses may add to that
	losses    int
	missing   int
	reserved  []time.Duration // when tokens will be used that were reserved
	largest   algorithm.Limit
	weighed   int // how often
	fails     struct {
		how  string // the weigher fails
		each int    // it fails with one call of so many
	}
	trace []string
}

func (p *pools) owner() *Aggregator { return odd(p.T, p.weigh, p.rule, p.interval) }

// asks reports whether d asks for what it has no tokens for.
func (d *drawer) asks() bool { return d.named == algorithm.NameAuto || d.named == algorithm.NameExact }

// weigh is a weigher that a service has, and that fails as p.fails says.
func (p *pools) weigh(capacity float64, demands []algorithm.Demand, parts []float64) {
	algorithm.RequestWeighted(capacity, demands, parts)
	if p.weighed++; p.weighed%p.fails.each != 0 {
		return
	}
	switch p.fails.how {
	case "panics":
		panic(p.fails.how)
	case "below 0":
		for i := range parts {
			if parts[i] = capacity; demands[i].Host == "h0" {
				parts[i] = -1
			}
		}
	case "no number":
		parts[0] = math.NaN()
	case "first":
		for i := range parts {
			parts[i] = 0
		}
		parts[0] = capacity
	}
}

// admit counts n tokens that were used.
func (p *pools) admit(n float64) {
	p.used += n
	p.most = max(p.most, p.used)
}

// use has d use up to n tokens, one after the other.
func (p *pools) use(d *drawer, n int) (got int) {
	d.advance(p.now)
	defer func() { p.admit(float64(got)) }()
	for ; got < n; got++ {
		switch {
		case d.named != algorithm.NameExact && p.now < d.until && d.tokens >= 1:
			d.tokens--
			d.allowed++
		case d.asks():
			t := usage.Take{Key: "k", Tokens: 1, Auto: d.named == algorithm.NameAuto}
			if t.Auto && p.now < d.until {
				t.More, t.Wants = max(float64(p.rule.Burst)-d.tokens, 0), d.wants
			}
			takes, taken := &usage.Takes{Rows: []usage.Take{t}}, new(usage.Taken)
			p.a.Take(p.now, d.name, takes, taken)
			if took := taken.Rows[0]; !took.OK || took.Wait > 0 {
				return got
			} else if took.Lent > 0 {
				d.tokens += took.Lent
				d.burst = max(d.burst, d.tokens)
			}
		default:
			return got
		}
	}
	return got
}

// reserve has d reserve up to n tokens, for which it waits. While hosts hold rates, or
// in a split, it waits for longer than one bucket would have it: its tokens are paid back before
// they are used.
func (p *pools) reserve(d *drawer, n int) (got int) {
	if p.missing > 0 || slices.ContainsFunc(p.hosts, func(d *drawer) bool { return d.weight > 1e-9 && p.now < d.until }) {
		defer func() { p.allowance += float64(got) }()
	}
	for ; got < n && d.asks(); got++ {
		t := usage.Take{Key: "k", Tokens: 1, Auto: d.named == algorithm.NameAuto, Longest: 30 * time.Second}
		takes, taken := &usage.Takes{Rows: []usage.Take{t}}, new(usage.Taken)
		p.a.Take(p.now, d.name, takes, taken)
		if !taken.Rows[0].OK {
			return got
		}
		p.reserved = append(p.reserved, p.now+taken.Rows[0].Wait)
	}
	return got
}

// report has d report. Fate says what becomes of the report and the answer.
func (p *pools) report(d *drawer, fate string) {
	d.advance(p.now)
	u := reportOf(d.named, int64(d.allowed), 0, max(p.now-d.reported, time.Millisecond), "k")
	u.Wants = []float64{d.wants}
	if p.now < d.until {
		u.Weight[0] = d.weight
	}
	if fate == "lost" {
		return
	}
	g := new(usage.Grants)
	if err := p.a.Step(p.now, d.name, u, g); err != nil {
		p.Fatal(err)
	}
	if fate == "doubled" { // the answer to the first arrives last, or never
		again := new(usage.Grants)
		if err := p.a.Step(p.now, d.name, u, again); err != nil {
			p.Fatal(err)
		}
		g = again
	}
	if fate == "unanswered" { // d goes on with what it has, beside what it was granted
		p.allowance += d.tokens + float64(p.largest.Rate)*p.interval.Seconds()
		return
	}
	d.allowed, d.reported = 0, p.now
	if g.Lease[0] > 0 {
		d.weight, d.burst, d.until = g.Weight[0], g.Burst[0], p.now+g.Lease[0]
		if g.Tokens != nil {
			d.tokens = g.Tokens[0]
		}
	}
}

// until lets time pass until then.
func (p *pools) until(then time.Duration) {
	then = max(then, p.now)
	p.used = max(p.used-float64(p.rule.Limit)*(then-p.now).Seconds(), 0)
	p.now = then
}

// pass lets time pass. Hosts report once in an interval.
func (p *pools) pass(d time.Duration) {
	end := p.now + d
	for p.now < end {
		to := min(end, p.now+p.interval/8)
		slices.Sort(p.reserved)
		for len(p.reserved) > 0 && p.reserved[0] <= to {
			p.until(p.reserved[0])
			p.admit(1)
			p.reserved = p.reserved[1:]
		}
		p.until(to)
		for _, h := range p.hosts {
			if p.now-h.reported >= p.interval {
				p.hear(h)
				p.report(h, "")
			}
		}
	}
}

// hear has d hear of the rule that there is.
func (p *pools) hear(d *drawer) {
	if d.named == p.rule.Algorithm && d.limit == p.rule.Limit {
		return
	}
	d.advance(p.now)
	if d.named != p.rule.Algorithm { // the last report under the earlier one
		p.report(d, "")
		d.named = p.rule.Algorithm
		if d.named == algorithm.NameExact {
			d.tokens, d.weight, d.until = 0, 0, 0
		}
	}
	d.limit = p.rule.Limit
	d.burst = min(d.burst, p.rule.Burst)
	d.tokens = min(d.tokens, p.rule.Burst)
}

func (p *pools) log(format string, args ...any) {
	p.trace = append(p.trace, fmt.Sprintf("%v ", p.now)+fmt.Sprintf(format, args...))
}

// Hosts draw on the pool of a key under random rules and owners, and answers are lost. In no
// window do they use more than the limit, a burst, and what is stated.
func TestHostsOfAPoolUseNoMoreThanIsStated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &pools{T: t, interval: rapid.SampledFrom([]time.Duration{time.Second, 3 * time.Second}).Draw(t, "interval")}
		names := rapid.SampledFrom([][]string{{algorithm.NameExact}, {algorithm.NameAuto, algorithm.NameExact}, {algorithm.NameElastic, algorithm.NameAuto, algorithm.NameExact}, {"odd"}}).Draw(t, "names")
		algorithms := rapid.SampledFrom(names)
		limits := rapid.SampledFrom([]rate.Limit{1, 20, 300})
		bursts := rapid.SampledFrom([]float64{1, 10, 100, 1000})
		draw := func() {
			p.rule = dynamicconfig.Rule{Key: "*", Limit: limits.Draw(p.T, "limit"), Burst: bursts.Draw(p.T, "burst"), Algorithm: algorithms.Draw(p.T, "algorithm"), Lease: 5 * p.interval}
			p.largest = algorithm.Limit{Rate: max(p.largest.Rate, float64(p.rule.Limit)), Burst: max(p.largest.Burst, p.rule.Burst)}
		}
		draw()
		p.fails.each = 1
		p.a = p.owner()
		for i := range rapid.IntRange(1, 5).Draw(t, "hosts") {
			p.hosts = append(p.hosts, &drawer{name: fmt.Sprint("h", i), named: p.rule.Algorithm, limit: p.rule.Limit})
			p.report(p.hosts[i], "")
		}
		host := rapid.SampledFrom(p.hosts)
		t.Repeat(map[string]func(*rapid.T){
			"is busy": func(t *rapid.T) {
				p.T = t
				for range 10 {
					for _, d := range p.hosts {
						d.wants = 1000
						p.report(d, "")
						p.use(d, 1000)
					}
					p.pass(p.interval / 2)
				}
				p.log("is busy")
			},
			"passes": func(t *rapid.T) {
				p.T = t
				p.pass(rapid.SampledFrom([]time.Duration{time.Millisecond, p.interval / 3, p.interval, 4 * p.interval}).Draw(t, "for"))
			},
			"uses": func(t *rapid.T) {
				p.T = t
				d := host.Draw(t, "host")
				n := p.use(d, rapid.SampledFrom([]int{1, 5, 50, 5000}).Draw(t, "events"))
				p.log("%s uses %d", d.name, n)
			},
			"all use": func(t *rapid.T) {
				p.T = t
				for _, d := range p.hosts {
					p.log("%s uses %d", d.name, p.use(d, 5000))
				}
			},
			"wants": func(t *rapid.T) {
				p.T = t
				d := host.Draw(t, "host")
				d.wants = rapid.SampledFrom([]float64{0, 1, 30, 1000}).Draw(t, "wants")
				p.report(d, "")
				p.log("%s wants %v, and has weight %v, and %v of %v", d.name, d.wants, d.weight, d.tokens, d.burst)
			},
			"reserves": func(t *rapid.T) {
				p.T = t
				d := host.Draw(t, "host")
				n := p.reserve(d, rapid.SampledFrom([]int{5, 100, 1000}).Draw(t, "events"))
				p.log("%s reserves %d", d.name, n)
			},
			"is heard twice": func(t *rapid.T) {
				p.T = t
				p.report(host.Draw(t, "host"), "doubled")
			},
			"weighs otherwise": func(t *rapid.T) {
				p.T = t
				p.fails.how = rapid.SampledFrom([]string{"", "panics", "below 0", "no number", "first"}).Draw(t, "how")
				p.fails.each = rapid.IntRange(1, 3).Draw(t, "each")
				p.log("weighs: %+v", p.fails)
			},
			"splits": func(t *rapid.T) {
				p.missing = rapid.IntRange(0, 2).Draw(t, "missing")
				p.a.Split(p.now, 1, p.missing)
			},
			"is not answered": func(t *rapid.T) {
				if p.T, p.losses = t, p.losses+1; p.losses > 2 {
					return
				}
				d := host.Draw(t, "host")
				p.report(d, rapid.SampledFrom([]string{"lost", "unanswered"}).Draw(t, "fate"))
				p.log("%s is not answered", d.name)
			},
			"changes": func(t *rapid.T) {
				p.T = t
				before := p.rule
				draw()
				if rapid.Bool().Draw(t, "only the algorithm") {
					p.rule.Limit, p.rule.Burst = before.Limit, before.Burst
				} else {
					p.allowance += float64(len(p.reserved))          // which are used when they were to be
					p.allowance += max(p.rule.Burst-before.Burst, 0) // a full key is forgotten, and is full again
				}
				p.a.Core.Configure(p.now, lone(p.T, p.rule, p.interval))
				p.log("rule: %s %v %v", p.rule.Algorithm, p.rule.Limit, p.rule.Burst)
				for _, d := range p.hosts {
					if p.rule.Limit != before.Limit || p.rule.Burst != before.Burst || rapid.Bool().Draw(t, "hears of it") {
						p.hear(d)
					}
				}
			},
			"moves": func(t *rapid.T) {
				p.T = t
				rows := p.a.Buckets(p.now, func(string) bool { return true })
				next := p.owner()
				next.Moved(p.now)
				next.Split(p.now, 1, p.missing)
				for i := range rows {
					next.take(p.now, rpc.MaxKeys, &rows[i])
				}
				if p.rule.Algorithm == algorithm.NameElastic || p.rule.Algorithm == "odd" { // which is not handed over, nor are its debts
					p.allowance += p.largest.Burst
					for _, k := range p.a.Look(p.now, "k") {
						p.allowance += max(-k.Tokens, 0)
					}
				}
				p.a = next
				p.log("moves, with %+v", rows)
			},
			"sweeps": func(t *rapid.T) { p.a.GC(p.now) },
			"": func(t *rapid.T) {
				bound := p.largest.Burst + p.allowance
				switch {
				case len(names) == 2:
					bound += 0.75*p.largest.Burst + p.largest.Rate*algorithm.Silence*p.interval.Seconds()
				case len(names) == 3, names[0] == "odd":
					bound += algorithm.Elastic{}.Overshoot(p.largest, len(p.hosts), p.interval)
				}
				if p.most > bound+1e-6*math.Max(bound, 1) {
					for _, line := range p.trace {
						t.Log(line)
					}
					t.Fatalf("%v tokens beyond the limit; at most %v", p.most, bound)
				}
			},
		})
	})
}
