// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// TestModelOfMigrations drives a Group whose rule migrates between the host's own bucket and one
// elsewhere that no other host uses, in changing modes. Its law is that no more passes than one
// bucket lets pass.
func TestModelOfMigrations(t *testing.T) {
	inBubbles(t, func(rt *rapid.T) machine {
		m := &migrationModel{rt: rt, now: stage.Now(), tokens: 20}
		m.rule = dynamicconfig.Rule{Key: "k", Limit: 2, Burst: m.tokens, IdleAfter: 3 * time.Second}
		m.rule.Migration = &dynamicconfig.Migration{From: "even", To: "redis"}
		if rapid.Bool().Draw(rt, "from redis") {
			m.rule.Migration = &dynamicconfig.Migration{From: "redis", To: "even"}
		}
		m.draw(rt)
		remote := &remoteRef{buckets: make(map[string]*remoteBucket)}
		m.group = limiter.NewGroup(m.config(), 1, driver.WithSeed(1), limiter.WithMigration(shadow.Migrator()),
			limiter.WithRemote("redis", remote), driver.WithBackground(remote.background))
		return m
	})
}

// migrationModel is the state machine.
type migrationModel struct {
	rt     *rapid.T
	rule   dynamicconfig.Rule
	group  *limiter.Group
	now    stage.Instant
	tokens float64                            // of the one bucket
	open   []func(rt *rapid.T) (back float64) // at most so much goes back
}

// draw draws another mode. Under the mode disabled, which is not among them, nothing is limited.
func (m *migrationModel) draw(rt *rapid.T) {
	next := *m.rule.Migration
	next.Mode = pick(rt, "mode", dynamicconfig.ModeOldShadowNew, dynamicconfig.ModeNewShadowOld, dynamicconfig.ModeOld, dynamicconfig.ModeNew)
	m.rule.Migration = &next
}

func (m *migrationModel) config() *dynamicconfig.Snapshot {
	return snapshotOf(m.rt, m.rule, dynamicconfig.Override{})
}

func (m *migrationModel) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"take": m.take, "take again": m.take, "settle": m.settle, "charge": m.charge, "time": m.time,
		"report": func(*rapid.T) {
			m.step()
			driver.Of(m.group).Report(m.now)
		},
		"mode": func(rt *rapid.T) {
			m.step()
			m.draw(rt)
			m.group.Configure(m.config())
			m.tokens = max(m.tokens, m.deepest()) // a bucket elsewhere that begins to answer is charged with a debt
		},
	}
}

// step lets some time pass.
func (m *migrationModel) step() {
	time.Sleep(time.Nanosecond)
	now := stage.Now()
	m.tokens = min(m.tokens+float64(m.rule.Limit)*now.Sub(m.now).Seconds(), m.rule.Burst)
	m.now = now
}

func (m *migrationModel) take(rt *rapid.T) {
	m.step()
	l, n := m.group.For("k"), rapid.IntRange(1, 20).Draw(rt, "n")
	longest := pick(rt, "longest", 0, 0, 2*time.Second)
	var ok bool
	var wait time.Duration
	var undo func(rt *rapid.T) float64
	switch how := pick(rt, "how", "Take", "Decide", "ReserveN", "Allow"); how {
	case "Take":
		e := l.Take(context.Background(), n, longest)
		ok, wait = e.OK(), e.Decision().Wait
		undo = func(rt *rapid.T) float64 {
			actual := pick(rt, "actual", 0, n/2, n, n+3)
			e.Settle(actual)
			return float64(n - actual)
		}
	case "ReserveN":
		r := l.ReserveN(time.Now(), n)
		ok, wait = r.OK(), r.Delay()
		acts := time.Now().Add(wait)
		undo = func(*rapid.T) float64 {
			r.Cancel()
			if time.Now().After(acts) {
				return 0
			}
			return float64(n)
		}
	case "Decide":
		d := l.Decide(context.Background(), n, longest)
		ok, wait = d.OK, d.Wait
	default:
		n = 1
		ok = l.Allow()
	}
	if !ok {
		return
	}
	m.tokens -= float64(n)
	if left := m.tokens + float64(m.rule.Limit)*wait.Seconds(); left < -0.01 {
		m.rt.Fatalf("%v: %d passed after %v, and one bucket would have %v tokens left", m.rule.Migration.Mode, n, wait, left)
	}
	if undo != nil {
		m.open = append(m.open, undo)
	}
}

func (m *migrationModel) settle(rt *rapid.T) {
	if len(m.open) == 0 {
		rt.Skip("nothing is taken")
	}
	m.step()
	i := rapid.IntRange(0, len(m.open)-1).Draw(rt, "which")
	undo := m.open[i]
	m.open = append(m.open[:i:i], m.open[i+1:]...)
	before := m.tokens
	if m.tokens = min(m.tokens+undo(rt), m.rule.Burst); m.tokens < before {
		m.tokens = max(m.tokens, min(before, m.deepest()))
	}
}

// charge takes what is spent already, into the deepest debt at most. Of a token of which a
// part is beyond that debt, a bucket elsewhere is charged with nothing.
func (m *migrationModel) charge(rt *rapid.T) {
	m.step()
	n := rapid.IntRange(1, 60).Draw(rt, "n")
	m.group.For("k").Charge(n)
	if left := m.tokens - float64(n); left >= m.deepest() {
		m.tokens = left
	} else {
		m.tokens = min(m.tokens, m.deepest()+1)
	}
}

// deepest is the debt beyond which nothing is charged.
func (m *migrationModel) deepest() float64 { return -2 * m.rule.Burst }

func (m *migrationModel) time(rt *rapid.T) {
	time.Sleep(pick(rt, "how long", time.Millisecond, time.Second, 3*time.Second, 20*time.Second))
	m.step()
}

func (m *migrationModel) finish() {}
func (m *migrationModel) end()    {}
