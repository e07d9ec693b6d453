// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/limiter/internal/keys"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

func TestMain(m *testing.M) {
	testrun.OnlyComputes()
	testrun.CollectLess()
	waittest.Main(m)
}

const second = stage.Instant(time.Second)

// bubble runs f on virtual time. Its clock begins in the year 2000, and f when
// Instants are no longer negative, as in a real process.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(stage.Now().Sub(0).Abs())
		f(t)
	})
}

// snapshot is the config of rules, with an update interval of one second.
func snapshot(t testing.TB, rules ...dynamicconfig.Rule) *dynamicconfig.Snapshot {
	t.Helper()
	s, err := dynamicconfig.Config{
		Name:       "test",
		Properties: dynamicconfig.Properties{UpdateInterval: time.Second},
		Rules:      rules,
	}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func weighted(limit rate.Limit) dynamicconfig.Rule {
	return dynamicconfig.Rule{Key: "k", Limit: limit, Algorithm: "request-weighted"}
}

// alone is a rule without an owner.
func alone(limit rate.Limit, burst float64) dynamicconfig.Rule {
	return dynamicconfig.Rule{Key: "k", Limit: limit, Burst: burst, Algorithm: Even}
}

func inFlightRule(limit rate.Limit) dynamicconfig.Rule {
	return dynamicconfig.Rule{Key: "k", Limit: limit, InFlight: true, Algorithm: "fair-share", Lease: 10 * time.Second}
}

func allowAt(l *Limiter, now stage.Instant, n int) bool {
	if n == 1 {
		return allow(context.Background(), keyOf(l), now).OK()
	}
	v, _, _ := decide(context.Background(), keyOf(l), now, int64(n), 0, stage.Final)
	return v.OK()
}

func reserveAt(l *Limiter, now stage.Instant, n int, longest time.Duration) *taken {
	t := reserve(context.Background(), keyOf(l), now, int64(n), longest)
	return &t
}

func decideAt(l *Limiter, now stage.Instant, n int, longest time.Duration) Decision {
	v, _, _ := decide(context.Background(), keyOf(l), now, int64(n), longest, stage.Final)
	return newDecision(keyOf(l), now, v)
}

func takeAt(l *Limiter, now stage.Instant, n int, longest time.Duration) *Estimate {
	return newEstimate(reserve(context.Background(), keyOf(l), now, int64(n), longest))
}

func charge(k *keys.Key, now stage.Instant, n int64) stage.Verdict {
	return spend(k, now, n, stage.Charge)
}

// take asks for up to n single tokens at now and returns how many it got.
func take(l *Limiter, now stage.Instant, n int) (got int) {
	for range n {
		if allowAt(l, now, 1) {
			got++
		}
	}
	return got
}

// answer applies the same grant to all rows of a regular report.
func answer(t testing.TB, g *Group, now stage.Instant, weight, used float64, floor usage.Floor, lease time.Duration) {
	t.Helper()
	for _, b := range g.Manual().Report(now) {
		grants := &usage.Grants{Floor: floor}
		for range b.Usage.Len() {
			grants.Weight = append(grants.Weight, weight)
			grants.Burst = append(grants.Burst, weight*100)
			grants.Used = append(grants.Used, used)
			grants.Lease = append(grants.Lease, lease)
		}
		if err := g.Manual().Apply(now, b, nil, grants); err != nil {
			t.Fatal(err)
		}
	}
}

// granted answers batches of one row with so much, and returns what they said.
func granted(t testing.TB, g *Group, now stage.Instant, batches []*batch, weight, tokens float64) (said []usage.Report) {
	t.Helper()
	for _, b := range batches {
		grants := grantOf(weight, tokens+10, time.Minute)
		grants.Tokens = []float64{tokens}
		if err := g.Manual().Apply(now, b, nil, grants); err != nil {
			t.Fatal(err)
		}
		said = append(said, b.Usage)
	}
	return said
}

// grantOf is the grant for one row.
func grantOf(weight, burst float64, lease time.Duration) *usage.Grants {
	return &usage.Grants{Weight: []float64{weight}, Burst: []float64{burst}, Used: []float64{0}, Lease: []time.Duration{lease}}
}

// only returns the one share of key.
func only(t testing.TB, g *Group, now stage.Instant, key string) ShareStatus {
	t.Helper()
	st, ok := g.Manual().Inspect(now, key)
	if !ok || len(st.Shares) != 1 {
		t.Fatalf("key %q: %+v, %v", key, st, ok)
	}
	return st.Shares[0]
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Max(1, math.Abs(b)) }

// sleep waits until d has passed or ctx ends, and then returns its error.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// updater is an Updater that is one function.
type updater func(ctx context.Context, u *usage.Report, done func(usage.Part, *usage.Grants, error))

func (f updater) Update(ctx context.Context, u *usage.Report, _ time.Duration, done func(usage.Part, *usage.Grants, error)) {
	f(ctx, u, done)
}
