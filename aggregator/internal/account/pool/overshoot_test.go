// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
)

// crowd are hosts of one key that do the worst that their grants permit. They report when
// they like, but every interval, say anything about what they want and have, and save up
// and spend as they like.
type crowd struct {
	k        account.Account
	limit    algorithm.Limit
	interval time.Duration
	hosts    []*crowdHost
	now      time.Duration

	// used is what was used beyond the limit since the window began in which that is most.
	used, most float64

	largest algorithm.Limit
	longest time.Duration
	params  algorithm.Elastic
	twice   float64 // the largest Overcommit so far
}

// crowdHost is one of them.
type crowdHost struct {
	elasticHost
	weight float64
	silent bool // it holds a starter, and no rate
}

func newCrowd(limit algorithm.Limit) *crowd {
	return &crowd{k: known(limit), limit: limit, interval: interval, largest: limit, longest: interval}
}

// pass lets time pass.
func (c *crowd) pass(d time.Duration) {
	c.now += d
	c.used = math.Max(c.used-c.limit.Rate*d.Seconds(), 0)
	c.k.Expire(c.now, func(id uint32) { // by now the host's lease has ended
		if int(id) < len(c.hosts) {
			h := c.hosts[id]
			h.elasticHost, h.weight = elasticHost{at: c.now, reported: c.now}, 0
		}
	})
}

// use has host i use up to n tokens.
func (c *crowd) use(i int, n float64) {
	c.used += c.hosts[i].use(c.now, n)
	c.most = math.Max(c.most, c.used)
}

// report has host i say what it used, that it wants so much, and that it has a weight.
func (c *crowd) report(i int, wants, has float64) {
	h := c.hosts[i]
	h.advance(c.now)
	g, ok := c.k.Report(c.now, c.limit, uint32(i), &account.Report{
		Allowed: h.allowed, Elapsed: max(c.now-h.reported, time.Millisecond), Wants: wants, Has: has, Cost: 1,
	})
	h.allowed, h.reported = 0, c.now
	if ok {
		h.tokens, h.burst, h.weight, h.granted = g.Tokens, g.Burst, g.Weight, true
		h.rate = h.weight * c.limit.Rate
	}
}

// join adds n hosts.
func (c *crowd) join(n int, wants float64) {
	for range n {
		c.hosts = append(c.hosts, &crowdHost{elasticHost: elasticHost{at: c.now, reported: c.now}})
		c.report(len(c.hosts)-1, wants, 0)
	}
}

// change puts another limit and interval in force, of which all hosts hear at once.
func (c *crowd) change(limit algorithm.Limit, interval time.Duration) {
	for _, h := range c.hosts {
		h.advance(c.now)
		h.rate = h.weight * limit.Rate
	}
	config := reaching(algorithm.NameElastic)
	config.Interval = interval
	config.Algorithm.Elastic = c.params
	c.twice = math.Max(c.twice, c.params.WithDefaults().Overcommit)
	c.k.Configure(c.now, config)
	c.limit, c.interval = limit, interval
	c.largest = algorithm.Limit{Rate: math.Max(c.largest.Rate, limit.Rate), Burst: math.Max(c.largest.Burst, limit.Burst)}
	c.longest = max(c.longest, interval)
}

// bound is how much more than the limit may be used.
func (c *crowd) bound() float64 {
	return c.largest.Burst + algorithm.Elastic{Overcommit: math.Max(c.twice, usual.Overcommit)}.Overshoot(c.largest, len(c.hosts), c.longest)
}

// Hosts join by the hundred, fall silent and come back, lie, and save up, while limit,
// interval and parameters change. In no window do they use more than the limit, the burst and Overshoot.
func TestElasticOvershootIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rates := rapid.SampledFrom([]float64{5, 100, 1000})
		bursts := rapid.SampledFrom([]float64{5, 100, 1000})
		intervals := rapid.SampledFrom([]time.Duration{time.Second, interval, 10 * time.Second})
		c := newCrowd(algorithm.Limit{Rate: rates.Draw(t, "rate"), Burst: bursts.Draw(t, "burst")})
		wants := rapid.SampledFrom([]float64{0, 1, 50, 1000, 1e12})
		amounts := rapid.SampledFrom([]float64{1, 20, 1e9})
		c.join(rapid.IntRange(1, 8).Draw(t, "hosts"), 0)
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "waits") {
				c.pass(time.Duration(rapid.Int64Range(0, int64(c.interval)).Draw(t, "for")))
			}
			for i, h := range c.hosts {
				if !h.silent && c.now-h.reported >= c.interval {
					c.report(i, wants.Draw(t, "wants"), h.weight)
				}
			}
			i := rapid.IntRange(0, len(c.hosts)-1).Draw(t, "host")
			h := c.hosts[i]
			switch rapid.SampledFrom([]string{"uses", "all use", "reports", "joins", "falls silent", "changes"}).Draw(t, "what") {
			case "uses":
				h.silent = false
				c.use(i, amounts.Draw(t, "amount"))
				c.report(i, wants.Draw(t, "wants"), h.weight)
			case "all use":
				for i := range c.hosts {
					c.hosts[i].silent = false
					c.use(i, 1e9)
				}
			case "reports":
				h.silent = false
				c.report(i, wants.Draw(t, "wants"), rapid.Float64Range(0, 1).Draw(t, "has"))
			case "joins":
				if len(c.hosts) < 300 {
					c.join(rapid.SampledFrom([]int{1, 10, 150}).Draw(t, "hosts"), wants.Draw(t, "wants"))
				}
			case "falls silent":
				c.report(i, 0, h.weight)
				h.silent = true
			case "changes":
				c.params = algorithm.Elastic{
					Overcommit: rapid.SampledFrom([]float64{0, 1e-9, 0.1, 1}).Draw(t, "overcommit"),
					Horizon:    rapid.SampledFrom([]time.Duration{0, time.Millisecond, 24 * time.Hour}).Draw(t, "horizon"),
					Repay:      rapid.SampledFrom([]time.Duration{0, time.Millisecond, 24 * time.Hour}).Draw(t, "repay"),
				}
				c.change(algorithm.Limit{Rate: rates.Draw(t, "rate"), Burst: bursts.Draw(t, "burst")}, intervals.Draw(t, "interval"))
			}
			if c.most > c.bound()*(1+1e-6) {
				t.Fatalf("%v more than the limit, of at most %v", c.most, c.bound())
			}
		}
	})
}

// Hosts that join at once get no more starters than are lent twice, and an event each,
// and use them when one of them has emptied the pool.
func TestHundredsOfHostsThatJoinAtOnce(t *testing.T) {
	for _, hosts := range []int{2, 10, 100, 500} {
		c := newCrowd(algorithm.Limit{Rate: 100, Burst: 1000})
		c.join(hosts-1, 0)
		c.join(1, 1e6)
		for range 1000 {
			c.use(hosts-1, 1e9)
			c.report(hosts-1, 1e6, 0)
		}
		for i := range c.hosts {
			c.use(i, 1e9)
		}
		most := c.limit.Burst + (algorithm.Elastic{}).Overshoot(c.limit, hosts, 0)
		if c.most > most {
			t.Errorf("%d hosts use %v at once, of at most %v", hosts, c.most, most)
		}
		if c.most < most-float64(hosts)-algorithm.Keep {
			t.Errorf("%d hosts use %v at once, of at most %v: this test does not try hard enough", hosts, c.most, most)
		}
	}
}

// Hundreds of hosts have an event each to begin with, which is many times the burst. They pay for these events: a debt
// that is deeper than any charge may make is not forgiven.
func TestManyHostsPayForTheirStarters(t *testing.T) {
	c := newCrowd(algorithm.Limit{Rate: 5, Burst: 5})
	c.join(300, 0)
	for range 20 {
		for i := range c.hosts {
			c.use(i, 1e9)
		}
		for range 2 { // after the first, they may have another event each
			for i := range c.hosts {
				c.report(i, 0, 0)
			}
			c.pass(c.interval)
		}
	}
	if c.most > c.bound() {
		t.Errorf("%v used beyond the limit, of at most %v", c.most, c.bound())
	}
}

// An owner keeps a key whose hosts are gone until its limit has paid for their starters.
func TestAKeyIsKeptUntilItsStartersArePaidFor(t *testing.T) {
	c := newCrowd(algorithm.Limit{Rate: 5, Burst: 5})
	config := reaching(algorithm.NameElastic)
	config.Rule = &dynamicconfig.Rule{Limit: 5, Burst: 5}
	c.k.Configure(0, config)
	c.join(1, 0)
	c.pass(c.interval)
	c.join(299, 0)
	for i := range c.hosts {
		c.use(i, 1e9)
	}
	for i := range c.hosts {
		c.report(i, 0, 0)
	}
	k, _ := c.k.(account.Pooled)
	for after, want := range map[time.Duration]bool{50 * time.Second: true, 70 * time.Second: false} {
		if k.Keeps(c.now+after, c.limit, time.Second) != want {
			t.Errorf("is kept after %v: want %v", after, want)
		}
	}
}

// Hosts that are silent for so long that the owner takes back what they hold keep their
// starters. When they use them, they pay for them.
func TestSilentHostsPayForTheirStarters(t *testing.T) {
	c := newCrowd(algorithm.Limit{Rate: 1, Burst: 100})
	c.join(100, 0)
	for range 50 {
		c.pass(2 * c.interval)
		for i := range c.hosts {
			c.use(i, 1e9)
			c.report(i, 0, 0)
		}
	}
	if c.most > c.bound() {
		t.Errorf("%v used beyond the limit, of at most %v", c.most, c.bound())
	}
}

// Hosts that tell a new owner that each of them has the whole limit get it back once.
func TestHostsThatLieToANewOwner(t *testing.T) {
	c := newCrowd(algorithm.Limit{Rate: 100, Burst: 100})
	c.k = made(algorithm.NameElastic)
	c.join(20, 0)
	for i := range c.hosts {
		c.report(i, 0, 1)
	}
	c.pass(c.interval)
	c.join(10, 1e6)
	for i := range c.hosts {
		c.drain(20)
		c.report(i, 0, 1)
	}
	c.drain(20)
	if c.most > c.bound() {
		t.Errorf("%v used at once, of at most %v", c.most, c.bound())
	}
}

// drain has the hosts after the first so many use all that there is.
func (c *crowd) drain(first int) {
	for range 20 {
		for i := first; i < len(c.hosts); i++ {
			c.use(i, 1e9)
			c.report(i, 1e6, 0)
		}
	}
}

// Hosts that state a demand which they do not have hold the limit as rates, and use nothing.
// Then others empty the pool, each time that one of them gives its rate back. That is as
// much as the bound has for rates.
func TestRatesThatWereNotUsedComeBack(t *testing.T) {
	c := newCrowd(algorithm.Limit{Rate: 100, Burst: 100})
	c.join(30, 10)
	for range 2 { // so that all have a part of the limit
		c.pass(c.interval)
		for i := range c.hosts {
			c.report(i, 10, 0)
		}
	}
	c.pass(c.interval * 174 / 100) // a little later, the owner takes the rates back
	first := len(c.hosts)
	c.join(10, 1e6)
	c.drain(first)
	for i := range first {
		c.use(i, 1e9)
		c.report(i, 0, 0)
		c.drain(first)
	}
	if c.most > c.bound() {
		t.Errorf("%v used at once, of at most %v", c.most, c.bound())
	}
	if least := c.limit.Burst + 1.5*c.limit.Rate*c.interval.Seconds(); c.most < least {
		t.Errorf("%v used at once: this test does not try hard enough", c.most)
	}
}
