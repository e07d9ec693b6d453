// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
)

// A rule that migrates between two of exact, auto and elastic has the one that answers go on with the
// key's pool, whichever of them it was under before.
func TestASecondPoolGivesNoSecondBurst(t *testing.T) {
	exceedsNoBurst(t, "auto elastic auto>elastic:old", "auto elastic elastic>auto:new", "auto elastic elastic>exact:new", "exact elastic exact>elastic:old",
		"exact elastic elastic>exact:new", "auto even elastic elastic>auto:new", "even>auto:new elastic elastic>auto:new", "auto elastic even elastic>auto:new",
		"auto>elastic:old elastic elastic>auto:new", "auto>elastic:old even elastic elastic>auto:new")
}

// A host that comes back to a pool, under the same algorithm or another one, charges it with what it has not been charged with.
// So does one that has been lent tokens out of the pool.
func TestAHostThatComesBackToAPoolChargesItOnce(t *testing.T) {
	exceedsNoBurst(t, "auto even exact", "auto even elastic", "exact even auto", "exact even elastic", "elastic even auto", "elastic even elastic",
		"even elastic even elastic", "auto even exact exact>auto:new")
}

// A rule that begins to migrate, and whose pool goes on under another algorithm, has the host give
// back what the pool has lent it, as a rule does that moves there plainly.
func TestAMoveToAMigrationGivesBackWhatWasLent(t *testing.T) {
	exceedsNoBurst(t, "elastic exact>even:old", "exact elastic exact>auto:old", "exact elastic auto>exact:old", "auto elastic exact>auto:old", "elastic even>exact:new",
		"elastic even>auto:new", "elastic auto>even:old", "even>elastic:new exact", "elastic>even:old exact", "even>elastic:new auto", "elastic>even:old exact>even:old", "exact elastic>even:old exact>even:old",
		"elastic exact>redis:old", "exact auto>even:old", "auto exact>even:old", "elastic exact>even:old exact")
}

// exceedsNoBurst has rules follow each other, and wants one burst to be admitted in all.
func exceedsNoBurst(t *testing.T, paths ...string) {
	const burst = 20
	rule := func(text string) string {
		from, to, ok := strings.Cut(text, ">")
		if !ok {
			return "limits: [{key: k, limit: 0.000001/s, burst: 20, algorithm: " + text + "}]"
		}
		to, mode, _ := strings.Cut(to, ":")
		return "limits: [{key: k, limit: 0.000001/s, burst: 20, migrate: {from: " + from + ", to: " + to + ", mode: " + mode + "}}]"
	}
	for _, path := range paths {
		now, admitted := stage.Now(), 0
		of := &owner{pools: make(map[string]*pool), full: burst}
		config := func(text string) *dynamicconfig.Snapshot {
			s := traceLimits(t, rule(text))
			of.configure(s.Rules()[0])
			return s
		}
		var g *limiter.Group
		for i, text := range strings.Fields(path) {
			if s := config(text); i == 0 {
				g = limiter.NewGroup(s, 1, limiter.WithRemote("exact", asked{of, "exact"}), limiter.WithRemote("auto", asked{of, "auto"}), limiter.WithRemote("redis", &drained{left: burst}), driver.WithBackground(func(f func()) { f() }))
			} else {
				driver.Of(g).Configure(now, s)
			}
			for range []int{5, 2, 1, 1}[i] {
				if v, _ := g.For("k").Stage().Take(t.Context(), stage.Request{Now: now, N: 1, Kind: stage.Final}); v.OK() {
					admitted++
				}
			}
			now = now.Add(time.Second)
			of.answer(t, g, now, admitted)
		}
		for range 2 * burst {
			if v, _ := g.For("k").Stage().Take(t.Context(), stage.Request{Now: now, N: 1, Kind: stage.Final}); v.OK() {
				admitted++
			}
		}
		if admitted != burst {
			t.Errorf("%s: %d of a burst of %d", path, admitted, burst)
		}
	}
}
