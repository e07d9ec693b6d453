// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/rpc/usage"
)

// greedy is a host that uses what it is granted, and asks for the rest.
type greedy struct {
	name               string
	tokens, rate, most float64 // of its grant
	weight             float64
	allowed            int64
	told               usage.Take // what an owner answered last
	toldAt, reported   time.Duration
	introduces         time.Duration // it reports early then, because the ring has moved
}

func (h *greedy) report(t *testing.T, a *Aggregator, now time.Duration, limit, wants float64) {
	u := reportOf("auto", h.allowed, 0, max(now-h.reported, time.Millisecond), "k")
	u.Wants, u.Weight[0] = []float64{wants}, h.weight
	h.allowed, h.reported, h.introduces = 0, now, 0
	if g := step(t, a, now, h.name, u); g.Lease[0] > 0 {
		h.weight, h.rate, h.most, h.tokens = g.Weight[0], g.Weight[0]*limit, g.Burst[0], g.Tokens[0]
	}
}

// use uses an event if there is one.
func (h *greedy) use(t *testing.T, a *Aggregator, now time.Duration, auto bool, wants float64) bool {
	if h.tokens >= 1 {
		h.tokens--
		h.allowed++
		return true
	}
	take := h.told
	take.Key, take.Auto, take.Tokens = "k", auto, 1
	if take.By != 0 {
		take.Ago = now - h.toldAt
	}
	if h.weight > 0 {
		take.More, take.Wants = 50, wants
	}
	taken := new(usage.Taken)
	a.Take(now, h.name, &usage.Takes{Rows: []usage.Take{take}}, taken)
	got := taken.Rows[0]
	h.told, h.toldAt = usage.Take{Told: got.Left, By: taken.By}, now
	h.tokens += got.Lent
	h.most = max(h.most, h.tokens)
	return got.OK
}

// The ring moves again and again for a minute, so that owners of a key get it back before they have forgotten what
// its hosts held. In each window hosts use no more than one bucket has: each owner hands the key over, and all
// hosts know the ring.
func TestAKeyThatMovesAgainAndAgainKeepsItsLimit(t *testing.T) {
	const limit, burst, hosts, wants = 200, 100, 8, 50
	for _, auto := range []bool{false, true} {
		for _, every := range []time.Duration{s / 10, 3 * s / 10, s} {
			chance := rand.New(rand.NewPCG(1, uint64(every)))
			rule := exactRule(limit, burst)
			if auto {
				rule.Algorithm = algorithm.NameAuto
			}
			owners, owner := []*Aggregator{under(t, rule), under(t, rule), under(t, rule)}, 0
			all := make([]greedy, hosts)
			for i := range all {
				all[i].name = fmt.Sprint("host", i)
			}
			used, lowest, beyond := 0.0, 0.0, 0.0 // of used, less what the limit gives
			for at := time.Duration(0); at < time.Minute; at += time.Millisecond {
				now := time.Hour + at
				if at > 5*s && at%every == 0 {
					next := (owner + 1 + chance.IntN(len(owners)-1)) % len(owners)
					for _, o := range owners {
						o.Moved(now)
					}
					for i, o := range owners { // those that had it before, too
						if i == next {
							continue
						}
						for _, row := range o.Buckets(now, func(string) bool { return true }) {
							took(t, owners[next], now, row)
						}
					}
					owner = next
					for i := range all {
						all[i].introduces = now + time.Duration(chance.IntN(200))*time.Millisecond
					}
				}
				for i := range all {
					h := &all[i]
					h.tokens = min(h.tokens+h.rate/1000, h.most)
					if auto && (now-h.reported >= s || h.introduces > 0 && now >= h.introduces) {
						h.report(t, owners[owner], now, limit, wants)
					}
					if chance.Float64() < wants/1000. && h.use(t, owners[owner], now, auto, wants) {
						used++
					}
					more := used - limit*at.Seconds()
					lowest, beyond = min(lowest, more), max(beyond, more-lowest)
				}
				if at%s == 0 {
					for _, o := range owners {
						o.GC(now)
					}
				}
			}
			least := limit * 60 * 98 / 100.
			if auto { // hosts lose what an owner granted that is none any more
				least = limit * 60 / 2
			}
			if beyond > burst+5 || used < least {
				t.Errorf("auto %t, the ring moves every %v: hosts use %v of %v, and %.0f in a window beyond the limit, with a burst of %v", auto, every, used, limit*60, beyond, burst)
			}
		}
	}
}
