// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/algorithm"
)

func wants(w float64) []Band { return []Band{{Clients: 1, Wants: w}} }

var minute = Terms{Lease: time.Minute}

func TestHostsThatArriveOneByOneGetWhatIsLeft(t *testing.T) {
	l := proportional.NewLeases()
	for host, tt := range []struct {
		wants, want float64
		short       bool
	}{{60, 60, false}, {75, 60, false}, {10, 0, true}} {
		got := l.Claim(0, minute, Capacity{Amount: 120}, uint32(host), Claim{Bands: wants(tt.wants)})
		if got != (Lease{Amount: tt.want, Until: time.Minute, Short: tt.short}) {
			t.Errorf("host %d wants %v and gets %+v, want %v", host, tt.wants, got, tt.want)
		}
	}
}

func TestNoneAndStaticDoNotCareForOthers(t *testing.T) {
	for _, tt := range []struct {
		way         way
		wants, want []float64
	}{
		{noneWay, []float64{10, 1000, 1e300}, []float64{10, 1000, 1e300}},
		{staticWay, []float64{100, 10, 120}, []float64{100, 10, 100}},
	} {
		l := tt.way.NewLeases()
		for host, w := range tt.wants {
			if got := l.Claim(0, minute, Capacity{Amount: 100}, uint32(host), Claim{Bands: wants(w)}); got.Amount != tt.want[host] {
				t.Errorf("%v: who wants %v gets %v, want %v", tt.way, w, got.Amount, tt.want[host])
			}
		}
	}
}

// A host that always asks to keep what it has, however much that is, gets its target in the
// end, and so do the others. A smaller limit reaches it too.
func TestAHostThatAlwaysKeepsShutsNobodyOut(t *testing.T) {
	l := fair.NewLeases()
	claims := func(at time.Duration, amount float64) (kept, asked float64) {
		l.Expire(at, func(uint32) {})
		kept = l.Claim(at, minute, Capacity{Amount: amount}, 0, Claim{Has: 1 << 53, Keep: true}).Amount
		return kept, l.Claim(at, minute, Capacity{Amount: amount}, 1, Claim{Bands: wants(50)}).Amount
	}
	for at := time.Duration(0); at < 2*time.Minute; at += 20 * time.Second {
		if kept, asked := claims(at, 100); kept != 100 || asked != 0 {
			t.Errorf("at %v: %v kept, and %v for the other host", at, kept, asked)
		}
	}
	if kept, asked := claims(2*time.Minute, 100); kept != 50 || asked != 50 { // it is the first that gives something back
		t.Errorf("after two leases: %v kept, and %v for the other host; want 50 and 50", kept, asked)
	}
	for at := 3 * time.Minute; at < 8*time.Minute; at += 20 * time.Second {
		if kept, asked := claims(at, 10); at > 6*time.Minute && kept+asked > 10 {
			t.Errorf("at %v: %v and %v of 10", at, kept, asked)
		}
	}
}

func TestClaimsInTime(t *testing.T) {
	second := time.Second
	learning := Terms{Lease: 60 * second, Recalculate: 5 * second, LearnUntil: 60 * second}
	usual := Terms{Lease: 60 * second, Recalculate: 5 * second}
	short := Terms{Lease: 3 * second, Recalculate: 5 * second}
	brief := Terms{Lease: 10 * second, Remember: 60 * second}
	type step struct {
		at       time.Duration
		terms    Terms
		capacity float64
		host     uint32
		claim    Claim
		want     float64
	}
	for _, tt := range []struct {
		name  string
		way   way
		steps []step
	}{
		{"a new owner hands back what hosts have, whatever the algorithm", fair, []step{
			{0, learning, 100, 1, Claim{Has: 20, Bands: wants(30)}, 20},
			{0, learning, 100, 2, Claim{Has: 70, Bands: wants(50)}, 70}, // more than it wants
			{0, learning, 100, 3, Claim{Bands: wants(50)}, 0},           // new
			{0, learning, 100, 4, Claim{Has: 90, Bands: wants(90)}, 10}, // more than there is
			{59 * second, learning, 100, 3, Claim{Bands: wants(50)}, 0},
			{60 * second, learning, 200, 3, Claim{Bands: wants(50)}, 50}, // what others had has ended
		}},
		{"a new owner hands back what no owner bounds", noneWay, []step{
			{0, learning, 100, 1, Claim{Has: 1000, Bands: wants(30)}, 1000},
			{0, learning, 100, 2, Claim{Has: 90, Bands: wants(90)}, 90},
		}},
		{"a new owner gives a host that says it has nothing what it leases to it", fair, []step{
			{0, learning, 100, 1, Claim{Keep: true, Has: 60, Bands: wants(80)}, 60}, // an earlier owner handed it over
			{8 * second, learning, 100, 1, Claim{Bands: wants(80)}, 60},
			{8 * second, learning, 100, 2, Claim{Bands: wants(80)}, 0}, // new
			{16 * second, learning, 100, 1, Claim{Bands: wants(30)}, 30},
			{24 * second, learning, 100, 1, Claim{Headroom: true, Bands: wants(80)}, 0}, // it says what it has
		}},
		{"what was handed back is not there for others", fair, []step{
			{59 * second, learning, 100, 1, Claim{Has: 80, Bands: wants(80)}, 80},
			{60 * second, learning, 100, 2, Claim{Bands: wants(80)}, 20},
			{60 * second, learning, 100, 1, Claim{Has: 80, Bands: wants(80)}, 50}, // learning counts for no calculation
			{65 * second, learning, 100, 2, Claim{Has: 20, Bands: wants(80)}, 50},
		}},
		{"who learns hands nonsense back as nothing", noneWay, []step{
			{0, learning, 100, 1, Claim{Has: math.NaN()}, 0},
			{0, learning, 100, 2, Claim{Has: -1}, 0},
			{0, learning, 100, 3, Claim{Has: math.Inf(1)}, 100},
		}},
		{"asking again soon changes nothing but what is known to be wanted", fair, []step{
			{0, usual, 100, 1, Claim{Bands: wants(100)}, 100},
			{4 * second, usual, 100, 1, Claim{Bands: wants(10)}, 100},
			{4 * second, usual, 100, 2, Claim{Bands: wants(100)}, 0},
			{5 * second, usual, 100, 1, Claim{Bands: wants(10)}, 10}, // 5s since it was calculated, not since it asked
			{8999 * time.Millisecond, usual, 100, 2, Claim{Bands: wants(100)}, 0},
			{9 * second, usual, 100, 2, Claim{Bands: wants(100)}, 90},
		}},
		{"asking again soon makes the lease longer", fair, []step{
			{0, short, 100, 1, Claim{Bands: wants(60)}, 60},
			{2 * second, short, 100, 1, Claim{Bands: wants(60)}, 60},
			{4 * second, short, 100, 2, Claim{Bands: wants(60)}, 40},
			{5 * second, short, 100, 2, Claim{Bands: wants(60)}, 40}, // 1 is gone, but it is soon
		}},
		{"the end of a lease ends the wait", fair, []step{
			{0, short, 100, 1, Claim{Bands: wants(60)}, 60},
			{3 * second, short, 100, 1, Claim{Bands: wants(10)}, 10},
		}},
		{"keep what I have", fair, []step{
			{0, usual, 100, 1, Claim{Bands: wants(60)}, 60},
			{10 * second, usual, 100, 1, Claim{Keep: true, Has: 30}, 60}, // what it had here counts
			{10 * second, usual, 40, 1, Claim{Keep: true, Bands: wants(1)}, 60},
			{20 * second, usual, 100, 2, Claim{Bands: wants(60)}, 40}, // its wants are known still: 50 each
			{20 * second, usual, 100, 1, Claim{Bands: wants(60)}, 50},
			{25 * second, usual, 100, 2, Claim{Bands: wants(60)}, 50},
		}},
		{"keep what I have from an earlier owner", fair, []step{
			{0, learning, 100, 1, Claim{Keep: true, Has: 120}, 100},
			{60 * second, usual, 100, 2, Claim{Bands: wants(80)}, 80},
			{60 * second, usual, 100, 3, Claim{Keep: true, Has: 50}, 20}, // as far as there is
		}},
		{"who keeps wants what it has", fair, []step{
			{0, usual, 100, 1, Claim{Keep: true, Has: 40}, 40},
			{0, usual, 100, 2, Claim{Bands: wants(80)}, 60}, // and so 2 wants 20 too much
			{50 * second, usual, 100, 3, Claim{Bands: wants(80)}, 0},
			{50 * second, usual, 100, 2, Claim{Bands: wants(80)}, 100. / 3},
			{60 * second, usual, 100, 3, Claim{Bands: wants(80)}, 50}, // 1 is gone
		}},
		{"a capacity that is cut", fair, []step{
			{0, usual, 100, 1, Claim{Bands: wants(25)}, 25},
			{0, usual, 100, 2, Claim{Bands: wants(25)}, 25},
			{0, usual, 100, 3, Claim{Bands: wants(25)}, 25},
			{0, usual, 100, 4, Claim{Bands: wants(25)}, 25},
			{8 * second, usual, 40, 1, Claim{Bands: wants(25)}, 0}, // 75 of 40 are out
			{8 * second, usual, 40, 2, Claim{Bands: wants(25)}, 0},
			{8 * second, usual, 40, 3, Claim{Bands: wants(25)}, 10},
			{8 * second, usual, 40, 4, Claim{Bands: wants(25)}, 10},
			{16 * second, usual, 40, 1, Claim{Bands: wants(25)}, 10},
			{16 * second, usual, 40, 2, Claim{Bands: wants(25)}, 10},
		}},
		{"no capacity", proportional, []step{
			{0, usual, 0, 1, Claim{Bands: wants(25)}, 0},
			{0, usual, math.NaN(), 2, Claim{Bands: wants(25)}, 0},
			{0, usual, -5, 3, Claim{Bands: wants(25)}, 0},
			{0, usual, math.Inf(1), 4, Claim{Bands: wants(25)}, 25},
		}},
		{"no time", fair, []step{
			{0, Terms{}, 100, 1, Claim{Bands: wants(25)}, 0},
			{0, Terms{Lease: -second}, 100, 1, Claim{Has: 20, Keep: true}, 0},
			{0, Terms{Lease: -second, LearnUntil: second}, 100, 2, Claim{Has: 20}, 0},
		}},
		{"what a host wants counts when its lease has ended", fair, []step{
			{0, brief, 100, 1, Claim{Bands: wants(100)}, 100},
			{20 * second, brief, 100, 2, Claim{Bands: wants(100)}, 50}, // host 1 is about to ask again
			{20 * second, brief, 100, 1, Claim{Bands: wants(100)}, 50},
			{79 * second, brief, 100, 2, Claim{Bands: wants(100)}, 50},
			{80 * second, brief, 100, 2, Claim{Bands: wants(100)}, 100},
		}},
		{"who measured what it wants gets a part of what none wants", fair, []step{
			{0, usual, 100, 1, Claim{Bands: wants(60), Headroom: true}, 66},
			{0, usual, 100, 2, Claim{Bands: wants(35)}, 34},
			{5 * second, usual, 100, 1, Claim{Bands: wants(60), Headroom: true}, 60 + 5*60./95},
			{5 * second, usual, 100, 2, Claim{Bands: wants(35)}, 35},
			{10 * second, usual, 100, 2, Claim{Bands: wants(50)}, 40 - 5*60./95},
			{10 * second, usual, 100, 1, Claim{Bands: wants(60), Headroom: true}, 50},
		}},
		{"of much that none wants, each gets an even part of half", fair, []step{
			{0, usual, 100, 1, Claim{Bands: wants(20), Headroom: true}, 22 + 78./2},
			{0, usual, 100, 2, Claim{Bands: wants(15), Headroom: true}, 16.5 + 61.5/2/2},
			{5 * second, usual, 100, 1, Claim{Bands: wants(20), Headroom: true}, 22 + 61.5/2/2},
			{5 * second, usual, 100, 2, Claim{Bands: wants(31), Headroom: true}, 34.1},
			{10 * second, usual, 100, 1, Claim{Bands: wants(20), Headroom: true}, 22},
		}},
		{"nonsense is wanted", proportional, []step{
			{0, usual, 100, 1, Claim{Bands: wants(math.NaN())}, 0},
			{0, usual, 100, 2, Claim{Bands: wants(-1)}, 0},
			{0, usual, 100, 3, Claim{Bands: wants(math.Inf(1))}, 100}, // it alone wants something
			{0, usual, 100, 4, Claim{}, 0},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := tt.way.NewLeases()
			for i, s := range tt.steps {
				l.Expire(s.at, func(uint32) {})
				got := l.Claim(s.at, s.terms, Capacity{Amount: s.capacity}, s.host, s.claim)
				want := Lease{Amount: s.want, Until: s.at + max(s.terms.Lease, 0), Learning: s.at < s.terms.LearnUntil}
				if !near(got.Amount, s.want) || got.Until != want.Until || got.Learning != want.Learning {
					t.Errorf("step %d: host %d gets %+v, want %+v", i, s.host, got, want)
				}
			}
		})
	}
}

func TestHigherBandsAreServedFirst(t *testing.T) {
	for _, tt := range []struct {
		name   string
		within map[int64]way
		bands  []Band // of hosts 0, 1, 2 …
		want   []float64
	}{
		{"enough for one", nil, []Band{{Priority: 10, Clients: 1, Wants: 70}, {Priority: 5, Clients: 1, Wants: 50}, {Priority: 0, Clients: 1, Wants: 50}}, []float64{70, 30, 0}},
		{"within a band", nil, []Band{{Priority: 10, Clients: 1, Wants: 40}, {Priority: 5, Clients: 1, Wants: 50}, {Priority: 5, Clients: 2, Wants: 500}, {Priority: 0, Clients: 1, Wants: 50}}, []float64{40, 20, 40, 0}},
		{"negative ones too", nil, []Band{{Priority: -1, Clients: 1, Wants: 70}, {Priority: math.MinInt64, Clients: 1, Wants: 50}, {Priority: math.MaxInt64, Clients: 1, Wants: 50}}, []float64{50, 0, 50}},
		{"an algorithm for a band", map[int64]way{5: proportional}, []Band{{Priority: 10, Clients: 1, Wants: 40}, {Priority: 5, Clients: 1, Wants: 40}, {Priority: 5, Clients: 1, Wants: 80}, {Priority: 5, Clients: 1, Wants: 9}}, []float64{40, 9 + 11 + 11*20./80, 9 + 11 + 11*60./80, 9}},
		{"one that lends to each the same", map[int64]way{5: staticWay}, []Band{{Priority: 10, Clients: 1, Wants: 40}, {Priority: 5, Clients: 1, Wants: 90}, {Priority: 5, Clients: 1, Wants: 80}, {Priority: 5, Clients: 1, Wants: 9}, {Priority: 0, Clients: 1, Wants: 10}}, []float64{40, 60, 60, 9, 0}},
		{"one that lends all they want", map[int64]way{5: noneWay}, []Band{{Priority: 10, Clients: 1, Wants: 40}, {Priority: 5, Clients: 1, Wants: 90}, {Priority: 0, Clients: 1, Wants: 10}}, []float64{40, 90, 0}},
		{"one that asks for less than there is", map[int64]way{5: noneWay}, []Band{{Priority: 5, Clients: 1, Wants: 40}, {Priority: 0, Clients: 1, Wants: 90}, {Priority: 0, Clients: 1, Wants: 10}}, []float64{40, 50, 10}},
	} {
		l := fair.NewLeases()
		for p, a := range tt.within {
			within(l, p, &a)
		}
		got := make([]float64, len(tt.bands))
		for range 2 { // the first time, those who are first find all free
			for h, b := range tt.bands {
				got[h] = l.Claim(0, minute, Capacity{Amount: 100}, uint32(h), Claim{Bands: []Band{b}}).Amount
			}
		}
		if fmt.Sprintf("%.6f", got) != fmt.Sprintf("%.6f", tt.want) {
			t.Errorf("%s: %v get %v, want %v", tt.name, tt.bands, got, tt.want)
		}
	}
}

func TestAHostGetsTheSumOfItsBands(t *testing.T) {
	l := fair.NewLeases()
	capacity := Capacity{Amount: 100}
	below := Claim{Bands: []Band{{Priority: 0, Clients: 3, Wants: 90}, {Priority: 10, Clients: 1, Wants: 30}, {Priority: 0, Clients: 2, Wants: 10}}} // {Priority: 0, Clients: 5, Wants: 100}, {Priority: 10, Clients: 1, Wants: 30}
	l.Claim(0, minute, capacity, 1, below)
	l.Claim(0, minute, capacity, 2, Claim{Bands: []Band{{Priority: 0, Clients: 2, Wants: 50}, {Priority: 10, Clients: 1, Wants: 20}}})
	// 50 go to band 10, and 50 to seven clients of band 0.
	if got := l.Claim(0, minute, capacity, 1, below).Amount; !near(got, 30+50*5/7.) {
		t.Errorf("host 1 gets %v", got)
	}
	if got := l.Claim(0, minute, capacity, 2, Claim{Bands: []Band{{Priority: 0, Clients: 2, Wants: 50}, {Priority: 10, Clients: 1, Wants: 20}}}).Amount; !near(got, 20+50*2/7.) {
		t.Errorf("host 2 gets %v", got)
	}
	if got := slices.Collect(l.Demand); !slices.Equal(got, []Band{{Priority: 10, Clients: 2, Wants: 50}, {Priority: 0, Clients: 7, Wants: 150}}) {
		t.Errorf("demand is %v", got)
	}
	for b := range l.Demand {
		if b.Priority != 10 {
			t.Error("Demand goes on after it was told to stop")
		}
		break
	}
}

func TestPrioritiesBeyondCountingShareBands(t *testing.T) {
	l := fair.NewLeases()
	for h := range 1000 {
		l.Claim(0, minute, Capacity{Amount: 500}, uint32(h), Claim{Bands: []Band{{Priority: int64(h) * 10, Clients: 1, Wants: 1}}})
	}
	demand := slices.Collect(l.Demand)
	var sum float64
	for _, b := range demand {
		sum += b.Wants
	}
	if len(demand) != maxBands || sum != 1000 || l.Leased() != 500 {
		t.Errorf("%v of %v are leased, in bands %v", l.Leased(), sum, demand)
	}
	for h := range 1000 {
		l.Release(uint32(h))
	}
	l.Claim(0, minute, Capacity{Amount: 500}, 1, Claim{Bands: []Band{{Priority: -7, Clients: 1, Wants: 1}}})
	if got := slices.Collect(l.Demand); !slices.Equal(got, []Band{{Priority: -7, Clients: 1, Wants: 1}}) {
		t.Errorf("bands that none is in stay: %v", got)
	}
}

func TestBetweenTwoBandsTheLowerIsJoined(t *testing.T) {
	for priority, want := range map[int64]int64{1: 0, 5: 0, 6: 10, 145: 140, 151: 150, 1000: 150, -1: 0, math.MinInt64: 0, math.MaxInt64: 150} {
		l := fair.NewLeases()
		for h := range maxBands {
			l.Claim(0, minute, Capacity{}, uint32(h), Claim{Bands: []Band{{Priority: int64(h) * 10, Clients: 1, Wants: 1}}})
		}
		l.Claim(0, minute, Capacity{}, 99, Claim{Bands: []Band{{Priority: priority, Clients: 1, Wants: 5}}})
		for b := range l.Demand {
			if (b.Wants == 6) != (b.Priority == want) {
				t.Errorf("priority %d: %v, want it in %d", priority, b, want)
			}
		}
	}
}

func TestALeaseThatEndedCountsForItsHostNoMore(t *testing.T) {
	l := fair.NewLeases()
	terms := Terms{Lease: time.Second, Recalculate: time.Minute}
	l.Claim(0, terms, Capacity{Amount: 100}, 1, Claim{Bands: wants(60)})
	// Expire was not called.
	if got := l.Claim(time.Second, terms, Capacity{Amount: 100}, 1, Claim{Bands: wants(10)}); got.Amount != 10 {
		t.Errorf("it gets %v, want 10", got.Amount)
	}
	if got := l.Claim(2*time.Second, terms, Capacity{Amount: 100}, 1, Claim{Keep: true, Has: 120}); got.Amount != 100 {
		t.Errorf("it keeps %v, want 100", got.Amount)
	}
}

func TestLeasesEnd(t *testing.T) {
	l := fair.NewLeases()
	capacity := Capacity{Amount: 100}
	for h, lease := range []time.Duration{5, 1, 4, 3, 2, 9, 1} {
		l.Claim(0, Terms{Lease: lease * time.Second}, capacity, uint32(h), Claim{Bands: wants(10)})
	}
	l.Claim(0, Terms{Lease: 6 * time.Second}, capacity, 1, Claim{Bands: wants(10)}) // longer
	l.Claim(0, Terms{Lease: time.Second}, capacity, 5, Claim{Bands: wants(10)})     // shorter
	l.Release(2)
	for _, tt := range []struct {
		at   time.Duration
		gone []uint32
	}{{1 * time.Second, []uint32{5, 6}}, {2500 * time.Millisecond, []uint32{4}}, {5 * time.Second, []uint32{3, 0}}, {6 * time.Second, []uint32{1}}, {time.Hour, nil}} {
		var gone []uint32
		l.Expire(tt.at, func(h uint32) { gone = append(gone, h) })
		slices.Sort(gone)
		slices.Sort(tt.gone)
		if !slices.Equal(gone, tt.gone) {
			t.Errorf("at %v %v are gone, want %v", tt.at, gone, tt.gone)
		}
	}
	if l.Hosts() != 0 || l.Leased() != 0 || l.Knows(1) || l.Release(1) {
		t.Errorf("something is left: %d hosts, %v leased", l.Hosts(), l.Leased())
	}
	if got := l.Claim(5, Terms{Lease: math.MaxInt64}, capacity, 1, Claim{Bands: wants(1)}); got.Until != math.MaxInt64 {
		t.Errorf("a lease for ever ends at %v", got.Until)
	}
}

func TestWhatWasHugeAndIsGoneLeavesNoTrace(t *testing.T) {
	for _, a := range ways {
		l := a.NewLeases()
		capacity := Capacity{Amount: 1}
		claim := func(host uint32, w float64) float64 {
			return l.Claim(0, minute, capacity, host, Claim{Bands: wants(w)}).Amount
		}
		claim(1, .3)
		learning := Terms{Lease: time.Minute, LearnUntil: time.Second}
		for i, huge := range []float64{1e300, 1e150, 1e20, maxAmount, 12345.6789, math.MaxFloat64} {
			claim(uint32(10+i), huge)
			l.Claim(0, learning, capacity, uint32(20+i), Claim{Has: huge})
		}
		claim(2, .2)
		for i := range uint32(6) {
			claim(10+i, 0)
			l.Release(20 + i)
		}
		if a, b := claim(1, .3), claim(2, .2); a != .3 || b != .2 {
			t.Errorf("0.3 and 0.2 of 1 became %v and %v", a, b)
		}
		if got := l.Leased(); math.Abs(got-.5) > 1e-14 {
			t.Errorf("%v: %v is leased, want 0.5", a, got)
		}
		for b := range l.Demand {
			if b.Wants != .5 {
				t.Errorf("%v: demand is %v, want 0.5", a, b)
			}
		}
	}
}

func TestOvercommitIsBounded(t *testing.T) {
	l := fair.NewLeases()
	capacity := Capacity{Amount: 100, Overcommit: .1}
	for host, want := range []float64{100, 10, 0} {
		if got := l.Claim(0, minute, capacity, uint32(host), Claim{Bands: wants(100)}).Amount; !near(got, want) {
			t.Errorf("host %d gets %v, want %v", host, got, want)
		}
	}
	l = fair.NewLeases()
	capacity = Capacity{Amount: 20, Whole: true, Overcommit: .15} // 22.999999999999996
	l.Claim(0, minute, capacity, 1, Claim{Bands: wants(20)})
	if got := l.Claim(0, minute, capacity, 2, Claim{Bands: wants(20)}).Amount; got != 3 {
		t.Errorf("%v slots are lent twice, want 3", got)
	}
}

func TestACapacityIsHandedOutOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := rapid.SampledFrom([]way{proportional, fair}).Draw(t, "algorithm").NewLeases()
		capacity := Capacity{Amount: amounts.Draw(t, "capacity"), Whole: rapid.Bool().Draw(t, "whole")}
		var has [8]float64
		for range rapid.IntRange(1, 50).Draw(t, "claims") {
			host := rapid.IntRange(0, len(has)-1).Draw(t, "host")
			bands := rapid.SliceOfN(anyBand, 0, 3).Draw(t, "bands")
			got := l.Claim(0, minute, capacity, uint32(host), Claim{Has: has[host], Bands: bands}).Amount
			asked := 0.0
			for _, b := range bands {
				asked += clean(b).Wants
			}
			if !(got >= 0) || math.Signbit(got) || got > capacity.up(most(asked)) || capacity.Whole && got != math.Floor(got) {
				t.Fatalf("%v are wanted, and it gets %v", asked, got)
			}
			has[host] = got
			sum := 0.0
			for _, h := range has {
				sum += h
			}
			if sum > most(min(capacity.Amount, maxAmount)) {
				t.Fatalf("%v of %v are out: %v", sum, capacity.Amount, has)
			}
		}
	})
}

func TestTwoRoundsReachTheSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SampledFrom([]way{proportional, fair}).Draw(t, "algorithm")
		l := a.NewLeases()
		w, capacity := a, Capacity{Amount: rapid.Float64Range(0, 100).Draw(t, "capacity")}
		claimed := rapid.SampledFrom([]*rapid.Generator[Band]{anyBand, plainBand}).Draw(t, "kind")
		hosts := uint32(rapid.IntRange(1, 12).Draw(t, "hosts"))
		claims := make([]Band, hosts)
		for range 2 { // first anything, then what is to be reached
			for h := range hosts {
				claims[h] = claimed.Draw(t, "claim")
				claims[h].Priority = 0
				l.Claim(0, minute, capacity, h, Claim{Bands: claims[h : h+1]})
			}
		}
		for range 2 {
			for h := range hosts {
				l.Claim(0, minute, capacity, h, Claim{Bands: claims[h : h+1]})
			}
		}
		for h, want := range w.Split(capacity.Amount, claims) {
			got := l.Claim(0, minute, capacity, uint32(h), Claim{Bands: claims[h : h+1]}).Amount
			if math.Abs(got-want) > 1e-9*max(capacity.Amount, 1) {
				t.Fatalf("host %d wants %+v and gets %v, want %v", h, claims[h], got, want)
			}
		}
	})
}

func ExampleLeases_Claim() {
	leases := fair.NewLeases()
	terms := Terms{Lease: time.Minute, Recalculate: 5 * time.Second}
	capacity := Capacity{Amount: 100}
	claim := func(now time.Duration, host uint32, wants float64) {
		leases.Expire(now, func(host uint32) { fmt.Println(host, "is gone") })
		lease := leases.Claim(now, terms, capacity, host, Claim{Bands: []Band{{Clients: 1, Wants: wants}}})
		fmt.Printf("%v: %d gets %v until %v\n", now, host, lease.Amount, lease.Until)
	}
	claim(0, 1, 90)
	claim(1*time.Second, 2, 80)  // what 1 leaves, for now
	claim(8*time.Second, 1, 90)  // half
	claim(9*time.Second, 2, 80)  // half
	claim(70*time.Second, 2, 80) // 1 was silent
	// Output:
	// 0s: 1 gets 90 until 1m0s
	// 1s: 2 gets 10 until 1m1s
	// 8s: 1 gets 50 until 1m8s
	// 9s: 2 gets 50 until 1m9s
	// 1 is gone
	// 2 is gone
	// 1m10s: 2 gets 80 until 2m10s
}

// A weigher that makes no number of a host's part leaves the host what it holds until that lease ends, and
// makes the lease no longer.
func TestAWeigherThatFailsExtendsNoLease(t *testing.T) {
	fails := false
	l := way{"odd", algorithm.Weigher{Weigh: func(_ float64, demands []algorithm.Demand, parts []float64) {
		for i := range parts {
			if parts[i] = demands[i].Wants; fails {
				parts[i] = math.NaN()
			}
		}
	}}}.NewLeases()
	capacity, claim := Capacity{Amount: 100}, Claim{Bands: wants(40)}
	l.Claim(0, minute, capacity, 1, claim)
	fails = true
	for now := 20 * time.Second; now < 2*time.Minute; now += 20 * time.Second {
		l.Expire(now, func(uint32) {})
		got := l.Claim(now, minute, capacity, 1, claim)
		if holds := now < time.Minute; !got.Invalid || holds && (got.Amount != 40 || got.Until != time.Minute) || !holds && got.Amount != 0 {
			t.Errorf("at %v it holds %+v; it was granted 40 until 1m0s", now, got)
		}
	}
	// A new host holds nothing, and what it wants counts for as long as what others want.
	if got := l.Claim(0, minute, capacity, 2, claim); !got.Invalid || got.Amount != 0 || got.Until != time.Minute {
		t.Errorf("a new host holds %+v", got)
	}
}

// Hosts that each want an even part of the capacity want, rounded, a little more or less than it. Each gets what it
// wants and is not short, and all is leased.
func TestEvenPartsFitButForRounding(t *testing.T) {
	for _, way := range []way{fair, proportional} {
		for hosts := uint32(1); hosts <= 100; hosts++ {
			l, c := way.NewLeases(), Capacity{Amount: 1000}
			even := c.Amount / float64(hosts)
			for host := range hosts {
				if got := l.Claim(0, minute, c, host, Claim{Bands: wants(even)}); !close(got.Amount, even) || got.Short {
					t.Errorf("%v: host %d of %d wants %v, and gets %+v", way, host, hosts, even, got)
				}
			}
			if !l.allOut(c) {
				t.Errorf("%v: %v is leased to %d hosts", way, l.Leased(), hosts)
			}
		}
	}
}

// An owner that learns leaves what a host wants as it was, if the host only keeps what it has.
func TestToKeepChangesNoDemand(t *testing.T) {
	l := fair.NewLeases()
	learning := Terms{Lease: time.Minute, LearnUntil: time.Minute}
	l.Claim(0, learning, Capacity{Amount: 100}, 1, Claim{Has: 20, Bands: wants(50)})
	l.Claim(time.Second, learning, Capacity{Amount: 100}, 1, Claim{Has: 20, Keep: true})
	for b := range l.Demand {
		if b.Wants != 50 {
			t.Errorf("the host wants %v, not the 50 that it said", b.Wants)
		}
	}
}
