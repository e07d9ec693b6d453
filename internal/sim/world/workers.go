// SPDX-License-Identifier: Apache-2.0

package world

import (
	"iter"
	"time"

	"github.com/headgate/headgate/internal/sim/traffic"
)

// worker is a coroutine that runs what may wait for the network: decisions, and
// calls that no decision waits for. One worker runs at a time, and the run goes on
// when it waits.
type worker struct {
	next  func() (struct{}, bool) // goes on until the job waits or ends
	end   func()
	yield func(struct{}) bool
	job   func() // nil: the worker is idle
	of    process
	turn  int32 // how often it has waited
}

// process names a process of a host, which may be gone.
type process struct {
	host   *host
	number int32
}

func (h *host) current() process { return process{h, h.process} }

// gone tells whether the process has ended, or the run.
func (c *cluster) gone(p process) bool { return c.over || !p.host.up || p.host.process != p.number }

// spawn runs job, which is of h's process, until it ends or waits.
func (c *cluster) spawn(h *host, job func()) {
	var w *worker
	if n := len(c.idle); n > 0 {
		w = c.idle[n-1]
		c.idle = c.idle[:n-1]
	} else {
		w = newWorker()
		c.workers = append(c.workers, w)
	}
	w.job, w.of = job, h.current()
	c.goOn(w)
}

func newWorker() *worker {
	w := new(worker)
	w.next, w.end = iter.Pull(func(yield func(struct{}) bool) {
		w.yield = yield
		for more := true; more; more = yield(struct{}{}) {
			w.job()
			w.job = nil
		}
	})
	return w
}

// goOn lets w go on until it waits or ends.
func (c *cluster) goOn(w *worker) {
	before := c.running
	c.running = w
	w.next()
	if c.running = before; w.job == nil {
		c.idle = append(c.idle, w)
	}
}

// wait makes the running worker wait until some event of its turn wakes it. The
// worker of a process that is gone does not wait.
func (c *cluster) wait() {
	w := c.running
	if !c.gone(w.of) {
		w.yield(struct{}{})
	}
	w.turn++
}

// wake has an event wake w at a time, if it still waits in this turn.
func (c *cluster) wake(w *worker, turn int32, at traffic.Time) {
	c.queue.push(at, wakes, int32(w.of.host.number), c.keep(message{worker: w, turn: turn}))
}

// woken lets w go on, if it waits in this turn.
func (c *cluster) woken(w *worker, turn int32) {
	if w.job != nil && w.turn == turn {
		c.goOn(w)
	}
}

// runs has job run in the background of p, after a time.
func (c *cluster) runs(p process, after time.Duration, job func()) {
	if !c.gone(p) {
		c.queue.push(c.now+after, runs, int32(p.host.number), c.keep(message{job: job, of: p}))
	}
}

// abandon ends the workers of a process that is gone: none of them waits any
// more.
func (c *cluster) abandon(p process) {
	for _, w := range c.workers {
		if w.job != nil && w.of == p {
			c.goOn(w)
		}
	}
}

// endWorkers ends all workers, at the end of the run.
func (c *cluster) endWorkers() {
	c.over = true
	for _, w := range c.workers {
		if w.job != nil {
			c.goOn(w)
		}
		w.end()
	}
}
