// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
)

// No owner has answered what a key used before it was forgotten. The key reports that once it is
// used again, and the fallback's tokens are not taken for it a second time.
func TestAForgottenKeysUsageIsReportedAndNotTakenAgain(t *testing.T) {
	const burst = 10
	config, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{
		{Key: "k", Limit: 0.01, Burst: burst, Algorithm: "request-weighted", IdleAfter: time.Minute},
	}}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	now, reported := stage.Now(), int64(0)
	g := limiter.NewGroup(config, 1)
	report := func(after time.Duration, answer func(b *driver.Batch)) {
		now = now.Add(after)
		for _, b := range driver.Of(g).Report(now) {
			for _, n := range b.Usage.Allowed {
				reported += n
			}
			if answer(b); err != nil {
				t.Fatal(err)
			}
			driver.Of(g).Done(b)
		}
	}
	fails := func(b *driver.Batch) { driver.Of(g).Fail(now, b, nil) }
	take := func(n int64) {
		if v, _ := g.For("k").Stage().Take(t.Context(), stage.Request{Now: now, N: n, Kind: stage.Final}); !v.OK() {
			t.Fatalf("%d tokens are refused", n)
		}
	}
	take(burst)
	for range 3 {
		report(20*time.Minute, fails)
	}
	if _, live := g.Inspect("k"); live {
		t.Fatal("the key is not forgotten")
	}
	take(1)
	reported = 0
	report(time.Millisecond, func(b *driver.Batch) { err = driver.Of(g).Apply(now, b, nil, grantOf(1, 0.5, 5, time.Second)) })
	report(2*time.Second, fails)
	if left := g.For("k").Stage().Level(now).Tokens; left < burst-1 {
		t.Errorf("the fallback has %v tokens of %d, and 1 was taken within the hour", left, burst)
	}
	report(time.Minute, fails)
	if reported < burst+1 {
		t.Errorf("%d tokens are reported, want %d", reported, burst+1)
	}
}
