// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// TestModelOfSlots is TestModel for slots in flight. Its laws are:
//   - What is held is what was acquired and not released, on each side of a
//     migration at most, and without one exactly.
//   - Nobody acquires beyond what the host may hold.
//   - The first waiter that fits is served.
//   - A bypass lets all through and counts what is held. A reset changes nothing.
func TestModelOfSlots(t *testing.T) {
	inBubbles(t, func(rt *rapid.T) machine { return newSlotsModel(rt) })
}

// slotsModel is the state machine of limits on what is in flight.
type slotsModel struct {
	rt       *rapid.T
	group    *limiter.Group
	manual   driver.Driver
	rule     dynamicconfig.Rule
	hosts    int
	holds    []*holdRef
	sent     []*driver.Batch
	arrivals int
	changes  int             // of the rule, so often
	took     map[string]bool // keys whose slots were acquired in this step
	over     dynamicconfig.Override
}

// holdRef is a call of Acquire or TryAcquire.
type holdRef struct {
	key       string
	n         int64
	priority  int64
	arrival   int
	done      chan struct{} // closed when the wait is over; nil if it did not wait
	cancel    context.CancelFunc
	release   func()
	err       error
	held      bool
	uncounted bool // there was no room for its key
	migrated  bool // it was acquired, or began to wait, under a migration
	changes   int  // changes of the rule until then
}

func newSlotsModel(rt *rapid.T) *slotsModel {
	m := &slotsModel{
		rt: rt, hosts: pick(rt, "hosts", 1, 2, 4), took: make(map[string]bool),
	}
	m.rule = m.drawRule(rt)
	m.group = limiter.NewGroup(snapshotOf(rt, m.rule, m.over), m.hosts, driver.WithSeed(1), limiter.WithMigration(shadow.Migrator()))
	m.manual = driver.Of(m.group)
	return m
}

func (m *slotsModel) drawRule(rt *rapid.T) dynamicconfig.Rule {
	r := dynamicconfig.Rule{
		Key: "k:*", InFlight: true, Limit: pick[rate.Limit](rt, "limit", 4, 1, 2, 10, 0), IdleAfter: 3 * time.Second,
		Fallback: pick(rt, "fallback", dynamicconfig.FallbackEven, dynamicconfig.FallbackOpen, dynamicconfig.FallbackClosed, dynamicconfig.FallbackSafe),
		Shared:   m.rule.Shared || m.rule.Key == "" && pick(rt, "shared", false, true), MaxKeys: pick(rt, "max_keys", 100, 1),
	}
	if r.Fallback == dynamicconfig.FallbackSafe {
		r.SafeCapacity = 2
	}
	names := []string{"even", "fair-share", "static"}
	if r.Algorithm = pick(rt, "algorithm", names...); rapid.Bool().Draw(rt, "migrates") {
		r.Migration = &dynamicconfig.Migration{From: r.Algorithm, To: pick(rt, "to", names...), Mode: drawMode(rt)}
		if r.Algorithm = ""; r.Migration.From == r.Migration.To {
			r.Migration.From, r.Migration.To = "even", "fair-share"
		}
	}
	return r
}

func (m *slotsModel) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"": func(*rapid.T) { m.check() },

		"try": m.try, "acquire": m.acquire, "acquire again": m.acquire, "release": m.release, "release again": m.release, "give up": m.giveUp,
		"configure": m.configure, "mode": m.mode, "override": m.override, "reset": m.reset, "hosts": m.setHosts, "time": m.time, "idle": m.idle, "report": m.report, "early": m.early, "answer": m.answer,
	}
}

// name is what limits key.
func (m *slotsModel) name(key string) string {
	if m.rule.Shared {
		return m.rule.Key
	}
	return key
}

func (m *slotsModel) begin(rt *rapid.T) *holdRef {
	time.Sleep(time.Nanosecond)
	m.arrivals++
	return &holdRef{
		key: pick(rt, "key", "k:a", "k:a", "k:b"), n: pick[int64](rt, "n", 1, 1, 2, 3, 12), arrival: m.arrivals, migrated: m.rule.Migration != nil, changes: m.changes,
	}
}

func (m *slotsModel) try(rt *rapid.T) {
	h := m.begin(rt)
	var ok bool
	if h.release, ok = m.group.For(h.key).TryAcquire(int(h.n)); ok {
		m.take(h)
	} else if m.full(h.key) && !m.over.Bypass && answering(&m.rule) != "" {
		return
	} else if m.over.Bypass {
		rt.Fatalf("%s: %d slots are refused under a bypass", h.key, h.n)
	} else if free, waits := m.free(h); h.n <= free && !waits {
		rt.Fatalf("%s: %d slots are refused, and %d are free", h.key, h.n, free)
	}
}

// full reports whether there is no room for key, because the other one is live.
func (m *slotsModel) full(key string) bool {
	_, live := m.group.InspectAt(stage.Now().Time(), m.name(key))
	if !live && (m.rule.Shared || m.rule.MaxKeys > 1) {
		m.rt.Fatalf("%s is not live", key)
	}
	return !live
}

// free is how many slots the one may take that answers, and whether somebody
// waits who would be served first.
func (m *slotsModel) free(h *holdRef) (free int64, waits bool) {
	st, ok := m.group.InspectAt(stage.Now().Time(), m.name(h.key))
	if !ok {
		m.rt.Fatalf("%s is not live", h.key)
	}
	for _, s := range st.Shares {
		if s.Algorithm == answering(&m.rule) {
			return slotsOf(s.Level.Tokens), s.Waiting > 0
		}
	}
	return math.MaxInt64, false
}

func slotsOf(x float64) int64 {
	if x > 1<<53 {
		return math.MaxInt64
	}
	return int64(x)
}

func (m *slotsModel) acquire(rt *rapid.T) {
	h := m.begin(rt)
	h.priority = pick[int64](rt, "priority", 0, 0, 5)
	ctx, cancel := context.WithTimeout(context.Background(), pick(rt, "longest", time.Hour, time.Hour, time.Millisecond, time.Second))
	h.cancel, h.done = cancel, make(chan struct{})
	go func() {
		defer close(h.done)
		h.release, h.err = m.group.For(h.key).Acquire(ctx, int(h.n), limiter.Priority(h.priority))
	}()
	m.holds = append(m.holds, h)
	if m.settle(); errors.Is(h.err, limiter.ErrTooManyKeys) && !m.full(h.key) {
		rt.Fatalf("%s has no room, and is live", h.key)
	}
}

// take notes that h holds its slots.
func (m *slotsModel) take(h *holdRef) {
	h.held = true
	if m.full(h.key) { // a bypass, or the mode disabled, lets it through, and nothing counts it
		h.uncounted = true
		if m.over.Bypass || answering(&m.rule) == "" {
			if h.done == nil {
				m.holds = append(m.holds, h)
			}
			return
		}
		m.rt.Fatalf("%s has slots, and no room", h.key)
	}
	if h.changes == m.changes || !h.migrated && m.rule.Migration == nil {
		m.took[m.name(h.key)] = true // from the side that answers
	}
	h.migrated = h.migrated || m.rule.Migration != nil
	if h.done == nil {
		m.holds = append(m.holds, h)
	}
}

// settle waits until all callers have got what they can, and notes that.
func (m *slotsModel) settle() {
	synctest.Wait()
	m.holds = slices.DeleteFunc(m.holds, func(h *holdRef) bool {
		if h.done == nil || h.held {
			return false
		}
		select {
		case <-h.done:
		default:
			return false
		}
		h.cancel()
		if h.err == nil {
			m.take(h)
			return false
		}
		return true
	})
}

func (m *slotsModel) pick(rt *rapid.T, held bool) *holdRef {
	var all []*holdRef
	for _, h := range m.holds {
		if h.held == held {
			all = append(all, h)
		}
	}
	if len(all) == 0 {
		rt.Skip("there is none")
	}
	time.Sleep(time.Nanosecond)
	return all[rapid.IntRange(0, len(all)-1).Draw(rt, "which")]
}

func (m *slotsModel) release(rt *rapid.T) {
	h := m.pick(rt, true)
	h.release()
	h.release() // does nothing
	m.holds = slices.DeleteFunc(m.holds, func(o *holdRef) bool { return o == h })
	m.settle()
}

func (m *slotsModel) giveUp(rt *rapid.T) {
	m.pick(rt, false).cancel()
	m.settle()
}

func (m *slotsModel) configure(rt *rapid.T) { m.change(m.drawRule(rt)) }

func (m *slotsModel) mode(rt *rapid.T) {
	if m.rule.Migration == nil {
		rt.Skip("it does not migrate")
	}
	next := m.rule
	next.Migration = &dynamicconfig.Migration{From: next.Migration.From, To: next.Migration.To, Mode: drawMode(rt)}
	m.change(next)
}

// override begins an override instead of the one before, or ends that.
func (m *slotsModel) override(rt *rapid.T) {
	m.over = drawOverride(rt)
	m.over.InFlight = m.over.Limit > 0
	m.change(m.rule)
}

// reset changes nothing: slots that are held stay held.
func (m *slotsModel) reset(rt *rapid.T) {
	if err := m.group.Reset(context.Background(), pick(rt, "key", "k:a", "k:b")); err != nil {
		rt.Fatal(err)
	}
	m.settle()
}

func (m *slotsModel) change(rule dynamicconfig.Rule) {
	time.Sleep(time.Nanosecond)
	m.rule = rule
	m.changes++
	for _, h := range m.holds {
		h.migrated = h.migrated || rule.Migration != nil && h.held // the new side does not know of it
	}
	m.manual.Configure(stage.Now(), snapshotOf(m.rt, rule, m.over))
	m.settle()
}

func (m *slotsModel) setHosts(rt *rapid.T) {
	time.Sleep(time.Nanosecond)
	m.hosts = pick(rt, "hosts", 1, 2, 4, 10)
	m.manual.SetHosts(stage.Now(), m.hosts)
	m.settle()
}

func (m *slotsModel) time(rt *rapid.T) {
	time.Sleep(pick(rt, "how long", time.Millisecond, time.Second, time.Minute))
	m.settle() // callers whose deadline has passed do not wait any longer
}

func (m *slotsModel) idle(rt *rapid.T) {
	for range pick(rt, "rounds", 3, 7) {
		time.Sleep(time.Second)
		m.settle()
		m.check() // what was acquired until now: the report may end the lease that it was acquired under
		m.report(rt)
		for len(m.sent) > 0 {
			m.apply(0, 0, 0)
		}
	}
}

func (m *slotsModel) report(*rapid.T) {
	time.Sleep(time.Nanosecond)
	m.send(m.manual.Report(stage.Now()))
}

func (m *slotsModel) early(*rapid.T) {
	time.Sleep(time.Nanosecond)
	m.send(m.manual.Early(stage.Now()))
}

func (m *slotsModel) send(batches []*driver.Batch) {
	m.sent = append(m.sent, batches...)
	m.settle()
}

func (m *slotsModel) answer(rt *rapid.T) {
	if len(m.sent) == 0 {
		rt.Skip("nothing is reported")
	}
	time.Sleep(time.Nanosecond)
	i := rapid.IntRange(0, len(m.sent)-1).Draw(rt, "which")
	switch pick(rt, "how", "applied", "applied", "lost", "failed") {
	case "failed":
		m.manual.Fail(stage.Now(), m.sent[i], nil)
		m.settle()
		fallthrough
	case "lost":
		m.sent = slices.Delete(m.sent, i, i+1)
		return
	}
	m.apply(i, pick(rt, "weight", 0.5, 1, 0.25, 0), pick(rt, "lease", 10*time.Second, 2*time.Second, 0))
}

func (m *slotsModel) apply(i int, weight float64, lease time.Duration) {
	b := m.sent[i]
	m.sent = slices.Delete(m.sent, i, i+1)
	if err := m.manual.Apply(stage.Now(), b, nil, grantOf(b.Usage.Len(), weight, 0, lease)); err != nil {
		m.rt.Fatal(err)
	}
	m.settle()
}

// check compares what is held with what was acquired.
func (m *slotsModel) check() {
	for _, name := range []string{"k:a", "k:b", "k:*"} {
		st, live := m.group.InspectAt(stage.Now().Time(), name)
		if !live {
			continue
		}
		var held int64
		var waiting []*holdRef
		migrated := false
		for _, h := range m.holds {
			if m.name(h.key) != name || h.uncounted {
				continue
			}
			if h.held {
				held += h.n
				migrated = migrated || h.migrated
			} else {
				waiting = append(waiting, h)
			}
		}
		for _, s := range st.Shares {
			switch answers := s.Algorithm == answering(&m.rule); {
			case s.Held > held || s.Held != held && m.rule.Migration == nil && !migrated:
				m.rt.Fatalf("%s: %d slots are held: %+v", name, held, s)
			case answers && m.took[name] && float64(s.Held) > s.Level.Burst:
				m.rt.Fatalf("%s: slots were acquired beyond the host's: %+v", name, s)
			case answers:
				m.checkWaiting(name, s, waiting)
			}
		}
		if answering(&m.rule) == "" && len(waiting) > 0 {
			m.rt.Fatalf("%s: %d wait, and it is disabled", name, len(waiting))
		}
	}
	clear(m.took)
}

// checkWaiting checks that no waiter could be served: the first of those with the
// highest priority that need no more than there is. Callers that had to look for
// other slots since they came may be in any order.
func (m *slotsModel) checkWaiting(name string, s limiter.ShareStatus, waiting []*holdRef) {
	var first *holdRef
	var want int64
	for _, h := range waiting {
		want += h.n
		switch {
		case h.n > slotsOf(s.Level.Burst) || first != nil && h.priority < first.priority:
		case first == nil || h.priority > first.priority || h.changes != m.changes && h.n > first.n:
			first = h
		}
	}
	if want != s.Waiting {
		m.rt.Fatalf("%s: %d slots are waited for: %+v", name, want, s)
	}
	if first != nil && first.n <= slotsOf(s.Level.Tokens) {
		m.rt.Fatalf("%s: a caller waits for %d slots: %+v", name, first.n, s)
	}
}

// finish releases all, and looks at what is left.
func (m *slotsModel) finish() {
	for len(m.holds) > 0 {
		for _, h := range slices.Clone(m.holds) {
			if h.held {
				h.release()
				m.holds = slices.DeleteFunc(m.holds, func(o *holdRef) bool { return o == h })
			} else {
				h.cancel()
			}
		}
		m.settle()
	}
	m.check()
	for _, name := range []string{"k:a", "k:b", "k:*"} {
		st, _ := m.group.InspectAt(stage.Now().Time(), name)
		for _, s := range st.Shares {
			if s.Held != 0 || s.Waiting != 0 || s.Level.Tokens != s.Level.Burst {
				m.rt.Fatalf("%s: all is released: %+v", name, s)
			}
		}
	}
}

func (m *slotsModel) end() {
	for _, h := range m.holds {
		if h.cancel != nil {
			h.cancel()
		}
	}
	synctest.Wait()
}
