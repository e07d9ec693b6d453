// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// A bucket elsewhere that was measured, and is measured again after its migration had ended, is
// charged with what was used meanwhile, and not with what it knows.
func TestAMigrationThatBeginsAgainChargesNothingTwice(t *testing.T) {
	for _, from := range []string{"even", "elastic"} {
		for _, mode := range []string{"old-shadow-new", "new-shadow-old"} {
			for _, between := range []string{"even", "elastic"} {
				for _, used := range []int{0, 1} {
					now, bucket := stage.Now(), &drained{left: 20}
					plain := "limits: [{key: k, limit: 0.000001/s, burst: 20, algorithm: " + between + "}]"
					migrates := "limits: [{key: k, limit: 0.000001/s, burst: 20, migrate: {from: " + from + ", to: redis, mode: " + mode + "}}]"
					g := limiter.NewGroup(traceLimits(t, migrates), 1, limiter.WithMigration(shadow.Migrator()),
						limiter.WithRemote("redis", bucket), driver.WithBackground(func(f func()) { f() }))
					take := func() {
						g.For("k").Stage().Take(t.Context(), stage.Request{Now: now, N: 1, Kind: stage.Final})
					}
					take()
					total := 1
					for range 2 {
						now = now.Add(time.Second)
						driver.Of(g).Configure(now, traceLimits(t, plain))
						for range used {
							take()
						}
						total += used
						now = now.Add(time.Second)
						driver.Of(g).Configure(now, traceLimits(t, migrates))
					}
					if lacks := 20 - int(bucket.left); lacks != total {
						t.Errorf("%s to redis, %s, with %s between: the bucket lacks %d, after %d were used", from, mode, between, lacks, total)
					}
				}
			}
		}
	}
}

// A bucket elsewhere that refused an event as the shadow lacks it when it begins to answer, also
// if callers have waited for their tokens for longer than the bucket takes to fill.
func TestWhatABucketElsewhereRefusedLongAgoIsLackingStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := func(mode string) *dynamicconfig.Snapshot {
			return traceLimits(t, "limits: [{key: k, limit: 2/s, burst: 20, migrate: {from: redis, to: even, mode: "+mode+"}}]")
		}
		bucket := &remoteRef{buckets: make(map[string]*remoteBucket)}
		g := limiter.NewGroup(rules("old-shadow-new"), 1, limiter.WithMigration(shadow.Migrator()),
			limiter.WithRemote("redis", bucket), driver.WithBackground(bucket.background))
		g.Configure(rules("new"))
		l := g.For("k")
		e := l.Take(t.Context(), 1, 0)
		g.Configure(rules("new-shadow-old"))
		e.Settle(0) // the bucket elsewhere was charged with it, so it has one token less from now on
		for range 15 {
			l.Allow()
		}
		l.ReserveN(time.Now(), 7)
		l.ReserveN(time.Now(), 19)
		time.Sleep(20 * time.Second) // 40 tokens, of which 21 are owed
		g.Configure(rules("old-shadow-new"))
		if l.AllowN(time.Now(), 20) {
			t.Error("20 pass, and one bucket would have 19 tokens")
		}
		if !l.AllowN(time.Now(), 19) {
			t.Error("19 do not pass, and one bucket would have as many")
		}
	})
}
