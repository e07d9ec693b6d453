// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/limiter/stage"
)

// timeline is hosts that share one key, on virtual time: with the
// same seed, the same happens.
type timeline struct {
	t      *testing.T
	rule   *dynamicconfig.Rule
	faults rpctest.Faults
	chance *rand.Rand
	now    stage.Instant
	next   []event // sorted by time
	hosts  []*member
}

type event struct {
	at stage.Instant
	do func()
}

// member is one host; the test knows what it used, too.
type member struct {
	*Mesh
	used     int
	received []int // of each host, what it had used when it sent the newest message that came
}

func newTimeline(t *testing.T, seed uint64, n int, rule *dynamicconfig.Rule, faults rpctest.Faults) *timeline {
	c := &timeline{t: t, rule: rule, faults: faults, chance: rand.New(rand.NewPCG(seed, 1))}
	var names []string
	for i := range n {
		names = append(names, fmt.Sprint(i))
		c.hosts = append(c.hosts, &member{Mesh: New(names[i], always(rule), Config{}), received: make([]int, n)})
	}
	for from := range c.hosts {
		c.hosts[from].SetPeers(names)
		c.after(time.Duration(c.chance.Int64N(int64(DefaultInterval))), func() { c.round(from) })
	}
	return c
}

// after has f done in d.
func (c *timeline) after(d time.Duration, f func()) {
	e := event{c.now.Add(d), f}
	at, _ := slices.BinarySearchFunc(c.next, e, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), -1) // in the order in which they were set
	})
	c.next = slices.Insert(c.next, at, e)
}

// until lets time pass.
func (c *timeline) until(end stage.Instant) {
	for len(c.next) > 0 && c.next[0].at <= end {
		e := c.next[0]
		c.next = c.next[1:]
		c.now = e.at
		e.do()
	}
	c.now = end
}

// round is a round of a host, as in Run.
func (c *timeline) round(from int) {
	h := c.hosts[from]
	c.after(DefaultInterval, func() { c.round(from) })
	all := h.RoundAt(c.now)
	slices.SortFunc(all, func(a, b Message) int { return cmp.Compare(a.To, b.To) })
	for _, message := range all {
		c.deliver(from, int(message.To[0]-'0'), message)
	}
}

// deliver takes a message to a host, and the answer back.
func (c *timeline) deliver(from, to int, message Message) {
	h, peer, used, over := c.hosts[from], c.hosts[to], c.hosts[from].used, false
	done := func(by uint64) func() {
		return func() {
			if !over {
				over = true
				h.Done(message, by)
			}
		}
	}
	c.after(DefaultInterval, done(0))
	c.send(func() {
		for _, g := range message.Gossips {
			if err := peer.ReceiveAt(c.now, h.self, g); err != nil {
				c.t.Fatal(err)
			}
		}
		peer.received[from] = max(peer.received[from], used)
		c.send(done(peer.id))
	})
}

// send has arrive called when what is sent arrives, if it does.
func (c *timeline) send(arrive func()) {
	drop, hold, jitter := c.chance.Float64(), c.chance.Float64(), c.chance.Float64()
	if drop < c.faults.Drop {
		return
	}
	delay := c.faults.Delay + time.Duration(jitter*float64(c.faults.Jitter))
	if hold < c.faults.Reorder {
		delay += c.faults.HoldBack
	}
	c.after(delay, arrive)
}

// take takes up to n single tokens, and returns how many it got.
func (c *timeline) take(host, n int) (got int) {
	h := c.hosts[host]
	for range n {
		taken, err := h.DoAt(c.now, stage.Operation{Key: "k", Rule: c.rule, N: 1})
		if err != nil {
			c.t.Fatal(err)
		}
		if taken.OK {
			got++
		}
	}
	h.used += got
	return got
}

// restart begins a new process of a host. The one before sends no more messages.
func (c *timeline) restart(host int) {
	h := &member{Mesh: New(c.hosts[host].self, always(c.rule), Config{}), received: make([]int, len(c.hosts))}
	c.hosts[host] = h
	var names []string
	for _, other := range c.hosts {
		names = append(names, other.self)
	}
	h.SetPeers(names)
}

// unknown is what others used and a host has not received.
func (c *timeline) unknown(host int) (n int) {
	for other, h := range c.hosts {
		if other != host {
			n += h.used - c.hosts[host].received[other]
		}
	}
	return n
}

// A host allows an event if it has the tokens by all that it received. So all
// hosts together have then used at most limit·t + burst, and what the others
// used and the host has not received, whatever the network does. Lost messages
// let hosts be that far ahead. Where none is lost, they may be one interval and
// a burst of each ahead, at the end too.
func TestOverALongTimeTheLimitHolds(t *testing.T) {
	seeds := uint64(5)
	if testing.Short() {
		seeds = 2
	}
	for name, faults := range map[string]rpctest.Faults{
		"well":           {Delay: time.Millisecond},
		"slow":           {Delay: 100 * time.Millisecond, Jitter: 100 * time.Millisecond},
		"a third lost":   {Delay: time.Millisecond, Drop: 0.3},
		"out of order":   {Delay: time.Millisecond, Reorder: 0.5, HoldBack: 400 * time.Millisecond},
		"nearly all bad": {Delay: 50 * time.Millisecond, Jitter: 300 * time.Millisecond, Drop: 0.5, Reorder: 0.5, HoldBack: 700 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range seeds {
				const hosts, length, rate, burst = 5, 120, 100, 100
				c := newTimeline(t, seed, hosts, ruled(rate, burst), faults)
				got, ahead := 0, 0.0
				for c.now < stage.Instant(length*time.Second) {
					for host := range hosts { // uneven callers, together five times too many
						if c.chance.IntN(hosts) > host {
							continue
						}
						if n := c.take(host, 2); n > 0 {
							got += n
							filled := rate*c.now.Sub(0).Seconds() + burst
							ahead = max(ahead, float64(got)-filled)
							if most := filled + float64(c.unknown(host)); float64(got) > most+1e-3 {
								t.Fatalf("seed %d: host %d is the last of %d after %v, want %v at most", seed, host, got, c.now.Sub(0), most)
							}
						}
					}
					c.until(c.now.Add(10 * time.Millisecond))
				}
				limit := float64(rate*length + burst)
				t.Logf("seed %d: admitted %d in %ds, %.1f%% of the limit; at worst %.0f ahead", seed, got, length, 100*float64(got)/limit, ahead)
				if most := limit + hosts*rate*(0.5+1); faults.Drop == 0 && float64(got) > most || float64(got) < limit*0.9 {
					t.Errorf("seed %d: admitted %d, want %v to %v", seed, got, limit*0.9, most)
				}
			}
		})
	}
}
