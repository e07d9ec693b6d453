// SPDX-License-Identifier: Apache-2.0

package world

import (
	"math/rand/v2"
	"slices"

	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/sim/timeline"
	"github.com/headgate/headgate/internal/sim/traffic"
)

// stream is the events that one source sends to one host, or to any of its
// hosts.
type stream struct {
	traffic.Stream

	source int
	host   int // -1: the source's spread says which
}

// try is one try of a client to have an event admitted.
type try struct {
	source int // -1: the event is the trace's
	host   int // as in stream
	client int
	key    int
	cost   int64
	number int // from 1 on
}

// clients are who sends events, and who tries again.
type clients struct {
	streams    []stream
	sources    [][]int             // by source: hosts
	sourceKeys []int               // by source: its first key
	retries    []*rand.Rand        // by source: of clients that try again
	waiting    timeline.Store[try] // rejected, by ref of retry events
}

// recording is the trace that is played.
type recording struct {
	traceKeys []int // by key of the trace
	traceHost []int // by host of the trace
	traceRows traffic.RowReader
	traceRow  traffic.TraceRow // the next one
	traceLost *rand.Rand
}

// openSources makes the streams of all sources.
func (c *cluster) openSources() {
	for i := range c.sc.Sources {
		s := &c.sc.Sources[i]
		r := traffic.Chance(c.seed, "source", i)
		hosts := slices.Clone(s.Hosts.Among(r, len(c.sc.Hosts), c.Owner))
		c.sources = append(c.sources, hosts)
		c.retries = append(c.retries, traffic.Chance(c.seed, "retry", i))
		one := stream{source: i, Stream: traffic.Stream{Cost: s.Cost, People: s.Clients, Even: s.Even, End: c.sc.Duration, Parts: 1}}
		var schedule []traffic.Burst
		if s.Bursts != nil {
			schedule = s.Bursts.Schedule(r, hosts, c.sc.Duration)
			for _, b := range schedule {
				if s.Bursts.Mark != "" {
					c.marks = append(c.marks, measure.Mark{At: b.At, Text: s.Bursts.Mark})
				}
			}
		}
		if s.Spread != scenario.SpreadEven && len(hosts) > 0 {
			one.host, one.Chance = -1, traffic.Chance(c.seed, "spread", i)
			one.Rates = s.Rate.Segments(one.Chance)
			c.open(one)
			continue
		}
		if s.Total {
			one.Parts = float64(len(hosts))
		}
		for _, h := range hosts {
			one := one
			one.host, one.Chance = h, traffic.Chance(c.seed, "stream", i*scenario.MaxHosts+h)
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
func (c *cluster) open(s stream) {
	at, ok := s.Next()
	if !ok {
		return
	}
	c.streams = append(c.streams, s)
	c.Queue.Push(at, arrival, 0, int32(len(c.streams)-1))
}

// fromStream is the event at the head of the queue, which a stream sends.
func (c *cluster) fromStream(s *stream) {
	t := try{source: s.source, host: s.host, client: s.Client, number: 1}
	t.key = c.sourceKeys[s.source]
	if c.sc.Sources[s.source].KeyCount() > 1 {
		t.key += s.Client
	}
	// The host is drawn before the cost.
	to := c.chosen(t, s.Chance)
	t.cost = s.Cost.Draw(s.Chance)
	c.offer(t, to, s.Chance)
	if at, ok := s.Next(); ok {
		c.Queue.Again(at)
	} else {
		c.Queue.Pop()
	}
}

// chosen is the host that a try is for; it may not be there. -1: there is none.
func (c *cluster) chosen(t try, r *rand.Rand) int {
	hosts := c.sources[t.source]
	switch {
	case t.host >= 0:
		return t.host
	case c.sc.Sources[t.source].Spread == scenario.SpreadSticky:
		return traffic.Sticky(uint64(t.client), hosts, func(h int) bool { return c.hosts[h].takes() })
	}
	return hosts[r.IntN(len(hosts))]
}

// offer lets the host that a try is for decide, or another one.
func (c *cluster) offer(t try, to int, r *rand.Rand) {
	if to < 0 {
		return
	}
	if h := c.taker(to, c.sources[t.source], c.sc.Sources[t.source].Stay, r); h != nil {
		c.arrive(h, t)
	}
}

// retry is a client that tries again.
func (c *cluster) retry(ref int32) {
	t := c.waiting.Fetch(ref)
	r := c.retries[t.source]
	c.offer(t, c.chosen(t, r), r)
}

// rejected is what a client does when its try is rejected. Without another try,
// last is true.
func (c *cluster) rejected(t try) (last bool) {
	if t.source < 0 {
		return true
	}
	again := c.sc.Sources[t.source].Retry
	if again == nil || t.number >= again.Tries {
		return true
	}
	at := c.Now + again.Wait(c.retries[t.source], t.number)
	t.number++
	c.Queue.Push(at, retries, 0, c.waiting.Keep(t))
	return false
}

// openTrace finds the trace's hosts and puts its first event into the queue.
func (c *cluster) openTrace() {
	t := c.sc.Trace
	if t == nil {
		return
	}
	for _, name := range t.Hosts {
		c.traceHost = append(c.traceHost, c.ByName[name])
	}
	c.traceRows = t.Read()
	if c.nextRow() {
		c.Queue.Push(c.traceRow.At, traced, 0, 0)
	}
}

// nextRow reads the trace's next event; false if there is none.
func (c *cluster) nextRow() bool {
	row, ok, err := c.traceRows()
	if err != nil {
		c.Fail(err)
	}
	c.traceRow = row
	return ok && err == nil
}

// fromTrace is the event at the head of the queue, which is the trace's next.
func (c *cluster) fromTrace() {
	row := c.traceRow
	if h := c.taker(c.traceHost[row.Host], c.traceHost, false, c.traceLost); h != nil {
		c.arrive(h, try{source: -1, key: c.traceKeys[row.Key], cost: row.Cost, number: 1})
	}
	if c.nextRow() {
		c.Queue.Again(c.traceRow.At)
	} else {
		c.Queue.Pop()
	}
}

// takes reports whether a load balancer sends traffic to the host.
func (h *host) takes() bool { return h.Up && h.away == 0 }

// taker is who gets an event for host: that one, or another of hosts if that
// one is not there; nil if it is lost.
func (c *cluster) taker(number int, hosts []int, stay bool, r *rand.Rand) *host {
	if h := c.hosts[number]; h.takes() {
		return h
	}
	if stay {
		return nil
	}
	first := r.IntN(len(hosts))
	for i := range hosts {
		if h := c.hosts[hosts[(first+i)%len(hosts)]]; h.takes() {
			return h
		}
	}
	return nil
}
