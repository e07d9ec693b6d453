// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"time"

	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
)

// decide lets the host's limiter and the oracle decide on one event. A decision that
// may ask an owner has a worker of its own.
func (c *cluster) decide(h *host, t try) {
	h.offered++
	c.books.offers(c.keys[t.key], h, t.cost)
	l := h.limiters[t.key]
	if l == nil {
		l = h.group.For(c.keys[t.key].name)
		h.limiters[t.key] = l
	}
	if h.asked == nil || !h.asked[t.key] {
		c.decided(h, t, allows(l, h.local(c.now), t.cost), 0)
		return
	}
	c.spawn(h, func() {
		of, began := h.current(), c.now
		if ok := allows(l, h.local(c.now), t.cost); !c.gone(of) {
			c.decided(h, t, ok, c.now-began)
		} else { // nobody hears of it
			c.books.loses(c.keys[t.key], h, t.cost)
		}
	})
}

// decided is an event that the host has admitted or not, after it waited for the
// network.
func (c *cluster) decided(h *host, t try, admitted bool, waited time.Duration) {
	d := measure.Decision{Host: h.number, Cost: t.cost, Admitted: admitted, Waited: waited, Try: t.number, Last: true}
	if !d.Admitted {
		d.Last = c.rejected(t)
	}
	c.keys[t.key].bucket.Event(c.now, d)
	c.books.decides(c.keys[t.key], int(c.now/time.Second), d)
	if c.due(h) < h.planned {
		c.plan(h)
	}
}

// arrive is an event at a host: the host decides, or lets it wait.
func (c *cluster) arrive(h *host, t try) {
	if h.pauses > 0 {
		if len(h.held) < maxHeld {
			h.held = append(h.held, held{event{kind: arrival}, t})
		}
		return
	}
	c.decide(h, t)
}

// maxHeld bounds what waits at one paused host.
const maxHeld = 1_000_000

// resume lets what waited happen, in order.
func (c *cluster) resume(h *host) error {
	waiting := h.held
	h.held = nil
	for _, w := range waiting {
		if w.event.kind == arrival {
			c.decide(h, w.try)
			continue
		}
		if err := c.atHost(h, w.event); err != nil {
			return err
		}
	}
	return nil
}

// allows takes n tokens of l at now, if they are there.
func allows(l *limiter.Limiter, now stage.Instant, n int64) bool {
	v, _ := l.Stage().Take(context.Background(), stage.Request{Now: now, N: n, Kind: stage.Final})
	return v.OK()
}
