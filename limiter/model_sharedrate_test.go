// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter"
)

// TestModelOfSharedRate drives a *rate.Limiter that a Limiter of FromRate and other code use,
// and whose limit changes. Its law is that no step but time, and a refund of what was taken,
// adds tokens.
func TestModelOfSharedRate(t *testing.T) {
	inBubbles(t, func(rt *rapid.T) machine {
		of := rate.NewLimiter(10, sharedBurst)
		return &sharedRate{rt: rt, of: of, limiter: limiter.FromRate(of), most: sharedBurst, limit: 10, at: time.Now()}
	})
}

const sharedBurst = 20

// sharedRate is the state machine.
type sharedRate struct {
	rt      *rapid.T
	of      *rate.Limiter
	limiter *limiter.Limiter
	limit   float64
	most    float64 // tokens that there may be
	at      time.Time
	open    []func(rt *rapid.T) (back int)
}

func (m *sharedRate) actions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){"others": m.others, "take": m.take, "settle": m.settle, "limit": m.change, "time": m.time}
	for name, f := range actions {
		actions[name] = func(rt *rapid.T) {
			f(rt)
			m.fill()
			if got := m.of.Tokens(); got > m.most+eps {
				m.rt.Fatalf("%v tokens, want at most %v", got, m.most)
			}
			m.most = m.of.Tokens() // what does not come back is lost
		}
	}
	return actions
}

// fill lets the time count that has passed.
func (m *sharedRate) fill() {
	now := time.Now()
	m.most = min(m.most+m.limit*now.Sub(m.at).Seconds(), sharedBurst)
	m.at = now
}

// others is somebody who uses the *rate.Limiter itself.
func (m *sharedRate) others(rt *rapid.T) {
	n := rapid.IntRange(1, sharedBurst).Draw(rt, "n")
	if pick(rt, "how", m.of.AllowN, func(t time.Time, n int) bool { return m.of.ReserveN(t, n).OK() })(time.Now(), n) {
		m.most -= float64(n)
	}
}

func (m *sharedRate) take(rt *rapid.T) {
	n := rapid.IntRange(1, sharedBurst).Draw(rt, "n")
	e := m.limiter.Take(context.Background(), n, pick(rt, "longest", 0, time.Second, time.Minute))
	if !e.OK() {
		return
	}
	m.most -= float64(n)
	m.open = append(m.open, func(rt *rapid.T) int {
		actual := pick(rt, "actual", 0, n/2, n)
		e.Settle(actual)
		return n - actual
	})
}

func (m *sharedRate) settle(rt *rapid.T) {
	if len(m.open) == 0 {
		rt.Skip("nothing is taken")
	}
	i := rapid.IntRange(0, len(m.open)-1).Draw(rt, "which")
	settle := m.open[i]
	m.open = append(m.open[:i:i], m.open[i+1:]...)
	m.most = min(m.most+float64(settle(rt)), sharedBurst)
}

func (m *sharedRate) change(rt *rapid.T) {
	m.limit = pick(rt, "limit", 1.0, 10, 0.5, 100)
	m.of.SetLimit(rate.Limit(m.limit))
}

func (m *sharedRate) time(rt *rapid.T) {
	time.Sleep(pick(rt, "how long", time.Millisecond, 100*time.Millisecond, time.Second, 30*time.Second))
}

func (m *sharedRate) finish() {}
func (m *sharedRate) end()    {}
