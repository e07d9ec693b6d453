// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/internal/sim/coroutine"
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
	f      *Fleet
	of     Process
	chance *rand.Rand
}

var (
	_ ask.Simulation = (*asker)(nil)
	_ ask.Here       = (*asker)(nil)
)

// asking is a call on its way.
type asking struct {
	turn     coroutine.Turn[Process] // that waits for the answer; none: nobody does
	from     Process
	deadline traffic.Time
	answer   *anypb.Any
}

// newTaker returns what the limiters of h ask owners with.
func (f *Fleet) newTaker(h *Host) *ask.Taker {
	a := &asker{f: f, of: h.Current(), chance: traffic.Chance(f.seed, "asks", h.Number*1009+int(h.process))}
	t := &ask.Taker{Host: h.Name, Placement: a, Self: h.Name}
	if h.aggregator != nil {
		t.Local = a
	}
	t.Simulate(a, a.chance.Uint64()|1)
	return t
}

// Owner implements rpc.Placement.
func (a *asker) Owner(key string) string {
	if a.f.Gone(a.of) {
		return ""
	}
	return a.of.host.ring.Owner(key)
}

// TakeHere implements ask.Here.
func (a *asker) TakeHere(host string, t usage.Take) (usage.Took, uint32) {
	var taken usage.Taken
	h := a.of.host
	h.aggregator.Take(a.f.Now-h.born, host, &usage.Takes{Rows: []usage.Take{t}}, &taken)
	return taken.Rows[0], taken.By
}

// Now implements ask.Simulation.
func (a *asker) Now() time.Duration { return a.f.Now - a.of.host.born }

// Later implements ask.Simulation: f runs after between a half and one and a half
// of d, as the Taker's own calls do.
func (a *asker) Later(d time.Duration, f func()) {
	a.f.runs(a.of, d/2+time.Duration(a.chance.Int64N(int64(d))), f)
}

// Waker implements ask.Simulation.
func (a *asker) Waker() ask.Waker { return &waker{f: a.f} }

// Ask implements ask.Simulation.
func (a *asker) Ask(owner string, timeout time.Duration, payload *anypb.Any) (*anypb.Any, error) {
	f, turn := a.f, a.f.jobs.Turn()
	to, ok := f.ByName[owner]
	switch {
	case turn.None():
		f.Fail(errOutside)
		return nil, errOutside
	case f.Gone(a.of):
		return nil, errGone
	case !ok:
		return nil, errNoAnswer
	}
	k := &asking{turn: turn, from: a.of, deadline: f.Now + timeout}
	f.ask(a.of.host, to, k, payload)
	f.wake(turn, k.deadline)
	if f.jobs.Wait(); k.answer == nil {
		return nil, errNoAnswer
	}
	return k.answer, nil
}

// ask sends takes from h to an owner.
func (f *Fleet) ask(h *Host, to int, k *asking, payload *anypb.Any) {
	f.Asks++
	f.Bytes += int64(HeaderBytes + len(h.Name) + len(payload.TypeUrl) + len(payload.Value))
	f.send(h.Number, to, asked, message{asking: k, payload: payload}, 0)
}

// asked is takes that have reached an owner.
func (f *Fleet) asked(h *Host, m message) {
	if h.aggregator == nil || f.Now >= m.asking.deadline {
		return // the deadline travels with the message
	}
	from := m.asking.from.host
	answer, err := h.aggregator.StepTakes(context.Background(), f.Now-h.born, from.Name, m.payload)
	if err != nil {
		return // the caller has withdrawn them, and does not wait for an answer
	}
	f.Bytes += int64(len(answer.TypeUrl) + len(answer.Value))
	f.send(h.Number, from.Number, replied, message{asking: m.asking, payload: answer}, h.Slow)
}

// replied is an answer that has reached the host that asked.
func (f *Fleet) replied(m message) {
	if k := m.asking; !f.Gone(k.from) && f.Now < k.deadline && k.answer == nil {
		k.answer = m.payload
		f.jobs.Resume(k.turn)
	}
}

// waker is what a worker waits with for another one.
type waker struct {
	f    *Fleet
	rung bool
	turn coroutine.Turn[Process] // that waits
}

// Wake implements ask.Waker.
func (w *waker) Wake() {
	if w.rung = true; !w.turn.None() {
		w.f.wake(w.turn, w.f.Now)
		w.turn = coroutine.Turn[Process]{}
	}
}

// Wait implements ask.Waker.
func (w *waker) Wait() {
	if !w.rung {
		w.turn = w.f.jobs.Turn()
		w.f.jobs.Wait()
	}
	w.rung, w.turn = false, coroutine.Turn[Process]{}
}

// WaitFor implements ask.Waker.
func (w *waker) WaitFor(d time.Duration) bool {
	if !w.rung {
		w.turn = w.f.jobs.Turn()
		w.f.wake(w.turn, w.f.Now+d)
		w.f.jobs.Wait()
	}
	rung := w.rung
	w.rung, w.turn = false, coroutine.Turn[Process]{}
	return rung
}
