// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/limiter/stage"
)

// heapNow is how much is in use.
func heapNow() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// A million keys of one glob, in the long form, and else 100,000, cost what docs/config.md says, no goroutine, and
// nothing any more when they have been idle.
func TestAMillionDynamicKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("fills half a gigabyte")
	}
	away := &elsewhere{answer: &stage.Outcome{OK: true}}
	for name, tt := range map[string]struct {
		change  func(r *dynamicconfig.Rule)
		options []Option
		most    float64 // bytes for a key
	}{
		"plain":    {func(*dynamicconfig.Rule) {}, nil, 750},
		"debt":     {func(r *dynamicconfig.Rule) { r.MaxDebt, r.MaxCost = time.Second, 50 }, nil, 880},
		"listener": {func(r *dynamicconfig.Rule) { r.MaxDebt = time.Second }, []Option{WithListener(func([]Event) {})}, 980},
		"exact":    {func(r *dynamicconfig.Rule) { r.Algorithm = "exact" }, []Option{WithRemote("exact", away)}, 920},
	} {
		n := 100_000
		if name == "debt" && testrun.Long() {
			n = 1_000_000
		}
		r := alone(10, 10)
		r.Key, r.MaxKeys, r.IdleAfter = "user:*", n, time.Minute
		tt.change(&r)
		keys := make([]string, n)
		for i := range keys {
			keys[i] = fmt.Sprintf("user:%016d", i)
		}
		goroutines, before := runtime.NumGoroutine(), heapNow()
		g := NewGroup(snapshot(t, r), 1, tt.options...)
		for _, key := range keys {
			if !allowAt(g.For(key), 0, 5) {
				t.Fatalf("%s: %s is refused", name, key)
			}
		}
		used := (heapNow() - before) / float64(n)
		if d := decideAt(g.For("user:one more"), 0, 1, 0); d.Reason != TooManyKeys {
			t.Errorf("%s: one more: %+v", name, d)
		}
		g.Manual().Report(second / 10)
		if got := runtime.NumGoroutine(); got > goroutines {
			t.Errorf("%s: %d goroutines, %d before", name, got, goroutines)
		}
		g.Manual().Report(4 * second)
		g.Manual().Report(5 * second)
		idle := (heapNow() - before) / float64(n)
		g.Manual().Report(2 * 60 * second)
		g.Manual().Report(2*60*second + 1)
		gone := (heapNow() - before) / float64(n)
		t.Logf("%s: %.0f bytes for a key in use, %.0f for one that is idle, %.1f afterwards", name, used, idle, gone)
		if used > tt.most || idle > 250 || gone > 20 {
			t.Errorf("%s: more than %v, 250 and 20 bytes", name, tt.most)
		}
		k := g.For(keys[0])
		if name != "exact" && math.Abs(keyOf(k).Level(120*second).Tokens-10) > 1e-6 {
			t.Errorf("%s: it comes back with %v tokens", name, keyOf(k).Level(120*second).Tokens)
		}
		runtime.KeepAlive(g)
		runtime.KeepAlive(keys)
	}
}

// A key that is idle leaves only when its bucket is full, and then comes back
// full: nobody notices.
func TestIdleBucketsLeaveAndComeBackFull(t *testing.T) {
	for name, change := range map[string]func(r *dynamicconfig.Rule){
		"plain": func(*dynamicconfig.Rule) {},
		"debt":  func(r *dynamicconfig.Rule) { r.MaxDebt, r.MaxCost = 20*time.Second, 20 },
		"soft":  func(r *dynamicconfig.Rule) { r.Enforce = dynamicconfig.Soft },
	} {
		r := alone(1, 10)
		r.Key, r.IdleAfter = "d:*", 5*time.Second
		change(&r)
		g := NewGroup(snapshot(t, r), 1)
		k := g.For("d:1")
		allowAt(k, 0, 10)
		charge(keyOf(k), 0, 5) // fifteen seconds until it is full
		for now := second; now < 15*second; now += second {
			g.Manual().Report(now)
			if g.keys().Live("d:1") == nil {
				t.Fatalf("%s: forgotten after %v with %v tokens", name, time.Duration(now), keyOf(k).Level(now).Tokens)
			}
		}
		for now := 15 * second; now < 30*second; now += second {
			g.Manual().Report(now)
		}
		if g.keys().Live("d:1") != nil {
			t.Errorf("%s: never forgotten", name)
		}
		if got := keyOf(k).Level(30 * second).Tokens; math.Abs(got-10) > 1e-6 {
			t.Errorf("%s: back with %v tokens", name, got)
		}
	}
}
