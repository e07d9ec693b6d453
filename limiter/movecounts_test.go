// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// A bucket elsewhere that begins to answer is charged with what was used before. That was
// counted already.
func TestMetricsCountWhatABucketElsewhereMissedOnce(t *testing.T) {
	for _, to := range []string{"exact", "auto"} {
		rule := dynamicconfig.Rule{Key: "k", Limit: 10, Burst: 10, Migration: &dynamicconfig.Migration{From: "even", To: to, Mode: dynamicconfig.ModeOld}}
		config := func(mode dynamicconfig.Mode) *dynamicconfig.Snapshot {
			r, m := rule, *rule.Migration
			m.Mode, r.Migration = mode, &m
			s, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{r}}.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		now, scope := stage.Now(), tally.NewTestScope("", nil)
		remote := &drained{left: 50}
		g := limiter.NewGroup(config(dynamicconfig.ModeOld), 1, limiter.WithRemote(to, remote), limiter.WithScope(scope),
			limiter.WithMigration(shadow.Migrator()), driver.WithBackground(func(f func()) { f() }))
		for range 5 {
			g.For("k").Stage().Take(t.Context(), stage.Request{Now: now, N: 1, Kind: stage.Final})
		}
		driver.Of(g).Configure(now, config(dynamicconfig.ModeNew))
		if remote.left > 45 {
			t.Fatalf("%s: %v tokens are left of 50, and 5 were used before", to, remote.left)
		}
		driver.Of(g).Report(now.Add(time.Second))
		if c := scope.Snapshot().Counters()["limiter.allowed+rule=k"]; c == nil || c.Value() != 5 {
			t.Errorf("%s: 5 events are allowed, and the metric has %v", to, c.Value())
		}
	}
}
