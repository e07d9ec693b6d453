// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/internal/sim/traffic"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

var (
	// errOutside means that something asks that no worker runs.
	errOutside = errors.New("an owner is asked outside of a decision and of the background")
	errGone    = errors.New("this process has ended")
)

// asker is the process, its clock and its network for the ask.Taker of a host.
type asker struct {
	c      *cluster
	of     process
	chance *rand.Rand
}

var (
	_ ask.Simulation = (*asker)(nil)
	_ ask.Here       = (*asker)(nil)
)

// asking is a call on its way.
type asking struct {
	worker   *worker // that waits for the answer
	turn     int32
	from     process
	deadline traffic.Time
	answer   *anypb.Any
}

// newTaker returns what the limiters of h ask owners with.
func (c *cluster) newTaker(h *host) *ask.Taker {
	a := &asker{c: c, of: h.current(), chance: traffic.Chance(c.seed, "asks", h.number*1009+int(h.process))}
	t := &ask.Taker{Host: h.name, Placement: a, Self: h.name}
	if h.aggregator != nil {
		t.Local = a
	}
	t.Simulate(a, a.chance.Uint64()|1)
	return t
}

// Owner implements rpc.Placement.
func (a *asker) Owner(key string) string {
	if a.c.gone(a.of) {
		return ""
	}
	return a.of.host.ring.Owner(key)
}

// TakeHere implements ask.Here.
func (a *asker) TakeHere(host string, t usage.Take) (usage.Took, uint32) {
	var taken usage.Taken
	h := a.of.host
	h.aggregator.Take(a.c.now-h.born, host, &usage.Takes{Rows: []usage.Take{t}}, &taken)
	return taken.Rows[0], taken.By
}

// Now implements ask.Simulation.
func (a *asker) Now() time.Duration { return a.c.now - a.of.host.born }

// Later implements ask.Simulation: f runs after between a half and one and a half
// of d, as the Taker's own calls do.
func (a *asker) Later(d time.Duration, f func()) {
	a.c.runs(a.of, d/2+time.Duration(a.chance.Int64N(int64(d))), f)
}

// Waker implements ask.Simulation.
func (a *asker) Waker() ask.Waker { return &waker{c: a.c} }

// Ask implements ask.Simulation.
func (a *asker) Ask(owner string, timeout time.Duration, payload *anypb.Any) (*anypb.Any, error) {
	c, w := a.c, a.c.running
	to, ok := c.byName[owner]
	switch {
	case w == nil:
		c.fail(errOutside)
		return nil, errOutside
	case c.gone(a.of):
		return nil, errGone
	case !ok:
		return nil, errNoAnswer
	}
	k := &asking{worker: w, turn: w.turn, from: a.of, deadline: c.now + timeout}
	c.ask(a.of.host, to, k, payload)
	c.wake(w, w.turn, k.deadline)
	if c.wait(); k.answer == nil {
		return nil, errNoAnswer
	}
	return k.answer, nil
}

// ask sends takes from h to an owner.
func (c *cluster) ask(h *host, to int, k *asking, payload *anypb.Any) {
	c.Asks++
	c.Bytes += int64(HeaderBytes + len(h.name) + len(payload.TypeUrl) + len(payload.Value))
	c.send(h.number, to, asked, message{asking: k, payload: payload}, 0)
}

// asked is takes that have reached an owner.
func (c *cluster) asked(h *host, m message) {
	if h.aggregator == nil || c.now >= m.asking.deadline {
		return // the deadline travels with the message
	}
	from := m.asking.from.host
	answer, err := h.aggregator.StepTakes(context.Background(), c.now-h.born, from.name, m.payload)
	if err != nil {
		return // the caller has withdrawn them, and does not wait for an answer
	}
	c.Bytes += int64(len(answer.TypeUrl) + len(answer.Value))
	c.send(h.number, from.number, replied, message{asking: m.asking, payload: answer}, h.slow)
}

// replied is an answer that has reached the host that asked.
func (c *cluster) replied(m message) {
	if k := m.asking; !c.gone(k.from) && c.now < k.deadline && k.answer == nil && k.worker != nil {
		k.answer = m.payload
		c.woken(k.worker, k.turn)
	}
}

// waker is what a worker waits with for another one.
type waker struct {
	c      *cluster
	rung   bool
	worker *worker // that waits; nil: none
}

// Wake implements ask.Waker.
func (w *waker) Wake() {
	if w.rung = true; w.worker != nil {
		w.c.wake(w.worker, w.worker.turn, w.c.now)
		w.worker = nil
	}
}

// Wait implements ask.Waker.
func (w *waker) Wait() {
	if !w.rung {
		w.worker = w.c.running
		w.c.wait()
	}
	w.rung, w.worker = false, nil
}

// WaitFor implements ask.Waker.
func (w *waker) WaitFor(d time.Duration) bool {
	if !w.rung {
		w.worker = w.c.running
		w.c.wake(w.worker, w.worker.turn, w.c.now+d)
		w.c.wait()
	}
	rung := w.rung
	w.rung, w.worker = false, nil
	return rung
}
