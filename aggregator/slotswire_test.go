// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"math"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/rpc/usage"
)

// slotHost is a host with slots in flight, which it reports over the wire.
type slotHost struct {
	name        string
	uses, wants float64
	has         float64 // granted
}

// report has h report to a at now, of a limit of so many slots. Old hosts say what they have as
// a part of the limit only.
func (h *slotHost) report(t *testing.T, a *Aggregator, now time.Duration, limit float64, old bool) {
	t.Helper()
	u := reportOf("fair-share", 0, 0, s, "k")
	has := max(h.has, h.uses)
	u.Weight[0], u.Wants = min(has/limit, 1), []float64{h.wants}
	if !old {
		u.Slots = []int64{int64(has) + 1}
	}
	read := new(usage.Report)
	if err := (usage.Columnar{}).DecodeReport(encode(t, u), read); err != nil {
		t.Fatal(err)
	}
	g := new(usage.Grants)
	if err := a.Step(now, h.name, read, g); err != nil {
		t.Fatal(err)
	}
	payload, err := usage.Columnar{}.EncodeGrants(g, 1)
	if err != nil {
		t.Fatal(err)
	}
	if g, err = (usage.Columnar{}).DecodeGrants(payload, u); err != nil {
		t.Fatal(err)
	}
	if g.Lease[0] > 0 {
		h.has = float64(int64(g.Weight[0]*limit + 1e-3))
	}
}

// A report says how many slots a host has, and not about how many: a new owner leases to others
// what is free and nothing else. Hosts of the release before say it to 8 bits.
func TestSlotsTravelExactly(t *testing.T) {
	for _, limit := range []float64{10, 100, 1000, 5000, 100_000} {
		for _, before := range []int{0, 1, 3} { // how many hosts are of the release before
			rule := slotsOf(0)
			rule.Limit, rule.Learning = rate.Limit(limit), 30*s
			old, heir := leased(t, rule), leased(t, rule)
			old.Moved(-time.Hour)
			heir.Moved(100 * s)
			var hosts []*slotHost
			for i := range 3 {
				hosts = append(hosts, &slotHost{name: fmt.Sprint("host", i), wants: limit})
			}
			for at := range 4 {
				for i, h := range hosts {
					h.report(t, old, time.Duration(at)*s, limit, i < before)
					h.uses = h.has
				}
			}
			hosts = append(hosts, &slotHost{name: "new", wants: limit})
			most := limit + float64(before)*math.Floor(limit/256)
			for at := range 50 {
				out := 0.0
				for i, h := range hosts {
					h.report(t, heir, time.Duration(100+at)*s, limit, i < before)
					out += max(h.uses, h.has)
				}
				if out > most || at > 30 && out < limit {
					t.Errorf("%v slots, %d s after the key has moved, %d hosts of the release before: %v are out", limit, at, before, out)
					break
				}
			}
		}
	}
}

// Slots that are in use under a limit of 0 are no part of it, and count when it comes back.
func TestSlotsInUseUnderALimitOfZeroCount(t *testing.T) {
	a := leased(t, slotsOf(10))
	h := slotHost{name: "a", wants: 10}
	h.report(t, a, 0, 10, false)
	h.uses = h.has
	become(t, a, 0, slotsOf(0))
	u := reportOf("fair-share", 0, 0, s, "k")
	u.Weight[0], u.Wants, u.Slots = 1, []float64{10}, []int64{11}
	step(t, a, s, "a", u)
	become(t, a, s, slotsOf(10))
	if got := holder(t, a, 2*s, "fair-share", "b", 10, 0); h.uses != 10 || got != 0 {
		t.Errorf("%v slots beside %v of 10 that are in use", got*10, h.uses)
	}
}
