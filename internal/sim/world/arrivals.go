// SPDX-License-Identifier: Apache-2.0

package world

import (
	"math/rand/v2"
	"slices"

	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/sim/traffic"
)

// openSources makes the streams of all sources.
func (c *cluster) openSources() {
	for i := range c.sc.Sources {
		s := &c.sc.Sources[i]
		r := traffic.Chance(c.seed, "source", i)
		hosts := slices.Clone(s.Hosts.Among(r, len(c.sc.Hosts), c.owner))
		c.sources = append(c.sources, hosts)
		one := traffic.Stream{Source: i, Key: c.keyOf[s.Key], Costs: s.Costs, Even: s.Even, End: c.sc.Duration, Parts: 1}
		var schedule []traffic.Burst
		if s.Bursts != nil {
			schedule = s.Bursts.Schedule(r, hosts, c.sc.Duration)
			for _, b := range schedule {
				if s.Bursts.Mark != "" {
					c.marks = append(c.marks, measure.Mark{At: b.At, Text: s.Bursts.Mark})
				}
			}
		}
		if s.Spread && len(hosts) > 0 {
			one.Host, one.Chance = -1, traffic.Chance(c.seed, "spread", i)
			one.Rates = s.Rate.Segments(one.Chance)
			c.open(one)
			continue
		}
		if s.Total {
			one.Parts = float64(len(hosts))
		}
		for _, h := range hosts {
			one := one
			one.Host, one.Chance = h, traffic.Chance(c.seed, "stream", i*scenario.MaxHosts+h)
			if s.Bursts != nil {
				one.Rates = s.Bursts.Of(schedule, h).Segments(nil)
			} else {
				one.Rates = c.rateAt(s, h).Segments(one.Chance)
			}
			c.open(one)
		}
	}
}

// open puts the first event of a stream into the queue.
func (c *cluster) open(s traffic.Stream) {
	at, ok := s.Next()
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
	if len(t.Rows) > 0 {
		c.queue.push(t.Rows[0].At, traced, 0, 0)
	}
}

// fromStream is the event at the head of the queue, which a stream sends.
func (c *cluster) fromStream(s *traffic.Stream) {
	src, hosts := &c.sc.Sources[s.Source], c.sources[s.Source]
	to := s.Host
	if to < 0 {
		to = hosts[s.Chance.IntN(len(hosts))]
	}
	cost := s.Cost()
	if h := c.taker(to, hosts, src.Stay, s.Chance); h != nil {
		c.arrive(h, s.Key, cost)
	}
	if at, ok := s.Next(); ok {
		c.queue.again(at)
	} else {
		c.queue.pop()
	}
}

// fromTrace is the event at the head of the queue, which is the trace's next.
func (c *cluster) fromTrace() {
	rows := c.sc.Trace.Rows
	row := rows[c.traceAt]
	if h := c.taker(c.traceHost[row.Host], c.traceHost, false, c.traceLost); h != nil {
		c.arrive(h, c.traceKeys[row.Key], row.Cost)
	}
	if c.traceAt++; c.traceAt < len(rows) {
		c.queue.again(rows[c.traceAt].At)
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
