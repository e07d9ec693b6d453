// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"math/rand/v2"
	"testing"
	"time"
)

// slotHosts all hold as many slots as they were granted last.
type slotHosts struct {
	leases   *Leases
	capacity Capacity
	has      []float64
}

func newSlotHosts(slots float64, hosts int) *slotHosts {
	return &slotHosts{fair.NewLeases(), Capacity{Amount: slots, Whole: true}, make([]float64, hosts)}
}

func (s *slotHosts) claim(host int, wants float64) float64 {
	s.has[host] = s.leases.Claim(0, minute, s.capacity, uint32(host), Claim{Bands: []Band{{Clients: 1, Wants: wants}}}).Amount
	return s.has[host]
}

func (s *slotHosts) held() float64 {
	sum := 0.0
	for _, h := range s.has {
		sum += h
	}
	return sum
}

func TestSlotsAreOnesAndNotZeros(t *testing.T) {
	s := newSlotHosts(100, 250)
	for h := range s.has {
		want := 0.
		if h < 100 {
			want = 1
		}
		if got := s.claim(h, 1); got != want {
			t.Fatalf("host %d gets %v, want %v", h, got, want)
		}
	}
}

func TestMoreHostsThanSlotsTakeTurns(t *testing.T) {
	for _, wants := range []float64{10, .3} { // .3 is enough for all, but there are no parts of slots
		s := newSlotHosts(100, 400)
		rnd := rand.New(rand.NewPCG(1, 1))
		served := make([]int, len(s.has))
		const rounds = 200
		for round := range rounds {
			for _, h := range rnd.Perm(len(s.has)) {
				s.claim(h, wants)
				if held := s.held(); held > 100 || round > 5 && held < 99 {
					t.Fatalf("round %d: %v of 100 slots are held", round, held)
				}
			}
			for h, has := range s.has {
				served[h] += int(has)
			}
		}
		for h, n := range served { // a quarter of all rounds is fair
			if n < rounds/12 || n > rounds/2 {
				t.Errorf("host %d had a slot in %d of %d rounds", h, n, rounds)
			}
		}
	}
}

func TestNobodyHasTwoSlotsWhileAnotherLacksOne(t *testing.T) {
	s := newSlotHosts(100, 60)
	for h := range 50 {
		if got := s.claim(h, 10); h == 0 && got != 10 {
			t.Fatalf("the first host gets %v", got)
		}
	}
	for range 3 {
		for h := range s.has {
			s.claim(h, 10)
		}
	}
	for h, has := range s.has {
		if has < 1 || has > 2 {
			t.Errorf("host %d has %v slots", h, has)
		}
	}
	if held := s.held(); held != 100 {
		t.Errorf("%v slots are held", held)
	}
	before := append([]float64(nil), s.has...)
	for h := range s.has {
		if got := s.claim(h, 10); got != before[h] {
			t.Errorf("host %d had %v and gets %v, though nothing has changed", h, before[h], got)
		}
	}
}

func TestSlotsInUseCountAboveTheGrant(t *testing.T) {
	l := fair.NewLeases()
	capacity := Capacity{Amount: 10, Whole: true}
	claim := func(host uint32, has, w float64) float64 {
		return l.Claim(0, minute, capacity, host, Claim{Has: has, Bands: wants(w)}).Amount
	}
	claim(1, 0, 10)
	claim(2, 0, 10)
	for i, tt := range []struct {
		host     uint32
		has, w   float64
		want     float64
		leased   float64
		capacity float64
	}{
		{1, 10, 10, 5, 10, 10},       // it is to shrink, but ten are in use still
		{2, 0, 10, 0, 10, 10},        //
		{1, 7, 10, 5, 7, 10},         // three came back
		{2, 0, 10, 3, 10, 10},        //
		{1, 2.0000001, 10, 5, 8, 10}, // less in use than granted, by rounding no more than two
		{2, 3, 10, 5, 10, 10},        //
		{1, 5, 1.2, 2, 10, 10},       // parts of slots are wanted; five are in use
		{2, 5, 10, 5, 10, 10},        //
		{1, 2, 1.2, 2, 7, 10},        //
		{2, 5, 10, 8, 10, 9.9999999}, // a capacity that is whole but for rounding
		{2, 8, 10, 6, 10, 8.5},       // no half slots
		{1, 2, 1e300, 0, 10, 8.5},    //
		{2, 4, 10, 4, 6, 8.5},        //
		{1, 2, -1, 0, 6, 8.5},        // wants none, but has two
		{1, 0, 0, 0, 4, 8.5},         //
		{2, 4, 10, 8, 8, 8.5},        //
	} {
		capacity.Amount = tt.capacity
		if got := claim(tt.host, tt.has, tt.w); got != tt.want || l.Leased() != tt.leased {
			t.Errorf("step %d: host %d gets %v, and %v are leased; want %v and %v", i, tt.host, got, l.Leased(), tt.want, tt.leased)
		}
	}
}

func TestSlotsOfADeadHolderReturnWithItsLease(t *testing.T) {
	l := fair.NewLeases()
	capacity := Capacity{Amount: 1, Whole: true}
	claim := func(now time.Duration, host uint32) float64 {
		l.Expire(now, func(uint32) {})
		return l.Claim(now, minute, capacity, host, Claim{Bands: wants(1)}).Amount
	}
	if a, b := claim(0, 1), claim(59*time.Second, 2); a != 1 || b != 0 {
		t.Errorf("at first they get %v and %v", a, b)
	}
	if got := claim(60*time.Second, 2); got != 1 {
		t.Errorf("when the holder's lease has ended, the other gets %v", got)
	}
}

func TestWhoLacksSlotsAndIsGoneIsForgotten(t *testing.T) {
	s := newSlotHosts(3, 6)
	for range 2 {
		s.claim(0, 10)
		s.claim(1, 10)
	}
	has := append([]float64(nil), s.has...)
	for h := 2; h < 6; h++ { // they lack one each
		s.claim(h, 10)
		s.leases.Release(uint32(h))
	}
	for h := range 2 {
		if got := s.claim(h, 10); got != has[h] {
			t.Errorf("host %d gives slots up for none: it has %v, and had %v", h, got, has[h])
		}
	}
}
