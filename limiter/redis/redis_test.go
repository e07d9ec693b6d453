// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/redis/redistest"
	"github.com/headgate/headgate/limiter/stage"
)

func TestMain(m *testing.M) {
	goredis.SetLogger(silent{}) // the library logs each connection that fails
	waittest.Main(m)
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// patient is for tests in which nothing fails, on a machine that may be busy.
var patient = Config{Timeout: 5 * time.Second}

// open returns buckets in the servers at addresses, through a client of its own.
func open(t testing.TB, config Config, addresses []string, options ...Option) *Buckets {
	t.Helper()
	client := Client(Options{Addresses: addresses, Timeout: config.Timeout})
	t.Cleanup(func() { _ = client.Close() })
	b, err := New(client, config, options...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func ruled(limit rate.Limit, burst float64) *dynamicconfig.Rule {
	return &dynamicconfig.Rule{Limit: limit, Burst: burst}
}

func snapshot(t testing.TB, rule dynamicconfig.Rule) *dynamicconfig.Snapshot {
	t.Helper()
	s, err := dynamicconfig.Config{Name: "test", Properties: dynamicconfig.Properties{UpdateInterval: time.Second}, Rules: []dynamicconfig.Rule{rule}}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func take(t testing.TB, b *Buckets, key string, rule *dynamicconfig.Rule, n float64) stage.Outcome {
	t.Helper()
	taken, err := b.Do(t.Context(), stage.Operation{Key: key, Rule: rule, N: n})
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

// until waits for a condition, not for a time: after a call that a busy machine delays, a shard is paused.
var until = waittest.Until

func TestHostsShareOneBucket(t *testing.T) {
	server := redistest.Start(t)
	a, b := open(t, patient, []string{server.Address}), open(t, patient, []string{server.Address})
	slow := ruled(0.001, 10)
	for i, tt := range []struct {
		of   *Buckets
		kind stage.OperationKind
		n    float64
		ok   bool
	}{{a, 0, 6, true}, {b, 0, 6, false}, {b, 0, 4, true}, {a, 0, 1, false}, {a, stage.ReturnTokens, 2, true}, {b, 0, 2, true}, {b, 0, 1, false}} {
		got, err := tt.of.Do(t.Context(), stage.Operation{Kind: tt.kind, Key: "k", Rule: slow, N: tt.n})
		if err != nil || got.OK != tt.ok {
			t.Errorf("operation %d: %+v, %v", i, got, err)
		}
	}
	if got := take(t, a, "other", slow, 10); !got.OK {
		t.Errorf("another key: %+v", got)
	}
	if keys := server.Client().Keys(t.Context(), "*").Val(); len(keys) != 2 || !strings.HasPrefix(keys[0], "headgate:{") {
		t.Errorf("buckets are called %q", keys)
	}
}

// However unevenly hosts ask, what was taken and what is left add up to the
// burst and what the limit has filled in, by Redis' clock.
func TestFiveHostsTakeTheLimitAndNoMore(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	const limit, burst = 2000, 120_000 // a minute without a turn on a busy machine loses nothing
	snapshot := snapshot(t, dynamicconfig.Rule{Key: "k", Limit: limit, Burst: burst, Algorithm: "redis"})
	length := 3 * time.Second
	if testing.Short() {
		length = time.Second
	}
	clock := func() time.Time {
		now, err := client.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	var callers sync.WaitGroup
	var admitted atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	rule := ruled(limit, burst)
	looker := open(t, patient, []string{server.Address})
	before := clock()
	take(t, looker, "k", rule, burst) // else it stays full until callers come
	admitted.Add(burst)
	after := clock()
	for host := range 5 {
		group := limiter.NewGroup(snapshot, 5, limiter.WithRemote("redis", open(t, patient, []string{server.Address})))
		for range 1 << host { // 1, 2, 4, 8, 16 callers
			callers.Go(func() {
				for n := 1; ctx.Err() == nil; n = n%3 + 1 {
					if group.For("k").AllowN(time.Now(), n) {
						admitted.Add(int64(n))
					}
				}
			})
		}
	}
	callers.Wait()
	from := clock()
	left := take(t, looker, "k", rule, 0).Left
	to := clock()
	got := float64(admitted.Load()) + left
	least, most := limit*from.Sub(after).Seconds()+burst, limit*to.Sub(before).Seconds()+burst
	t.Logf("admitted %d, %.1f left; limit·t + burst is %.0f to %.0f", admitted.Load(), left, least, most)
	const few = 8
	if got < least-few || got > most+few {
		t.Errorf("admitted and left %.1f, want %.1f to %.1f", got, least, most)
	}
	if admitted.Load() == burst {
		t.Errorf("callers were admitted nothing, and %v tokens are left", left)
	}
}

// quick is how long a decision may take without Redis, on a machine that does nothing
// else for seconds.
const quick = 10 * time.Second

// leftAt is how many tokens server has in the bucket of key.
func leftAt(t testing.TB, server *redistest.Server, key string, rule *dynamicconfig.Rule) float64 {
	t.Helper()
	answer := evaluate(t, bucket, server.Client(), DefaultPrefix+nameOf(key), arguments(stage.Operation{Rule: rule}, DefaultKeep)...)
	outcome, err := read(answer)
	if err != nil {
		t.Fatal(err)
	}
	return outcome.Left
}

// fails asks b until it is paused, and returns how many calls that took. None
// may take longer than the timeout and what a busy machine adds.
func fails(t *testing.T, b *Buckets, rule *dynamicconfig.Rule) (calls int) {
	t.Helper()
	for calls = range 100 {
		began := time.Now()
		_, err := b.Do(t.Context(), stage.Operation{Key: "k", Rule: rule, N: 1})
		if took := time.Since(began); took > b.config.Timeout+quick {
			t.Errorf("call %d took %v", calls, took)
		}
		if errors.Is(err, ErrPaused) {
			break
		}
		if err == nil {
			t.Fatalf("call %d: it answers", calls)
		}
	}
	if calls > b.config.Failures {
		t.Errorf("asked %d times until it paused, want %d", calls, b.config.Failures)
	}
	return calls
}

func TestARedisThatHangsIsNotAskedForLong(t *testing.T) {
	server := redistest.Start(t)
	var log bytes.Buffer
	b := open(t, Config{Timeout: 50 * time.Millisecond, Pause: 300 * time.Millisecond}, []string{server.Address},
		WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	rule := ruled(0.001, 1000)
	var left float64
	until(t, "the first answer", func() bool {
		taken, err := b.Do(t.Context(), stage.Operation{Key: "k", Rule: rule, N: 1})
		left = taken.Left
		return err == nil
	})
	log.Reset() // a busy machine may have been late before
	server.Stop()
	asked := fails(t, b, rule)
	began, paused := time.Now(), 0
	for range 1000 {
		_, err := b.Do(t.Context(), stage.Operation{Key: "k", Rule: rule, N: 1})
		if err == nil {
			t.Fatal("it answers")
		}
		if errors.Is(err, ErrPaused) {
			paused++
		}
	}
	if probes := 1 + int(time.Since(began)/b.config.Pause); paused < 1000-probes {
		t.Errorf("%d of 1000 decisions did not ask the server while it was paused, in %v", paused, time.Since(began))
	}
	asked += 1000 - paused
	server.Continue()
	until(t, "an answer after it goes on", func() bool {
		_, err := b.Do(t.Context(), stage.Operation{Key: "k", Rule: rule, N: 0})
		return err == nil
	})
	until(t, "the pause's end", func() bool {
		_, err := b.Do(t.Context(), stage.Operation{Key: "k", Rule: rule, N: 0})
		return err == nil && !b.shards[0].paused.Load()
	})
	// It may have carried out what was sent while it hung, and no more.
	if lost := left - leftAt(t, server, "k", rule); lost < 0 || lost > float64(asked)+0.5 {
		t.Errorf("asked %d times for a token while it hung, and %v are gone", asked, lost)
	}
	if text := log.String(); strings.Count(text, "does not answer") != 1 || strings.Count(text, "answers again") != 1 {
		t.Errorf("log: %s", text)
	}
}

func TestARedisThatDiesIsFoundWhenItIsBack(t *testing.T) {
	server := redistest.Start(t)
	b := open(t, Config{Timeout: patient.Timeout, Pause: 100 * time.Millisecond}, []string{server.Address}) // no call waits for a port that is closed
	rule := ruled(0.001, 5)
	take(t, b, "k", rule, 5)
	server.Kill()
	fails(t, b, rule)
	server.Restart()
	until(t, "an answer after the restart", func() bool {
		taken, err := b.Do(t.Context(), stage.Operation{Key: "k", Rule: rule, N: 1})
		return err == nil && taken.OK // it lost its data, and begins with a full bucket
	})
	if got := take(t, b, "k", rule, 0); math.Abs(got.Left-4) > 0.1 {
		t.Errorf("%+v; one burst, and no more", got)
	}
}

func TestARedisThatIsSlowIsOneThatFails(t *testing.T) {
	server := redistest.Start(t)
	proxy := startProxy(t, server.Address)
	b := open(t, Config{Timeout: 100 * time.Millisecond, Pause: 100 * time.Millisecond}, []string{proxy.address})
	rule := ruled(1, 5)
	until(t, "the first answer", func() bool {
		_, err := b.Do(t.Context(), stage.Operation{Key: "k", Rule: rule, N: 1})
		return err == nil
	})
	proxy.setDelay(time.Minute)
	fails(t, b, rule)
	proxy.setDelay(time.Millisecond)
	until(t, "an answer in time", func() bool {
		_, err := b.Do(t.Context(), stage.Operation{Key: "k", Rule: rule, N: 1})
		return err == nil
	})
}

func TestAReplicaFails(t *testing.T) {
	master, replica := redistest.Start(t), redistest.Start(t)
	b := open(t, Config{Timeout: 5 * time.Second, Pause: time.Minute}, []string{replica.Address})
	rule := ruled(1, 100)
	take(t, b, "k", rule, 1)
	host, port, _ := strings.Cut(master.Address, ":")
	if err := replica.Client().ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	fails(t, b, rule)
}

func TestNothingFailsOpen(t *testing.T) {
	server := redistest.Start(t)
	for _, tt := range []struct {
		fallback dynamicconfig.Fallback
		want     int
	}{{dynamicconfig.FallbackEven, 10}, {dynamicconfig.FallbackClosed, 0}, {dynamicconfig.FallbackOpen, 200}} {
		b := open(t, Config{Timeout: 20 * time.Millisecond, Pause: time.Minute}, []string{server.Address})
		g := limiter.NewGroup(snapshot(t, dynamicconfig.Rule{Key: "k", Limit: 0.0001, Burst: 20, Algorithm: "redis", Fallback: tt.fallback}), 2, limiter.WithRemote("redis", b))
		server.Stop()
		got := 0
		for range 200 {
			if d := g.For("k").Decide(t.Context(), 1, 0); d.OK {
				got++
			} else if d.By != tt.fallback.String() {
				t.Errorf("%v: decided by %q", tt.fallback, d.By)
			}
		}
		if got != tt.want {
			t.Errorf("%v: %d let through without Redis, want %d", tt.fallback, got, tt.want)
		}
		server.Continue()
	}
}

func TestACallerThatLeavesIsNoFailure(t *testing.T) {
	server := redistest.Start(t)
	b := open(t, Config{Timeout: 5 * time.Second}, []string{server.Address})
	rule := ruled(1, 5)
	take(t, b, "k", rule, 1)
	server.Stop()
	for range 50 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := b.Do(ctx, stage.Operation{Key: "k", Rule: rule, N: 1}); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrTooLate) {
			t.Errorf("%v", err)
		}
		cancel()
	}
	server.Continue()
	take(t, b, "k", rule, 0)
}

// watched counts the calls under way.
type watched struct{ now, most atomic.Int64 }

func (w *watched) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (w *watched) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func (w *watched) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		if cmd.Name() != "evalsha" { // what a new connection begins with
			return next(ctx, cmd)
		}
		now := w.now.Add(1)
		defer w.now.Add(-1)
		for most := w.most.Load(); now > most && !w.most.CompareAndSwap(most, now); {
			most = w.most.Load()
		}
		return next(ctx, cmd)
	}
}

func TestCallsAreBounded(t *testing.T) {
	server := redistest.Start(t)
	b := open(t, Config{Timeout: 100 * time.Millisecond, MaxCalls: 3, Failures: 1000}, []string{server.Address})
	const callersAtOnce = 1500 // one after the other, three at a time, they would take 50 s
	var w watched
	clientOf(b).AddHook(&w)
	server.Stop()
	var failed atomic.Int64
	var callers sync.WaitGroup
	began := time.Now()
	for range callersAtOnce {
		callers.Go(func() {
			if _, err := b.Do(t.Context(), stage.Operation{Key: "k", Rule: ruled(1, 5), N: 1}); err != nil {
				failed.Add(1)
			}
		})
	}
	callers.Wait()
	if most := w.most.Load(); most != 3 || failed.Load() != callersAtOnce {
		t.Errorf("%d calls at once, %d of %d failed", most, failed.Load(), callersAtOnce)
	}
	if took := time.Since(began); took > 2*b.config.Timeout+2*quick {
		t.Errorf("they waited for %v", took)
	}
	server.Continue()
}

func TestARedisCluster(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	b := open(t, patient, []string{servers[0].Address, servers[1].Address})
	rule := ruled(0.001, 10)
	for i := range 60 {
		key := fmt.Sprintf("login:user-%d", i)
		if a, b := take(t, b, key, rule, 10), take(t, b, key, rule, 1); !a.OK || b.OK {
			t.Errorf("%s: %+v, then %+v", key, a, b)
		}
	}
	seen := 0
	for _, s := range servers {
		n, err := s.Client().DBSize(t.Context()).Result()
		if err != nil || n == 0 {
			t.Errorf("%d buckets at %s: %v", n, s.Address, err)
		}
		seen += int(n)
	}
	if seen != 60 {
		t.Errorf("%d buckets in all", seen)
	}
	for _, key := range []string{"login:user-1", "a}b", "}a", "}", "{}", "{a}"} {
		slotOf, err := servers[0].Client().ClusterKeySlot(t.Context(), DefaultPrefix+nameOf(key)).Result()
		if err != nil || int(slotOf) != slot(key) {
			t.Errorf("%q: slot %d, want %d: %v", key, slot(key), slotOf, err)
		}
		if _, err := b.Do(t.Context(), stage.Operation{Kind: stage.ChargeTokens, ID: 1, Key: key, Rule: rule, N: 1}); err != nil {
			t.Errorf("charge of %q: %v", key, err)
		}
	}
}

func TestANodeOfAClusterThatDiesCostsItsOwnKeys(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	config := Config{Timeout: 50 * time.Millisecond, Pause: time.Minute, Failures: 2}
	client := Client(Options{Addresses: []string{servers[0].Address, servers[1].Address, servers[2].Address}, Timeout: patient.Timeout})
	t.Cleanup(func() { _ = client.Close() })
	b, err := New(client, config)
	if err != nil {
		t.Fatal(err)
	}
	first, err := New(client, patient) // b would pause a shard for a minute where the client's first calls take long
	if err != nil {
		t.Fatal(err)
	}
	rule := ruled(1000, 1000)
	for i := range 30 {
		take(t, first, fmt.Sprint("first", i), rule, 1) // at each node
	}
	servers[2].Stop() // the last third of the slots
	defer servers[2].Continue()
	failed, others := 0, 0
	for i := range 3000 {
		key := fmt.Sprint("key", i)
		_, err := b.Do(t.Context(), stage.Operation{Key: key, Rule: rule, N: 1})
		switch theirs := slot(key) >= slots*2/3-slots/clusterShards; {
		case err != nil && !theirs:
			others++
		case err != nil:
			failed++
		}
	}
	if others > 200 || failed < 800 { // a busy machine may pause a shard or two of the others
		t.Errorf("%d takes failed of the node that hangs, and %d of others", failed, others)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{{Prefix: "a{b"}, {Timeout: -1}, {MaxCalls: -1}, {Failures: -1}, {Pause: -1}, {Keep: -1}} {
		if _, err := New(nil, c); err == nil {
			t.Errorf("%+v passes", c)
		}
	}
	if c := (Config{}).withDefaults(); c != (Config{DefaultPrefix, DefaultTimeout, DefaultMaxCalls, DefaultFailures, DefaultPause, DefaultKeep}) {
		t.Errorf("%+v", c)
	}
}

func BenchmarkTake(b *testing.B) {
	server := redistest.Start(b)
	buckets := open(b, patient, []string{server.Address})
	rule := ruled(1e9, 1e9)
	b.ReportAllocs()
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			take(b, buckets, "k", rule, 1)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				take(b, buckets, "k", rule, 1)
			}
		})
	})
	b.Run("ping", func(b *testing.B) { // a round trip without a script
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := clientOf(buckets).Ping(b.Context()).Err(); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}
