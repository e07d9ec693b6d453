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

// leaser is an honest host of a key that is leased out. What it reports is a part of the
// limit, and what it claims is an amount.
type leaser struct {
	name    string
	reports bool
	loose   bool   // it wants something of a band that is not bound
	named   string // the algorithm that it has heard of
	wants   float64
	weight  float64 // of one that reports
	amount  float64 // of one that claims
	uses    float64 // slots in flight
	until   time.Duration
	told    float64 // what owners know that it has, whether the host has heard it or not
	toldTo  time.Duration
	asks    int // how many times it has asked
	heard   int // which of its answers it heard last
}

// underWay is an answer under way.
type underWay struct {
	to           *leaser
	number       int
	part, amount float64
	until        time.Duration
	epoch        int // rules and capacity are as they were then
	capacity     float64
	more         bool // than the host had, or was told before
}

// leases is a key that is leased out, its owners and its hosts.
type leases struct {
	*rapid.T

	rule     dynamicconfig.Rule
	interval time.Duration
	a        *Aggregator
	hosts    []*leaser
	late     []underWay
	now      time.Duration
	epoch    int
	births   int
	above    float64 // what the cluster above leases
	weighed  int     // how often

	// A key whose hosts have more than there is, because it was cut, has come to another owner,
	// which does not know that. Until they have asked again, there is no law.
	moved, lawless time.Duration
}

// loosePriority is that of hosts that are not bound.
const loosePriority = -7

func (l *leases) owner() *Aggregator { return odd(l.T, l.weigh, l.rule, l.interval) }

// weigh is a weigher that a service has, and that often fails.
func (l *leases) weigh(capacity float64, demands []algorithm.Demand, parts []float64) {
	algorithm.RequestWeighted(capacity, demands, parts)
	switch l.weighed++; l.weighed % 4 {
	case 0:
		panic("odd")
	case 2:
		for i := range parts {
			parts[i] = capacity
		}
		parts[0] = -1
	}
}

// holds is what h has the use of at now.
func (l *leases) holds(h *leaser) float64 {
	granted := h.amount
	if h.reports {
		granted = h.weight * float64(l.rule.Limit)
	}
	if l.now >= h.until {
		granted = 0
	}
	if l.rule.InFlight {
		return max(math.Floor(granted+1e-6), h.uses)
	}
	return granted
}

// told is what h has as far as an owner knows.
func (l *leases) told(h *leaser) float64 {
	switch {
	case l.now >= h.toldTo:
		return 0
	case h.reports:
		return h.told * float64(l.rule.Limit)
	}
	return h.told
}

// out is what all hosts have that are bound. A host that did not hear an answer has more than
// its owner knows, until it asks again: that is stated. Of slots, the owner knows.
func (l *leases) out() (sum float64) {
	for _, h := range l.hosts {
		switch {
		case h.loose:
		case l.rule.InFlight:
			sum += l.holds(h)
		default:
			sum += min(l.holds(h), l.told(h))
		}
	}
	return sum
}

// capacity is what the owner has to lease now.
func (l *leases) capacity() float64 {
	for sh := range l.a.keys.Table.All {
		for _, e := range sh.Entries() {
			if e.Key.Rule != nil && e.Key.Text() == "k" {
				return e.Key.Limit(e.Key.Part(l.now)).Rate
			}
		}
	}
	return float64(l.rule.Limit)
}

// ask has h ask its owner. Fate says what becomes of the question and the answer.
func (l *leases) ask(h *leaser, keeps bool, fate string) {
	if fate == "lost" {
		return
	}
	if !h.reports || l.rule.InFlight { // an earlier question is given up
		h.heard = h.asks
	}
	h.asks++
	ans := underWay{to: h, number: h.asks}
	has := l.holds(h)
	most := max(has, l.told(h))
	if h.reports {
		u := reportOf(h.named, 0, 0, time.Second, "k")
		u.Wants = []float64{h.wants}
		if l.now < h.until {
			u.Weight[0] = h.weight
		}
		if l.rule.InFlight {
			u.Slots = []int64{int64(has) + 1}
			if has > 0 {
				u.Weight[0] = min(max(u.Weight[0], has/float64(l.rule.Limit)), 1)
			}
		}
		read := new(usage.Report)
		payload, err := usage.Columnar{}.EncodeReport(u)
		if err == nil {
			err = usage.Columnar{}.DecodeReport(payload, read)
		}
		g := new(usage.Grants)
		if err == nil {
			err = l.a.Step(l.now, h.name, read, g)
		}
		if err == nil {
			err = g.Check(1)
		}
		if err != nil {
			l.Fatal(err)
		}
		if g.Lease[0] == 0 {
			if fate == "heard" { // an earlier answer comes too late now
				h.heard = h.asks
			}
			if h.named != l.rule.Algorithm && u.Weight[0] == 0 {
				h.heard, h.told = h.asks, 0 // it has given up
			}
			return
		}
		ans.part, ans.until = g.Weight[0], l.now+g.Lease[0]
		h.told = ans.part
	} else {
		c := claims.Claim{Key: "k", Host: h.name, Has: has, Keep: keeps, Bands: []claims.Band{{Clients: 1, Wants: h.wants}}}
		if h.loose {
			c.Bands[0].Priority = loosePriority
		}
		got := l.a.Claim(l.now, &claims.Claims{Rows: []claims.Claim{c}})
		if err := got.Check(1); err != nil {
			l.Fatal(err)
		}
		if got.Rows[0].Lasts == 0 {
			return
		}
		ans.amount, ans.until = got.Rows[0].Amount, l.now+got.Rows[0].Lasts
		if keeps && ans.amount > most*(1+1e-9) {
			l.Fatalf("%s keeps %v, and had %v", h.name, ans.amount, most)
		}
		if h.told = ans.amount; l.rule.InFlight { // what it has in use may be handed over
			h.told = max(h.told, has)
		}
		if l.rule.InFlight && ans.amount != math.Floor(ans.amount) {
			l.Fatalf("%s gets %v slots", h.name, ans.amount)
		}
	}
	h.toldTo, ans.epoch, ans.capacity = ans.until, l.epoch, l.capacity()
	ans.more = l.told(h) > most*(1+1e-9)+1e-9
	switch fate {
	case "late":
		l.late = append(l.late, ans)
	case "heard":
		l.hear(ans)
	}
}

// hear has the host of an answer hear it. An increase fits into what there is.
func (l *leases) hear(ans underWay) {
	h := ans.to
	if ans.number <= h.heard || l.now >= ans.until {
		return // it was overtaken, or is too late
	}
	h.heard, h.weight, h.amount, h.until = ans.number, ans.part, ans.amount, ans.until
	if slots := ans.part * float64(l.rule.Limit); l.rule.InFlight && ans.epoch == l.epoch && math.Abs(slots-math.Round(slots)) > 1e-6*max(slots, 1) {
		l.Fatalf("%s gets %v slots", h.name, slots)
	}
	if h.loose || ans.epoch != l.epoch || !ans.more || l.now < l.lawless {
		return
	}
	if out := l.out(); out > ans.capacity*(1+1e-6)+1e-6 {
		l.Fatalf("at %v, %s gets more, and %v of %v are out: %s", l.now, h.name, out, ans.capacity, l)
	}
}

func (l *leases) String() (s string) {
	for _, h := range l.hosts {
		s += fmt.Sprintf("\n%+v holds %v", *h, l.holds(h))
	}
	return s
}

// pass lets time pass.
func (l *leases) pass(d time.Duration) {
	l.now += d
	for _, h := range l.hosts {
		if l.now >= h.until {
			h.uses = 0 // what goes on after a lease is not bound
		}
	}
}

// cut is called when there may be less from now on.
func (l *leases) cut() {
	if l.epoch++; l.now-l.moved < l.rule.Lease && l.out() > min(l.capacity(), float64(l.rule.Limit)) {
		l.lawless = l.now + l.rule.Lease
	}
}

// configure puts the rule in force at the owner.
func (l *leases) configure() {
	l.cut()
	if err := l.a.Configure(lone(l.T, l.rule, l.interval)); err != nil {
		l.Fatal(err)
	}
}

func (l *leases) join() {
	l.births++
	h := &leaser{name: fmt.Sprint("host", l.births), named: l.rule.Algorithm, wants: float64(rapid.IntRange(0, 120).Draw(l.T, "wants"))}
	switch rapid.SampledFrom([]string{"reports", "claims", "loose"}).Draw(l.T, "kind") {
	case "reports":
		h.reports = true
	case "loose":
		h.loose = true
	}
	l.hosts = append(l.hosts, h)
}

func (l *leases) host() *leaser {
	return l.hosts[rapid.IntRange(0, len(l.hosts)-1).Draw(l.T, "host")]
}

// climb asks the cluster above, which leases what it likes.
func (l *leases) climb() {
	asked := l.a.Parent().Ask(l.now, "region")
	if asked == nil {
		return
	}
	answers := &claims.Leases{Rows: make([]claims.Lease, len(asked.Rows))}
	for i := range answers.Rows {
		answers.Rows[i] = claims.Lease{Amount: l.above, Lasts: 20 * s, Refresh: 5 * s, Learns: 20 * s, Safe: 3}
	}
	l.a.Parent().Hear(l.now, asked, answers, nil)
	l.cut()
}

var leaseAlgorithms = rapid.SampledFrom([]string{"fair-share", "proportional-share", "claims/request-weighted", "claims/fair-share", "claims/odd"})

var leaseLimits = rapid.SampledFrom([]rate.Limit{0, 1, 10, 50, 100, 200, 1000})

// What is leased fits into what there is, whatever becomes of messages, rules and owners: a
// host gets more only if all hosts together then have no more than the limit. Slots are whole,
// and a host that keeps gets no more than it had.
func TestLeasesFitWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &leases{T: t, interval: s, above: 50, rule: dynamicconfig.Rule{
			Key: "k", Limit: 100, Algorithm: leaseAlgorithms.Draw(t, "algorithm"), InFlight: rapid.Bool().Draw(t, "in flight"),
			Lease: 20 * s, Refresh: 5 * s, Learning: 20 * s, Recalculate: dynamicconfig.None, Fallback: dynamicconfig.FallbackClosed,
			Priorities: map[int64]string{loosePriority: "none"},
		}}
		l.a = l.owner()
		l.a.Moved(-time.Hour)
		l.moved = -time.Hour
		for range 3 {
			l.join()
		}
		fates := rapid.SampledFrom([]string{"heard", "heard", "heard", "heard", "late", "unheard", "lost"})
		ask := func(t *rapid.T) {
			h := l.host()
			l.ask(h, !h.reports && rapid.IntRange(0, 5).Draw(t, "keeps") == 0, fates.Draw(t, "fate"))
		}
		t.Repeat(map[string]func(*rapid.T){
			"ask":       ask,
			"ask again": ask,
			"ask more":  ask,
			"wants": func(t *rapid.T) {
				l.host().wants = float64(rapid.IntRange(0, 120).Draw(t, "wants"))
			},
			"uses": func(t *rapid.T) {
				if h := l.host(); l.rule.InFlight && !h.loose {
					h.uses = float64(rapid.IntRange(0, int(min(l.holds(h), 2000))).Draw(t, "uses"))
				}
			},
			"arrives": func(t *rapid.T) {
				if len(l.late) > 0 {
					i := rapid.IntRange(0, len(l.late)-1).Draw(t, "which")
					ans := l.late[i]
					l.late = append(l.late[:i], l.late[i+1:]...)
					l.hear(ans)
				}
			},
			"time": func(t *rapid.T) {
				l.pass(time.Duration(rapid.IntRange(1, 8000).Draw(t, "ms")) * time.Millisecond)
				if rapid.Bool().Draw(t, "gc") {
					l.a.GC(l.now)
				}
			},
			"join": func(t *rapid.T) {
				if len(l.hosts) < 6 {
					l.join()
				}
			},
			"leave": func(t *rapid.T) {
				i := rapid.IntRange(0, len(l.hosts)-1).Draw(t, "host")
				h := l.hosts[i]
				if l.hosts = append(l.hosts[:i], l.hosts[i+1:]...); len(l.hosts) == 0 {
					l.join()
				}
				h.heard = math.MaxInt
				if !h.reports && rapid.Bool().Draw(t, "in order") {
					l.a.Claim(l.now, &claims.Claims{Rows: []claims.Claim{{Key: "k", Host: h.name, Release: true}}})
				}
			},
			"limit": func(t *rapid.T) {
				l.rule.Limit = leaseLimits.Draw(t, "limit")
				l.configure()
			},
			"algorithm": func(t *rapid.T) {
				l.rule.Algorithm = leaseAlgorithms.Draw(t, "algorithm")
				l.configure()
			},
			"hears of the algorithm": func(t *rapid.T) {
				if h := l.host(); h.named != l.rule.Algorithm {
					h.named, h.weight = l.rule.Algorithm, 0
				}
			},
			"interval": func(t *rapid.T) {
				l.interval = rapid.SampledFrom([]time.Duration{s, 3 * s, 10 * s}).Draw(t, "interval")
				l.configure()
			},
			"parent": func(t *rapid.T) {
				l.rule.Parent = rapid.Bool().Draw(t, "parent")
				l.configure()
			},
			"climb": func(t *rapid.T) {
				l.above = float64(rapid.SampledFrom([]int{1, 20, 50, 100, 1000}).Draw(t, "leases"))
				l.climb()
			},
			"split": func(t *rapid.T) {
				l.a.Split(l.now, 3, rapid.SampledFrom([]int{0, 0, 4, 7}).Draw(t, "missing"))
				l.cut()
			},
			"moves": func(t *rapid.T) {
				l.moved = l.now
				l.cut()
				heir := l.owner()
				if rapid.Bool().Draw(t, "has heard of the ring") {
					heir.RingMoved(Cluster{Placement: always("me"), Self: "me"})
					heir.Moved(l.now)
				} else {
					heir.RingMoved(Cluster{Placement: always("another"), Self: "me"})
					heir.Moved(-time.Hour)
				}
				if rapid.Bool().Draw(t, "hands over") {
					handOver(l.a, heir, l.now)
					for _, h := range l.hosts {
						if l.now < h.toldTo { // it is leased for as long again
							h.toldTo = l.now + l.rule.Lease
						}
					}
				}
				l.a = heir
			},
		})
	})
}
