// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/redis/redistest"
	"github.com/headgate/headgate/limiter/stage"
)

// A host that settles each event leaves one ID per key in Redis, and not one per
// event.
func TestIDsDoNotPileUp(t *testing.T) {
	s := redistest.Start(t)
	b := open(t, Config{Timeout: time.Second}, []string{s.Address})
	g := limiter.NewGroup(snapshot(t, dynamicconfig.Rule{Key: "k", Limit: 1, Burst: 1e6, Algorithm: "redis"}), 1, limiter.WithRemote("redis", b),
		driver.WithBackground(func(f func()) { f() }))
	for range 200 {
		g.For("k").Take(t.Context(), 2, 0).Settle(1)
	}
	names, err := clientOf(b).Keys(t.Context(), "*").Result()
	if err != nil || len(names) > 2 { // the bucket, and the last ID
		t.Errorf("after 200 events Redis has %d values: %v", len(names), err)
	}
}

// An ID whose operation was sent twice stays: it may be under way still.
func TestAnIDThatWasSentTwiceStays(t *testing.T) {
	s := redistest.Start(t)
	b := open(t, Config{Timeout: time.Second}, []string{s.Address})
	lost := true
	clientOf(b).AddHook(hook(func(ctx context.Context, cmd goredis.Cmder, next goredis.ProcessHook) error {
		err := next(ctx, cmd)
		if fmt.Sprint(cmd.Args()[2]) != "1" && lost {
			lost = false
			return errors.New("the answer is lost")
		}
		return err
	}))
	g := limiter.NewGroup(snapshot(t, dynamicconfig.Rule{Key: "k", Limit: 1, Burst: 1e6, Algorithm: "redis"}), 1, limiter.WithRemote("redis", b),
		driver.WithBackground(func(f func()) { f() }))
	for range 20 {
		g.For("k").Take(t.Context(), 2, 0).Settle(1)
	}
	names, err := clientOf(b).Keys(t.Context(), "*").Result()
	if err != nil || len(names) != 3 {
		t.Errorf("Redis has %v, want the bucket, the ID that was sent twice and the last one: %v", names, err)
	}
}

// Whatever the rule says, there is an answer, and no more than the burst.
func TestExtremeRulesAreAnswered(t *testing.T) {
	s := redistest.Start(t)
	b := open(t, Config{Timeout: time.Second}, []string{s.Address})
	xs := []float64{0, 1e-9, 1, 1e9, 1 << 53, 1e15, 3e38, math.Inf(1)}
	i := 0
	for _, limit := range xs {
		for _, burst := range xs {
			for _, debt := range []time.Duration{0, 1, time.Hour, math.MaxInt64} {
				r := ruled(rate.Limit(limit), burst)
				r.MaxDebt = debt
				i++
				for _, op := range []stage.Operation{
					{Kind: stage.ChargeTokens, N: 1 << 52, ID: 1}, {N: 1}, {N: 1, Longest: math.MaxInt64}, {Kind: stage.ReturnTokens, N: 1 << 52, ID: 2}, {N: burst}, {N: 0}, {N: 1 << 53},
				} {
					op.Key, op.Rule = "k"+string(rune(0x100+i)), r
					o, err := b.Do(t.Context(), op)
					if err != nil || !o.Valid() || o.Left > burst {
						t.Errorf("limit %v burst %v debt %v %+v: %+v %v", limit, burst, debt, op, o, err)
					}
				}
			}
		}
	}
}
