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
	"github.com/headgate/headgate/limiter/mesh"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// TestModelOfMigrations drives a Group whose rule migrates between the host's own bucket and one
// elsewhere that no other host uses, in changing modes. The rule may be shared, soft, let callers
// borrow, and have more keys than it may. Its law is that no more passes than one bucket lets pass, but
// for events that are let through as soft.
func TestModelOfMigrations(t *testing.T) {
	inBubbles(t, func(rt *rapid.T) machine {
		m := &migrationModel{rt: rt, buckets: make(map[string]*oneBucket)}
		m.rule = dynamicconfig.Rule{
			Key: "k:*", Limit: 2, Burst: 20, IdleAfter: 3 * time.Second, Shared: rapid.Bool().Draw(rt, "shared"),
			MaxKeys: pick(rt, "max_keys", 100, 1), MaxDebt: pick(rt, "max_debt", time.Duration(0), 0, 5*time.Second),
			Enforce: pick(rt, "enforce", 0.0, 0, dynamicconfig.Soft),
		}
		m.rule.Migration = &dynamicconfig.Migration{From: "even", To: pick(rt, "elsewhere", "redis", "gossip")}
		if rapid.Bool().Draw(rt, "from elsewhere") {
			m.rule.Migration.From, m.rule.Migration.To = m.rule.Migration.To, "even"
		}
		m.draw(rt)
		remote := &remoteRef{buckets: make(map[string]*remoteBucket)}
		alone := mesh.New("this host", func(string) (*dynamicconfig.Rule, bool) { return &m.rule, true }, mesh.Config{})
		m.group = limiter.NewGroup(m.config(), 1, driver.WithSeed(1), limiter.WithMigration(shadow.Migrator()),
			limiter.WithRemote("redis", remote), limiter.WithRemote(mesh.Name, alone), driver.WithBackground(remote.background))
		return m
	})
}

// migrationModel is the state machine.
type migrationModel struct {
	rt      *rapid.T
	rule    dynamicconfig.Rule
	group   *limiter.Group
	buckets map[string]*oneBucket // by key; of a shared rule there is one
	open    []func(rt *rapid.T)
}

// oneBucket is the bucket that a limit promises.
type oneBucket struct {
	tokens float64
	at     stage.Instant
}

// bucket is that of key, as of now.
func (m *migrationModel) bucket(key string) *oneBucket {
	if m.rule.Shared {
		key = m.rule.Key
	}
	b, now := m.buckets[key], stage.Now()
	if b == nil {
		b = &oneBucket{m.rule.Burst, now}
		m.buckets[key] = b
	}
	b.tokens = min(b.tokens+float64(m.rule.Limit)*now.Sub(b.at).Seconds(), m.rule.Burst)
	b.at = now
	return b
}

func (m *migrationModel) key(rt *rapid.T) string { return pick(rt, "key", "k:a", "k:a", "k:b") }

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
			driver.Of(m.group).Report(stage.Now())
		},
		"mode": func(rt *rapid.T) {
			m.step()
			m.draw(rt)
			m.group.Configure(m.config())
			for key := range m.buckets { // a remote bucket that begins to answer is charged with a debt
				b := m.bucket(key)
				b.tokens = max(b.tokens, m.deepest())
			}
		},
	}
}

// step lets some time pass.
func (m *migrationModel) step() { time.Sleep(time.Nanosecond) }

func (m *migrationModel) take(rt *rapid.T) {
	m.step()
	key := m.key(rt)
	l, n, of := m.group.For(key), rapid.IntRange(1, 20).Draw(rt, "n"), m.bucket(key)
	longest := pick(rt, "longest", 0, 0, 2*time.Second)
	ways := []string{"Take", "Decide", "ReserveN", "Allow"}
	if m.rule.Enforce == dynamicconfig.Soft {
		ways = ways[:2] // the others do not say which events are soft
	}
	var ok, soft bool
	var wait time.Duration
	var undo func(rt *rapid.T) float64
	switch pick(rt, "how", ways...) {
	case "Take":
		e := l.Take(context.Background(), n, longest)
		ok, wait, soft = e.OK(), e.Decision().Wait, e.Decision().Reason == stage.Soft
		undo = func(rt *rapid.T) float64 {
			actual := pick(rt, "actual", 0, n/2, n, n+3)
			if e.Settle(actual); soft {
				return 0 // at most: nothing was taken
			}
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
		ok, wait, soft = d.OK, d.Wait, d.Reason == stage.Soft
	default:
		n = 1
		ok = l.Allow()
	}
	if !ok {
		return
	}
	if !soft {
		of.tokens -= float64(n)
	}
	if left := of.tokens + float64(m.rule.Limit)*(wait+m.rule.MaxDebt).Seconds(); !soft && left < -0.01 {
		m.rt.Fatalf("%v: %d of %s passed after %v, and one bucket would have %v tokens left of what may be borrowed", m.rule.Migration.Mode, n, key, wait, left)
	}
	if undo != nil {
		m.open = append(m.open, func(rt *rapid.T) {
			b := m.bucket(key)
			before := b.tokens
			if b.tokens = min(b.tokens+undo(rt), m.rule.Burst); b.tokens < before {
				b.tokens = max(b.tokens, min(before, m.deepest()))
			}
		})
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
	undo(rt)
}

// charge takes what is spent already, into the deepest debt at most. A key for which there is no room
// is charged with nothing.
func (m *migrationModel) charge(rt *rapid.T) {
	m.step()
	key, n := m.key(rt), rapid.IntRange(1, 60).Draw(rt, "n")
	b := m.bucket(key)
	m.group.For(key).Charge(n)
	switch left := b.tokens - float64(n); {
	case m.rule.MaxKeys == 1 && !m.rule.Shared:
	case left >= m.deepest():
		b.tokens = left
	default:
		b.tokens = min(b.tokens, m.deepest())
	}
}

// deepest is the debt beyond which nothing need be charged: two bursts, less a token of which a part would be
// beyond that.
func (m *migrationModel) deepest() float64 { return 1 - 2*m.rule.Burst }

func (m *migrationModel) time(rt *rapid.T) {
	time.Sleep(pick(rt, "how long", time.Millisecond, time.Second, 3*time.Second, 20*time.Second))
}

func (m *migrationModel) finish() {}
func (m *migrationModel) end()    {}
