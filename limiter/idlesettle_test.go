// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// An event takes so long that its key goes idle meanwhile, or is forgotten, and comes back. What
// the event did not cost goes back, once, to the bucket that the key has then.
func TestAnEstimateOutlivesAnIdleKey(t *testing.T) {
	migrates := dynamicconfig.Migration{From: "even", To: "request-weighted", Mode: dynamicconfig.ModeOldShadowNew}
	for name, change := range map[string]func(r *dynamicconfig.Rule){
		"idle":      func(r *dynamicconfig.Rule) { r.IdleAfter, r.Algorithm = time.Hour, "even" },
		"shared":    func(r *dynamicconfig.Rule) { r.IdleAfter, r.Algorithm, r.Shared = time.Hour, "even", true },
		"forgotten": func(r *dynamicconfig.Rule) { r.IdleAfter, r.Algorithm = 10*time.Second, "even" },
		"migrates":  func(r *dynamicconfig.Rule) { r.IdleAfter, r.Migration = 10*time.Second, &migrates },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rule := dynamicconfig.Rule{Key: "k*", Limit: 1, Burst: 5}
				change(&rule)
				c := dynamicconfig.Config{Properties: dynamicconfig.Properties{UpdateInterval: time.Second}, Rules: []dynamicconfig.Rule{rule}}
				config, err := c.Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				g := limiter.NewGroup(config, 1, limiter.WithMigration(shadow.Migrator()))
				k := g.For("k1")
				e := k.Take(t.Context(), 5, 0)
				for range 30 {
					time.Sleep(time.Second)
					g.Manual().Report(stage.Now())
				}
				if _, live := g.Inspect("k1"); live && name != "shared" {
					t.Fatal("the key is not idle")
				}
				if !k.AllowN(time.Now(), 5) {
					t.Fatal("the bucket is not full")
				}
				e.Settle(1)
				if got := k.Tokens(); got < 4-1e-6 || got > 4+1e-6 {
					t.Errorf("%v tokens, want 4", got)
				}
				if e.Cancel(); k.AllowN(time.Now(), 5) {
					t.Error("more came back than was taken")
				}
			})
		})
	}
}
