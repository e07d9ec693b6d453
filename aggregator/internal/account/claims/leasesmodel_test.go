// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// dumbLeases is Leases without anything clever: maps, and all sums anew every
// time.
type dumbLeases struct {
	way   way
	ways  map[int64]way
	hosts map[uint32]*dumbHost
}

type dumbHost struct {
	bands        map[int64]Band
	part, beyond float64
	held         float64
	until, at    time.Duration
	forgotten    time.Duration // when what it wants counts no more
	known        bool
	short        float64
	loose        bool
	reports      bool
}

func (d *dumbLeases) wayAt(priority int64) way {
	if w, ok := d.ways[priority]; ok {
		return w
	}
	return d.way
}

// priorities in use, highest first.
func (d *dumbLeases) priorities() []int64 {
	all := map[int64]bool{}
	for _, h := range d.hosts {
		for p := range h.bands {
			all[p] = true
		}
	}
	sorted := slices.Sorted(maps.Keys(all))
	slices.Reverse(sorted)
	return sorted
}

// left is of, less what is leased to others than host: exactly.
func (d *dumbLeases) left(of float64, host uint32) float64 {
	sum := new(big.Float).SetPrec(400).SetFloat64(of)
	for id, h := range d.hosts {
		if id != host {
			sum.Sub(sum, big.NewFloat(math.Min(h.held, maxAmount)))
		}
	}
	left, _ := sum.Float64()
	return left
}

func (d *dumbLeases) note(h *dumbHost, bands []Band) {
	claimed := map[int64]Band{}
	for _, b := range bands {
		claimed[b.Priority] = Band{}
	}
	for p := range h.bands {
		if _, ok := claimed[p]; !ok {
			delete(h.bands, p)
		}
	}
	next := map[int64]Band{}
	inUse := d.priorities()
	for _, b := range bands {
		p := b.Priority
		switch {
		case slices.Contains(inUse, p):
		case len(inUse) < maxBands:
			inUse = append(inUse, p)
		default:
			p = slices.MinFunc(inUse, func(a, b int64) int {
				return cmp.Or(cmp.Compare(apart(a, p), apart(b, p)), cmp.Compare(a, b))
			})
		}
		sum := next[p]
		b = clean(b)
		next[p] = clean(Band{Priority: p, Clients: sum.Clients + b.Clients, Wants: sum.Wants + b.Wants})
	}
	h.bands = next
}

func apart(a, b int64) uint64 { return uint64(max(a, b)) - uint64(min(a, b)) }

// targets are what a host's bands get of capacity, bounded by others or not.
func (d *dumbLeases) targets(capacity float64, host uint32) (inBounds, unbounded float64) {
	for _, p := range d.priorities() {
		var claims []Band
		mine := -1
		for id, h := range d.hosts {
			if b, ok := h.bands[p]; ok {
				if id == host {
					mine = len(claims)
				}
				claims = append(claims, b)
			}
		}
		w := d.wayAt(p)
		parts := w.Split(capacity, claims)
		for i, part := range parts {
			capacity -= part
			switch {
			case i != mine:
			case bounded(w.Form):
				inBounds += part
			default:
				unbounded += part
			}
		}
		capacity = math.Max(capacity, 0)
	}
	return inBounds, unbounded
}

// unwanted is h's part of what nobody wants.
func (d *dumbLeases) unwanted(capacity float64, h *dumbHost) float64 {
	own, all := 0.0, 0.0
	for _, other := range d.hosts {
		for _, b := range other.bands {
			all += b.Wants
			if other == h {
				own += b.Wants
			}
		}
	}
	if own == 0 {
		return 0
	}
	more := math.Min(math.Max(capacity-all, 0)*own/all, own*headroom)
	if !h.reports && all <= capacity/2 {
		more += (capacity - all - all*headroom) / float64(2*len(d.hosts))
	}
	return more
}

// kinds says whether h has bands that are bound by what others hold, and bands that are not;
// and the most that the latter can ever have of capacity.
func (d *dumbLeases) kinds(h *dumbHost, capacity float64) (bound, unbound bool, most float64) {
	for p := range h.bands {
		switch w := d.wayAt(p); {
		case bounded(w.Form):
			bound = true
		case w.name == staticWay.name:
			unbound, most = true, most+capacity
		default:
			unbound, most = true, math.Inf(1)
		}
	}
	return bound, unbound, most
}

// isBound says whether what h has is of what there is, at least in part. A host that says
// nothing of what it wants is bound.
func (d *dumbLeases) isBound(h *dumbHost) bool {
	bound, unbound, _ := d.kinds(h, 0)
	return bound || !unbound
}

func (d *dumbLeases) claim(now time.Duration, t Terms, c Capacity, host uint32, claim Claim) float64 {
	h := d.hosts[host]
	holds := h != nil && h.until > now
	if !holds {
		old, loose := map[int64]Band{}, false
		if h != nil {
			old, loose = h.bands, h.loose
		}
		h = &dumbHost{bands: old, loose: loose}
		d.hosts[host] = h
	}
	c.Amount = math.Min(c.Amount, maxAmount)
	round := func(x float64) float64 { return x }
	if c.Whole {
		round = func(x float64) float64 { return math.Ceil(x - wholly) }
		c.Amount = math.Floor(c.Amount)
	}
	has := round(claim.Has)
	if !holds || !claim.Keep || now < t.LearnUntil && len(claim.Bands) > 0 {
		bands := claim.Bands
		if claim.Keep && len(bands) == 0 && has > 0 {
			bands = []Band{{Clients: 1, Wants: has}}
		}
		d.note(h, bands)
		h.loose = claim.Headroom
	}
	if h.reports = t.Part; h.reports {
		h.loose = true
	}
	room := math.Max(d.left(math.Min(c.Amount*(1+c.Overcommit), maxAmount), host), 0)
	if c.Whole {
		room = math.Floor(room + wholly)
	}
	switch {
	case holds && claim.Keep && now-h.at < 2*max(t.Lease, t.Remember):
	case now < t.LearnUntil, claim.Keep && !holds:
		back := has
		switch {
		case claim.Keep && holds: // no more than it holds
			back = math.Min(has, h.part+h.beyond)
		case holds && has == 0 && !claim.Headroom: // what it wants of that
			all := 0.0
			for _, b := range claim.Bands {
				all += clean(b).Wants
			}
			if back = h.part + h.beyond; c.Whole {
				back = math.Floor(back + wholly)
			}
			back = math.Min(back, round(all))
		}
		_, unbounded := d.targets(c.Amount, host)
		switch bound, unbound, any := d.kinds(h, c.Amount); {
		case bound && unbound: // what is not bound gets its target, and the rest is bound
			h.beyond = math.Min(back, round(unbounded))
		case unbound:
			h.beyond = math.Min(back, any)
		default:
			h.beyond = 0
		}
		if h.part = 0; d.isBound(h) {
			h.part = math.Min(back-h.beyond, room)
		}
		h.at, h.known = now, false
	case h.known && now-h.at < t.Recalculate:
	default:
		bounded, unbounded := d.targets(c.Amount, host)
		unbounded = round(unbounded)
		if h.loose && !c.Whole {
			bounded += d.unwanted(c.Amount, h)
		}
		if claim.Keep { // no more than it holds
			bounded, unbounded = math.Min(bounded, h.part), math.Min(unbounded, h.beyond)
		}
		part, sure := round(bounded), math.Floor(bounded+wholly)
		if c.Whole {
			lacking := -h.short
			for _, other := range d.hosts {
				lacking += other.short
			}
			if sure < 1 && room-part < math.Min(math.Min(lacking, 1), h.part) || sure >= 1 && room-part < lacking {
				part = sure
			}
		}
		part = math.Min(part, room)
		if h.short = 0; c.Whole {
			h.short = math.Max(math.Max(sure, math.Min(round(bounded), 1))-part, 0)
		}
		h.part, h.beyond = part, unbounded
		h.at, h.known = now, true
	}
	h.held = h.part
	if c.Whole {
		h.held = math.Max(h.held, has-h.beyond)
	}
	h.until = now + t.Lease
	h.forgotten = h.until + (max(t.Remember-t.Lease, 0) + time.Second - 1).Truncate(time.Second)
	return h.part + h.beyond
}

// check compares all that can be seen, and looks into the trees.
func (d *dumbLeases) check(l *Leases) error {
	if l.Hosts() != len(d.hosts) {
		return fmt.Errorf("%d hosts, want %d", l.Hosts(), len(d.hosts))
	}
	want := -d.left(0, math.MaxUint32)
	for _, h := range d.hosts {
		want += math.Min(h.beyond, maxAmount)
	}
	if !close(l.Leased(), want) {
		return fmt.Errorf("%v is leased, want %v", l.Leased(), want)
	}
	var demand []Band
	for b := range l.Demand {
		demand = append(demand, b)
	}
	priorities := d.priorities()
	if len(demand) != len(priorities) {
		return fmt.Errorf("demand is %v, want bands %v", demand, priorities)
	}
	for i, p := range priorities {
		want := Band{Priority: p}
		for _, h := range d.hosts {
			want.Clients += h.bands[p].Clients
			want.Wants += h.bands[p].Wants
		}
		if demand[i].Priority != p || demand[i].Clients != want.Clients || !close(demand[i].Wants, want.Wants) {
			return fmt.Errorf("demand is %+v, want %+v", demand[i], want)
		}
	}
	nodes := 0
	for _, k := range l.order {
		t := l.tree(k)
		order := t.list(t.root, nil)
		nodes += len(order)
		if !slices.IsSortedFunc(order, func(i, j int32) int {
			if t.before(t.perClient(i), i, j) {
				return -1
			}
			return 1
		}) {
			return fmt.Errorf("band %d is not in order", l.all[k].priority)
		}
		for _, i := range order {
			n := t.nodes[i]
			left, right := t.nodes[n.left], t.nodes[n.right]
			if left.rows+1 > 3*(right.rows+1) || right.rows+1 > 3*(left.rows+1) {
				return fmt.Errorf("band %d has %d on one side, and %d on the other", l.all[k].priority, left.rows, right.rows)
			}
			if n.sumWants != left.sumWants+n.wants+right.sumWants || n.rows != left.rows+1+right.rows || n.band != k {
				return fmt.Errorf("band %d: a sum is wrong: %+v", l.all[k].priority, n)
			}
		}
	}
	for i := l.wanted.free; i != none; i = l.wanted.nodes[i].next {
		nodes++
	}
	if nodes != max(len(l.wanted.nodes)-1, 0) {
		return fmt.Errorf("%d of %d nodes are in trees or free", nodes, len(l.wanted.nodes)-1)
	}
	for at, i := range l.rows.expiry {
		r := l.rows.At(i)
		if r.place != int32(at) || r.due > r.known() || l.rows.At(l.rows.expiry[max(at-1, 0)/2]).due > r.due {
			return fmt.Errorf("the heap is wrong at %d", at)
		}
	}
	return nil
}

// list appends the nodes below i to nodes.
func (t tree) list(i int32, nodes []int32) []int32 {
	if i == none {
		return nodes
	}
	nodes = t.list(t.nodes[i].left, nodes)
	nodes = append(nodes, i)
	return t.list(t.nodes[i].right, nodes)
}

func close(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b), 1) }

func TestLeasesAreWhatTheDumbOnesAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		algorithms := rapid.SampledFrom(allWays[:5])
		usual := algorithms.Draw(t, "algorithm")
		l := usual.NewLeases()
		d := &dumbLeases{usual, map[int64]way{}, map[uint32]*dumbHost{}}
		whole := rapid.Bool().Draw(t, "whole")
		amount := rapid.OneOf(rapid.Map(rapid.IntRange(0, 100), func(i int) float64 { return float64(i) }), rapid.SampledFrom([]float64{0, 5, 1e300, 12345.678}))
		if !whole {
			amount = rapid.OneOf(amount, rapid.Float64Range(0, 100))
		}
		priority := rapid.OneOf(rapid.SampledFrom([]int64{0, 0, 1, 2}), rapid.Int64Range(-100, 100), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64}))
		host := rapid.Map(rapid.IntRange(0, 40), func(i int) uint32 { return uint32(i) })
		capacity := Capacity{Amount: 100, Whole: whole}
		terms := Terms{Lease: 10 * time.Second}
		var now time.Duration
		t.Repeat(map[string]func(*rapid.T){
			"claim": func(t *rapid.T) {
				id := host.Draw(t, "host")
				claim := Claim{Keep: rapid.IntRange(0, 5).Draw(t, "keep") == 0, Has: amount.Draw(t, "has"), Headroom: rapid.Bool().Draw(t, "headroom")}
				for range rapid.IntRange(0, 3).Draw(t, "bands") {
					claim.Bands = append(claim.Bands, Band{Priority: priority.Draw(t, "priority"), Clients: rapid.Int64Range(1, 5).Draw(t, "clients"), Wants: amount.Draw(t, "wants")})
				}
				terms := terms
				terms.Part = claim.Headroom && rapid.Bool().Draw(t, "reports")
				want := d.claim(now, terms, capacity, id, claim)
				got := l.Claim(now, terms, capacity, id, claim)
				if !close(got.Amount, want) || got.Until != now+terms.Lease {
					t.Fatalf("host %d gets %+v, want %v", id, got, want)
				}
			},
			"release": func(t *rapid.T) {
				id := host.Draw(t, "host")
				if got := l.Release(id); got != (d.hosts[id] != nil) {
					t.Fatalf("release of %d: %v", id, got)
				}
				delete(d.hosts, id)
			},
			"time": func(t *rapid.T) {
				now += time.Duration(rapid.IntRange(0, 20).Draw(t, "seconds")) * time.Second
				if rapid.Bool().Draw(t, "expire") {
					want := map[uint32]bool{}
					for id, h := range d.hosts {
						switch {
						case h.forgotten <= now:
							want[id] = true
							delete(d.hosts, id)
						case h.until <= now:
							d.hosts[id] = &dumbHost{bands: h.bands, loose: h.loose, until: h.until, forgotten: h.forgotten}
						}
					}
					l.Expire(now, func(id uint32) {
						if !want[id] {
							t.Fatalf("%d is gone too early", id)
						}
						delete(want, id)
					})
					if len(want) > 0 {
						t.Fatalf("%v are still there", want)
					}
				}
			},
			"rule": func(t *rapid.T) {
				capacity.Amount = math.Min(amount.Draw(t, "capacity"), 1e6)
				capacity.Overcommit = rapid.SampledFrom([]float64{0, 0, .1}).Draw(t, "overcommit")
				terms.Lease = time.Duration(rapid.IntRange(1, 60).Draw(t, "lease")) * time.Second
				terms.Remember = time.Duration(rapid.IntRange(0, 90_000).Draw(t, "remember")) * time.Millisecond
				terms.Recalculate = rapid.SampledFrom([]time.Duration{0, 5 * time.Second}).Draw(t, "recalculate")
				if rapid.IntRange(0, 4).Draw(t, "restart") == 0 {
					terms.LearnUntil = now + 5*time.Second
				}
			},
			"way": func(t *rapid.T) {
				p, a := priority.Draw(t, "priority"), algorithms.Draw(t, "algorithm")
				if rapid.Bool().Draw(t, "usual") {
					within(l, p, nil)
					delete(d.ways, p)
				} else {
					within(l, p, &a)
					d.ways[p] = a
				}
			},
			"": func(t *rapid.T) {
				if err := d.check(l); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
}
