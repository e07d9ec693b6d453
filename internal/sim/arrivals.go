// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"slices"
)

// openSources makes the streams of all sources.
func (c *cluster) openSources() {
	for i := range c.sc.Sources {
		s := &c.sc.Sources[i]
		r := chance(c.seed, "source", i)
		hosts := slices.Clone(s.Hosts.among(r, len(c.sc.Hosts), c.owner))
		c.sources = append(c.sources, hosts)
		one := stream{source: i, key: c.keyOf[s.Key], costs: s.Costs, even: s.Even, end: c.sc.Duration, parts: 1}
		var schedule []burst
		if s.Bursts != nil {
			schedule = s.Bursts.schedule(r, hosts, c.sc.Duration)
			for _, b := range schedule {
				if s.Bursts.Mark != "" {
					c.marks = append(c.marks, Mark{b.at, s.Bursts.Mark})
				}
			}
		}
		if s.Spread && len(hosts) > 0 {
			one.host, one.chance = -1, chance(c.seed, "spread", i)
			one.rates = s.Rate.segments(one.chance)
			c.open(one)
			continue
		}
		if s.Total {
			one.parts = float64(len(hosts))
		}
		for _, h := range hosts {
			one := one
			one.host, one.chance = h, chance(c.seed, "stream", i*maxHosts+h)
			if s.Bursts != nil {
				one.rates = s.Bursts.of(schedule, h).segments(nil)
			} else {
				one.rates = c.rateAt(s, h).segments(one.chance)
			}
			c.open(one)
		}
	}
}

// open puts the first event of a stream into the queue.
func (c *cluster) open(s stream) {
	at, ok := s.next()
	if !ok {
		return
	}
	c.streams = append(c.streams, s)
	c.queue.push(at, arrival, 0, int32(len(c.streams)-1))
}

// openTrace finds the trace's hosts and puts its first event into the queue.
func (c *cluster) openTrace() {
	t := c.sc.Trace
	if t == nil {
		return
	}
	for _, name := range t.Hosts {
		c.traceHost = append(c.traceHost, c.byName[name])
	}
	if len(t.rows) > 0 {
		c.queue.push(t.rows[0].at, traced, 0, 0)
	}
}

// fromStream is the event at the head of the queue, which a stream sends.
func (c *cluster) fromStream(s *stream) {
	src, hosts := &c.sc.Sources[s.source], c.sources[s.source]
	to := s.host
	if to < 0 {
		to = hosts[s.chance.IntN(len(hosts))]
	}
	cost := s.cost()
	if h := c.taker(to, hosts, src.Stay, s.chance); h != nil {
		c.arrive(h, s.key, cost)
	}
	if at, ok := s.next(); ok {
		c.queue.again(at)
	} else {
		c.queue.pop()
	}
}

// fromTrace is the event at the head of the queue, which is the trace's next.
func (c *cluster) fromTrace() {
	rows := c.sc.Trace.rows
	row := rows[c.traceAt]
	if h := c.taker(c.traceHost[row.host], c.traceHost, false, c.traceLost); h != nil {
		c.arrive(h, c.traceKeys[row.key], row.cost)
	}
	if c.traceAt++; c.traceAt < len(rows) {
		c.queue.again(rows[c.traceAt].at)
	} else {
		c.queue.pop()
	}
}

// taker is who gets an event for host: that one, or another of hosts if that
// one is not there; nil if it is lost.
func (c *cluster) taker(number int, hosts []int, stay bool, r *rand.Rand) *host {
	h := c.hosts[number]
	if h.up && h.away == 0 {
		return h
	}
	if stay {
		return nil
	}
	first := r.IntN(len(hosts))
	for i := range hosts {
		h := c.hosts[hosts[(first+i)%len(hosts)]]
		if h.up && h.away == 0 {
			return h
		}
	}
	return nil
}
