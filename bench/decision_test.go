// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/alibaba/sentinel-golang/api"
	"github.com/alibaba/sentinel-golang/core/base"
	"github.com/alibaba/sentinel-golang/core/config"
	"github.com/alibaba/sentinel-golang/core/flow"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	uber "go.uber.org/ratelimit"
	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
)

// BenchmarkDecision is one decision about one key. The peers' limiters are
// in hand; headgate's and Cadence's are found by key each time.
func BenchmarkDecision(b *testing.B) {
	for _, do := range []struct {
		name  string
		limit rate.Limit
	}{{"allow", plenty}, {"reject", 1}} {
		b.Run("do="+do.name, func(b *testing.B) {
			var all []contender
			for _, algorithm := range ours {
				g := host(b, dynamicconfig.Rule{Limit: do.limit, Algorithm: algorithm})
				granted(b, g, float64(do.limit), "k")
				all = append(all, contender{algorithm, func(int) bool { return g.For("k").Allow() }})
				if algorithm == requestWeighted { // as a caller does who keeps the Limiter
					held := g.For("k")
					all = append(all, contender{algorithm + "-held", func(int) bool { return held.Allow() }})
				}
			}
			bare := rate.NewLimiter(do.limit, int(do.limit))
			smooth := ratelimiter.NewBursty[any](uint(do.limit), time.Second)
			guarded := sentinel(b, "decision-"+do.name, float64(do.limit))
			c := newCadence(b, "global", int(do.limit), "k")
			all = append(all,
				contender{"x-time-rate", func(int) bool { return bare.Allow() }},
				contender{"failsafe-go", func(int) bool { return smooth.TryAcquirePermit() }},
				contender{"sentinel-golang", func(int) bool { return guarded() }},
				contender{"cadence", func(int) bool { return c.For("k").Allow() }},
			)
			if do.name == "allow" { // it has no other answer: it waits
				paced := uber.New(int(do.limit))
				all = append(all, contender{"uber-ratelimit", func(int) bool { return !paced.Take().IsZero() }})
			}
			compare(b, all...)
		})
	}
}

// BenchmarkMode is one decision about a key that moves from request-weighted
// to elastic, in each mode.
func BenchmarkMode(b *testing.B) {
	for _, mode := range []struct {
		is     dynamicconfig.Mode
		theirs string
	}{
		{dynamicconfig.ModeOld, "local"},
		{dynamicconfig.ModeOldShadowNew, "local-shadow-global"},
		{dynamicconfig.ModeNewShadowOld, "global-shadow-local"},
		{dynamicconfig.ModeNew, "global"},
		{dynamicconfig.ModeDisabled, "disabled"},
	} {
		b.Run("stage="+mode.is.String(), func(b *testing.B) {
			g := host(b, dynamicconfig.Rule{
				Limit:     plenty,
				Migration: &dynamicconfig.Migration{From: requestWeighted, To: elastic, Mode: mode.is},
			})
			granted(b, g, float64(plenty), "k")
			bare := rate.NewLimiter(plenty, int(plenty))
			c := newCadence(b, mode.theirs, int(plenty), "k")
			compare(b,
				contender{"headgate", func(int) bool { return g.For("k").Allow() }},
				contender{"x-time-rate", func(int) bool { return bare.Allow() }},
				contender{"cadence", func(int) bool { return c.For("k").Allow() }},
			)
		})
	}
}

// BenchmarkKeys is one decision about one of many keys, in random order.
func BenchmarkKeys(b *testing.B) {
	for _, n := range []int{1, 1_000, 100_000} {
		n = size(n, 20)
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			keys := names(n)
			var all []contender
			for _, algorithm := range ours {
				g := host(b, dynamicconfig.Rule{Limit: plenty, Algorithm: algorithm})
				granted(b, g, float64(plenty), keys...)
				all = append(all, contender{algorithm, func(i int) bool { return g.For(keys[i%n]).Allow() }})
			}
			var mu sync.RWMutex
			locked := make(map[string]*rate.Limiter)
			var synced sync.Map
			for _, key := range keys {
				locked[key] = rate.NewLimiter(plenty, int(plenty))
				synced.Store(key, rate.NewLimiter(plenty, int(plenty)))
			}
			c := newCadence(b, "global", int(plenty), keys...)
			compare(b, append(all,
				contender{"rwmutex-map", func(i int) bool {
					mu.RLock()
					l := locked[keys[i%n]]
					mu.RUnlock()
					return l.Allow()
				}},
				contender{"sync-map", func(i int) bool {
					l, _ := synced.Load(keys[i%n])
					return l.(*rate.Limiter).Allow()
				}},
				contender{"cadence", func(i int) bool { return c.For(keys[i%n]).Allow() }},
			)...)
		})
	}
}

// BenchmarkHostMemory is the heap that a key takes on a host: one that was
// just used, and one that nobody has used for half a minute. The keys' own
// bytes are not counted.
func BenchmarkHostMemory(b *testing.B) {
	n := size(100_000, 100)
	keys := names(n)
	for _, algorithm := range ours {
		for _, state := range []string{"used", "idle"} {
			b.Run(fmt.Sprintf("keys=%d/state=%s/by=%s", n, state, algorithm), func(b *testing.B) {
				retained(b, n, "heap-B/key", func() any {
					g := host(b, dynamicconfig.Rule{Limit: plenty, Algorithm: algorithm})
					granted(b, g, float64(plenty), keys...)
					if state == "idle" {
						rest(b, g, n)
					}
					return g
				})
			})
		}
	}
	for _, state := range []string{"used", "idle"} { // the same to them
		b.Run(fmt.Sprintf("keys=%d/state=%s/by=rwmutex-map", n, state), func(b *testing.B) {
			retained(b, n, "heap-B/key", func() any {
				m := make(map[string]*rate.Limiter)
				for _, key := range keys {
					m[key] = rate.NewLimiter(plenty, int(plenty))
				}
				return m
			})
		})
	}
	b.Run(fmt.Sprintf("keys=%d/state=used/by=cadence", n), func(b *testing.B) {
		retained(b, n, "heap-B/key", func() any { return newCadence(b, "global", int(plenty), keys...) })
	})
}

// rest lets ten intervals pass in which nobody uses g's n keys.
func rest(b *testing.B, g *limiter.Group, n int) {
	b.Helper()
	a := newAnswer(n, float64(plenty))
	now := stage.Now()
	for range 10 {
		for range 30 {
			now = now.Add(interval / 30)
			for _, batch := range driver.Of(g).Early(now) {
				a.apply(b, g, now, batch)
			}
		}
		for _, batch := range driver.Of(g).Report(now) {
			a.apply(b, g, now, batch)
		}
	}
}

// sentinel guards one resource by one flow rule, in events/s.
func sentinel(b *testing.B, resource string, limit float64) func() bool {
	startSentinel(b)
	if _, err := flow.LoadRulesOfResource(resource, []*flow.Rule{{
		Resource:               resource,
		Threshold:              limit,
		TokenCalculateStrategy: flow.Direct,
		ControlBehavior:        flow.Reject,
	}}); err != nil {
		b.Fatal(err)
	}
	return func() bool {
		entry, blocked := api.Entry(resource, api.WithTrafficType(base.Inbound))
		if blocked != nil {
			return false
		}
		entry.Exit()
		return true
	}
}

var sentinelStarted sync.Once

// startSentinel starts it without its logs, its metrics on disk and its looks
// at the system's load, which are not what is measured.
func startSentinel(b *testing.B) {
	sentinelStarted.Do(func() {
		c := config.NewDefaultConfig()
		c.Sentinel.App.Name = "bench"
		c.Sentinel.Log.Logger = silence{}
		c.Sentinel.Log.Metric.FlushIntervalSec = 0
		c.Sentinel.Stat.System = config.SystemStatConfig{}
		if err := api.InitWithConfig(c); err != nil {
			b.Fatal(err)
		}
	})
}

// silence is a logger that is off.
type silence struct{}

func (silence) Debug(string, ...any)        {}
func (silence) DebugEnabled() bool          { return false }
func (silence) Info(string, ...any)         {}
func (silence) InfoEnabled() bool           { return false }
func (silence) Warn(string, ...any)         {}
func (silence) WarnEnabled() bool           { return false }
func (silence) Error(error, string, ...any) {}
func (silence) ErrorEnabled() bool          { return false }
