// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	"github.com/headgate/headgate/internal/sim/coroutine"
	"github.com/headgate/headgate/internal/sim/traffic"
)

// Process names a process of a host, which may be gone. What may wait for the network is a
// job of one: decisions, and calls that no decision waits for.
type Process struct {
	host   *Host
	number int32
}

// Current names the process that runs on h.
func (h *Host) Current() Process { return Process{h, h.process} }

// ended reports whether the process has ended.
func (p Process) ended() bool { return !p.host.Up || p.host.process != p.number }

// Spawn runs job, which is of h's process, until it ends or waits.
func (f *Fleet) Spawn(h *Host, job func()) { f.jobs.Spawn(h.Current(), job) }

// Gone reports whether the process has ended, or the run.
func (f *Fleet) Gone(p Process) bool { return f.jobs.Gone(p) }

// wake has an event end a wait at a time, if it still lasts.
func (f *Fleet) wake(t coroutine.Turn[Process], at traffic.Time) {
	f.Queue.Push(at, wakes, int32(t.Of().host.Number), f.messages.Keep(message{turn: t}))
}

// runs has job run in the background of p, after a time.
func (f *Fleet) runs(p Process, after time.Duration, job func()) {
	if !f.jobs.Gone(p) {
		f.Queue.Push(f.Now+after, runs, int32(p.host.Number), f.messages.Keep(message{job: job, of: p}))
	}
}
