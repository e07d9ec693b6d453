// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"time"

	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/internal/sim/timeline"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
)

// decide lets the host's limiter and the oracle decide on one event. A decision that
// may ask an owner has a worker of its own.
func (c *cluster) decide(h *host, t try) {
	h.offered++
	k := c.keys[t.key]
	c.books.Offers(k.bucket.Name, h.Number, t.cost)
	l, asks := c.Limiter(h.Host, t.key)
	if !asks {
		c.decided(h, t, allows(l, h.Local(c.Now), t.cost), 0)
		return
	}
	c.Spawn(h.Host, func() {
		of, began := h.Current(), c.Now
		if ok := allows(l, h.Local(c.Now), t.cost); !c.Gone(of) {
			c.decided(h, t, ok, c.Now-began)
		} else { // nobody hears of it
			c.books.Loses(k.bucket.Name, h.Number, t.cost)
		}
	})
}

// decided is an event that the host has admitted or not, after it waited for the
// network.
func (c *cluster) decided(h *host, t try, admitted bool, waited time.Duration) {
	d := measure.Decision{Host: h.Number, Cost: t.cost, Admitted: admitted, Waited: waited, Try: t.number, Last: true}
	if !d.Admitted {
		d.Last = c.rejected(t)
	}
	c.keys[t.key].bucket.Event(c.Now, d)
	c.books.Decides(c.keys[t.key].bucket.Name, int(c.Now/time.Second), d)
	c.Replan(h.Host)
}

// arrive is an event at a host: the host decides, or lets it wait.
func (c *cluster) arrive(h *host, t try) {
	if h.pauses > 0 {
		if len(h.held) < maxHeld {
			h.held = append(h.held, held{timeline.Event{Kind: arrival}, t})
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
		if w.event.Kind == arrival {
			c.decide(h, w.try)
			continue
		}
		if err := c.AtHost(h.Host, w.event); err != nil {
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
