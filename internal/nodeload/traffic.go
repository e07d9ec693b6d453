// SPDX-License-Identifier: Apache-2.0

package nodeload

import (
	"context"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limiter"
)

// traffic is what a node decides by itself.
type traffic struct {
	keys     []string
	limiters *limiter.Group
	decided  atomic.Int64
	refused  atomic.Int64
	waits    histogram
}

const (
	// pace is how often each caller makes the decisions that are due.
	pace = 100 * time.Millisecond

	// callersOfNode and callersOfPeer are how many goroutines decide at the same
	// time. A decision that asks the owner of its key holds up its caller only.
	callersOfNode = 64
	callersOfPeer = 2
)

// newTraffic uses keys in an order that seed chooses.
func newTraffic(group *limiter.Group, keys []string, seed uint64) *traffic {
	t := &traffic{keys: append([]string(nil), keys...), limiters: group}
	random := rand.New(rand.NewPCG(seed, 1))
	random.Shuffle(len(t.keys), func(i, j int) { t.keys[i], t.keys[j] = t.keys[j], t.keys[i] })
	return t
}

// load is how often a node decides.
type load struct {
	ramp      time.Duration // in which the keys come into use, one after another
	perSecond float64       // then, over all keys in turn
	callers   int           // at the same time
}

// turns are the decisions of one caller about n keys. Each key of the caller is used as often
// as after the ramp from its first use on: a key that is not used for some intervals loses
// its grant.
//
//	turn 0   key 0 ─────────────▶ key n
//	turn 1         key 0 ─────────────▶ key n
//	         |     |             |
//	         0     n/perSecond   ramp
type turns struct {
	load

	n, caller int
	begun     int   // turns
	next      []int // key of each turn that goes on
}

// due calls decide for each key that is due after so much time.
func (t *turns) due(passed time.Duration, decide func(key int)) {
	every := float64(t.n) / t.perSecond
	for ; float64(t.begun)*every <= passed.Seconds(); t.begun++ {
		t.next = append(t.next, t.caller)
	}
	first := t.begun - len(t.next)
	for i := range t.next {
		since := passed.Seconds() - float64(first+i)*every
		for ; t.next[i] < t.n && float64(t.next[i]) < float64(t.n)*since/t.ramp.Seconds(); t.next[i] += t.callers {
			decide(t.next[i])
		}
	}
	for len(t.next) > 0 && t.next[0] >= t.n {
		t.next = t.next[1:]
	}
}

// run makes the decisions of l until ctx ends. A decision that is late is made later.
func (t *traffic) run(ctx context.Context, l load) {
	var running sync.WaitGroup
	for c := range l.callers {
		running.Go(func() { t.call(ctx, c, l) })
	}
	running.Wait()
}

// call is one of the callers.
func (t *traffic) call(ctx context.Context, caller int, l load) {
	timer := time.NewTimer(pace * time.Duration(caller) / time.Duration(l.callers))
	defer timer.Stop()
	began, turns := time.Now(), turns{load: l, n: len(t.keys), caller: caller}
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(pace)
		turns.due(time.Since(began), func(key int) {
			if ctx.Err() == nil {
				t.decide(t.keys[key])
			}
		})
	}
}

func (t *traffic) decide(key string) {
	began := time.Now()
	ok := t.limiters.For(key).Allow()
	t.waits.add(time.Since(began))
	t.decided.Add(1)
	if !ok {
		t.refused.Add(1)
	}
}

// histogram counts times, in steps of an eighth of a power of two. Safe for
// concurrent use.
type histogram struct {
	counts [8 * 64]atomic.Int64
}

func (h *histogram) add(d time.Duration) {
	h.counts[step(d)].Add(1)
}

// step is the number of d's step.
func step(d time.Duration) int {
	n := uint64(max(d, 8))
	power := bits.Len64(n) - 1
	return 8*power + int(n>>(power-3)&7)
}

// most is the longest time in a step.
func most(step int) time.Duration {
	power := step / 8
	return time.Duration(uint64(step%8+9)<<(power-3)) - 1
}

// read is the counts, without the empty steps at the end.
func (h *histogram) read() []int64 {
	counts := make([]int64, 0, len(h.counts))
	used := 0
	for i := range h.counts {
		counts = append(counts, h.counts[i].Load())
		if counts[i] > 0 {
			used = i + 1
		}
	}
	return counts[:used]
}

// quantileOf is the time that the part q of what was counted between before and
// after did not exceed, to an eighth; 0 if nothing was.
func quantileOf(before, after []int64, q float64) time.Duration {
	between := append([]int64(nil), after...)
	var all int64
	for i := range between {
		if i < len(before) {
			between[i] -= before[i]
		}
		all += between[i]
	}
	var sum int64
	for i, n := range between {
		if sum += n; n > 0 && float64(sum) >= q*float64(all) {
			return most(i)
		}
	}
	return 0
}
