// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/sony/gobreaker/v2"

	"github.com/headgate/headgate/limiter/redis/redistest"
	"github.com/headgate/headgate/limiter/stage"
)

// hook is called instead of sending a script. Redis is asked if it calls next.
type hook func(ctx context.Context, cmd goredis.Cmder, next goredis.ProcessHook) error

// clientOf is the client that b was made with.
func clientOf(b *Buckets) goredis.UniversalClient { return b.client.(goredis.UniversalClient) }

func (h hook) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (h hook) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func (h hook) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		if cmd.Name() != "evalsha" { // a new connection's handshake
			return next(ctx, cmd)
		}
		return h(ctx, cmd, next)
	}
}

// hooked returns buckets whose scripts h runs, without a server.
func hooked(t *testing.T, config Config, h hook) *Buckets {
	t.Helper()
	b := open(t, config, []string{"127.0.0.1:1"})
	clientOf(b).AddHook(h)
	return b
}

// answer lets cmd have an answer of the script.
func answer(cmd goredis.Cmder) error {
	cmd.(interface{ SetVal(any) }).SetVal([]any{int64(1), int64(0), "1"})
	return nil
}

// do takes one token of key and returns the error.
func do(ctx context.Context, b *Buckets, key string) error {
	_, err := b.Do(ctx, stage.Operation{Key: key, Rule: ruled(0.001, 1000), N: 1})
	return err
}

// Most of the callers wait for so long that they are refused, because only
// four calls, or connections, are there at a time.
func TestABurstDoesNotPauseAHealthyRedis(t *testing.T) {
	for name, tt := range map[string]struct{ calls, connections int }{
		"few calls":       {calls: 4, connections: 128},
		"few connections": {calls: 1000, connections: 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := goredis.NewClient(&goredis.Options{ // it never connects
					Addr: "127.0.0.1:1", PoolSize: tt.connections,
					MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
				})
				defer client.Close()
				client.AddHook(hook(func(_ context.Context, cmd goredis.Cmder, _ goredis.ProcessHook) error {
					time.Sleep(5 * time.Millisecond)
					return answer(cmd)
				}))
				b, err := New(client, Config{Timeout: 500 * time.Millisecond, MaxCalls: tt.calls})
				if err != nil {
					t.Fatal(err)
				}
				var callers sync.WaitGroup
				var busy atomic.Int64
				for range 1000 {
					callers.Go(func() {
						switch err := do(t.Context(), b, "k"); {
						case errors.Is(err, stage.ErrBusy):
							busy.Add(1)
						case err != nil:
							t.Errorf("a healthy Redis: %v", err)
						}
					})
				}
				callers.Wait()
				if n := busy.Load(); n < 500 || n > 700 || b.shards[0].paused.Load() {
					t.Errorf("%d callers found it busy; paused: %v", n, b.shards[0].paused.Load())
				}
			})
		})
	}
}

// Other users of the client may have taken all of its connections.
func TestAClientWithoutAFreeConnectionIsBusy(t *testing.T) {
	for _, none := range []error{goredis.ErrPoolTimeout, goredis.ErrPoolExhausted} {
		b := hooked(t, Config{Timeout: time.Minute, Failures: 1}, func(context.Context, goredis.Cmder, goredis.ProcessHook) error { return none })
		for range 10 {
			if err := do(t.Context(), b, "k"); !errors.Is(err, stage.ErrBusy) || errors.Is(err, ErrTooLate) {
				t.Errorf("%v: %v", none, err)
			}
		}
		if n := b.shards[0].breaker.Counts(); b.shards[0].paused.Load() || n.TotalFailures != 0 {
			t.Errorf("%v: Redis was not asked, and the breaker counts %+v", none, n)
		}
	}
}

func TestTheTimeoutBeginsWithTheCall(t *testing.T) {
	var first sync.WaitGroup
	var ended time.Time // of the first call
	begun := make(chan struct{})
	b := hooked(t, Config{Timeout: time.Minute, MaxCalls: 1}, func(ctx context.Context, cmd goredis.Cmder, _ goredis.ProcessHook) error {
		deadline, _ := ctx.Deadline()
		if ended.IsZero() {
			close(begun)
			time.Sleep(10 * time.Millisecond) // so that the second caller waits
			ended = time.Now()
		} else if deadline.Before(ended.Add(time.Minute)) {
			t.Errorf("the second call ends %v after the first", deadline.Sub(ended))
		}
		return answer(cmd)
	})
	first.Go(func() { _ = do(t.Context(), b, "k") })
	<-begun
	if err := do(t.Context(), b, "k"); err != nil {
		t.Error(err)
	}
	first.Wait()
}

// When this host's processors are too busy for a moment, all calls under way
// time out at once. That is one failure.
func TestCallsThatFailTogetherCountOnce(t *testing.T) {
	var together sync.WaitGroup
	b := hooked(t, Config{Timeout: time.Minute, Failures: 2, Pause: time.Minute}, func(context.Context, goredis.Cmder, goredis.ProcessHook) error {
		together.Done()
		together.Wait()
		return net.ErrClosed
	})
	for i, paused := range []bool{false, true} {
		together.Add(firstCalls)
		var callers sync.WaitGroup
		for range firstCalls {
			callers.Go(func() {
				if err := do(t.Context(), b, "k"); !errors.Is(err, net.ErrClosed) {
					t.Errorf("round %d: %v", i, err)
				}
			})
		}
		callers.Wait()
		if got := b.shards[0].paused.Load(); got != paused {
			t.Errorf("after round %d: paused is %v", i, got)
		}
	}
}

// Else a first burst, or one after an outage, would open all connections at
// once, and none in time.
func TestMoreCallsBeginAsRedisAnswers(t *testing.T) {
	for _, tt := range []struct{ most, first int }{{128, firstCalls}, {3, 3}} {
		c := newCalls(tt.most)
		want := tt.first
		end := func(err error, change int) {
			t.Helper()
			if err := c.acquire(t.Context(), time.Minute); err != nil {
				t.Fatal(err)
			}
			c.release(err)
			if want = max(min(want+change, tt.most), tt.first); len(c.free) != want {
				t.Fatalf("%d calls may begin, want %d", len(c.free), want)
			}
		}
		for range 200 {
			end(nil, 1)
		}
		end(stage.ErrNonsense, 1)
		end(ErrTooLate, 0)
		end(context.Canceled, 0)
		for range 200 {
			end(failure{net.ErrClosed, false}, -1)
		}
	}
}

func TestWhatIsNoBucketCostsItsOwnKey(t *testing.T) {
	server := redistest.Start(t)
	c := server.Client()
	c.LPush(t.Context(), "headgate:{list}", "x")
	c.Set(t.Context(), "headgate:{release}", "\x02"+strings.Repeat("x", 48), 0)
	b := open(t, Config{Timeout: 5 * time.Second, Pause: time.Minute}, []string{server.Address})
	clientOf(b).AddHook(hook(func(ctx context.Context, cmd goredis.Cmder, next goredis.ProcessHook) error {
		if cmd.Args()[3] == "headgate:{answer}" {
			cmd.(interface{ SetVal(any) }).SetVal("OK")
			return nil
		}
		return next(ctx, cmd)
	}))
	for _, key := range []string{"list", "release", "answer"} {
		for range 20 {
			err := do(t.Context(), b, key)
			if !errors.Is(err, stage.ErrNonsense) || !strings.Contains(err.Error(), "headgate:{"+key+"}") {
				t.Fatalf("%s: %v", key, err)
			}
		}
		if err := do(t.Context(), b, "good"); err != nil {
			t.Errorf("another key: %v", err)
		}
	}
	if n := b.shards[0].breaker.Counts(); n.TotalFailures != 0 || n.TotalSuccesses != 63 {
		t.Errorf("the breaker counts %+v", n)
	}
}

func TestACallerThatLeftDoesNotEndAPause(t *testing.T) {
	b := hooked(t, Config{Timeout: time.Minute, Pause: time.Millisecond}, func(ctx context.Context, _ goredis.Cmder, _ goredis.ProcessHook) error {
		if _, ok := ctx.Value(leaves{}).(bool); ok {
			<-ctx.Done()
			return ctx.Err()
		}
		return net.ErrClosed
	})
	for !b.shards[0].paused.Load() {
		_ = do(t.Context(), b, "k")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	until(t, "the pause's end", func() bool { return b.shards[0].breaker.State() == gobreaker.StateHalfOpen })
	for range 20 {
		if err := do(gone, b, "k"); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that had gone: %v", err)
		}
		leaving, cancel := context.WithTimeout(context.WithValue(t.Context(), leaves{}, true), time.Millisecond)
		if err := do(leaving, b, "k"); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrTooLate) {
			t.Errorf("a caller that goes: %v", err)
		}
		cancel()
	}
	if s := b.shards[0].breaker.State(); s != gobreaker.StateHalfOpen {
		t.Errorf("Redis fails, and the breaker is %v", s)
	}
}

// leaves marks the context of a caller that leaves during its call.
type leaves struct{}

func TestACallerThatLeftDoesNotInterruptARowOfFailures(t *testing.T) {
	b := hooked(t, Config{Pause: time.Minute}, func(context.Context, goredis.Cmder, goredis.ProcessHook) error { return net.ErrClosed })
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range DefaultFailures {
		_ = do(gone, b, "k")
		if err := do(t.Context(), b, "k"); errors.Is(err, ErrPaused) {
			t.Error("it paused too early")
		}
	}
	if err := do(t.Context(), b, "k"); !errors.Is(err, ErrPaused) {
		t.Errorf("after %d failures: %v", DefaultFailures, err)
	}
}

func TestCallersInAHurryDoNotEmptyTheBucket(t *testing.T) {
	server := redistest.Start(t)
	proxy := startProxy(t, server.Address)
	rule := ruled(0.001, 1000)
	b := open(t, Config{Timeout: 5 * time.Second, Pause: time.Minute}, []string{proxy.address})
	take(t, b, "k", rule, 1)
	proxy.setDelay(300 * time.Millisecond)
	hurried := func(b *Buckets) error {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		return do(ctx, b, "k")
	}
	if err := hurried(b); err == nil { // it was sent, unless this machine is slow
		t.Error("the first is answered")
	}
	for range 300 {
		if err := hurried(b); !errors.Is(err, ErrTooLate) || !errors.Is(err, stage.ErrBusy) {
			t.Fatalf("another: %v", err)
		}
	}
	if left := leftAt(t, server, "k", rule); left < 998 {
		t.Errorf("%v of 1000 tokens are left; one was used, and one wasted", left)
	}
	proxy.setDelay(0)
	b.config.Pause = time.Millisecond
	until(t, "an answer in time", func() bool { return hurried(b) == nil })
}

// A connection that ends instead of the answer must not take twice.
func TestATakeIsSentOnce(t *testing.T) {
	for _, cluster := range []bool{false, true} {
		var server *redistest.Server
		if cluster {
			server = redistest.StartCluster(t, 1)[0]
		} else {
			server = redistest.Start(t)
		}
		proxy := startProxy(t, server.Address)
		client := Client(Options{Addresses: []string{proxy.address}, Cluster: cluster, Timeout: 5 * time.Second})
		defer client.Close()
		if c, ok := client.(*goredis.ClusterClient); ok {
			c.Options().Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, proxy.address)
			}
		}
		b, err := New(client, patient)
		if err != nil {
			t.Fatal(err)
		}
		rule := ruled(0.001, 100)
		take(t, b, "k", rule, 1)
		proxy.setLosing("evalsha")
		if got, err := b.Do(t.Context(), stage.Operation{Key: "k", Rule: rule, N: 10}); err == nil {
			t.Errorf("cluster %v: %+v arrived", cluster, got)
		}
		if left := leftAt(t, server, "k", rule); math.Abs(left-89) > 0.5 {
			t.Errorf("cluster %v: %v tokens are left, want 89", cluster, left)
		}
	}
}

func TestAChargeThatIsSentAgainChangesNothing(t *testing.T) {
	server := redistest.Start(t)
	b := open(t, patient, []string{server.Address})
	rule := ruled(0.001, 100)
	send := func(kind stage.OperationKind, id uint64, n, want float64) {
		t.Helper()
		got, err := b.Do(t.Context(), stage.Operation{Kind: kind, ID: id, Key: "k", Rule: rule, N: n})
		if err != nil || !got.OK || math.Abs(got.Left-want) > 0.5 {
			t.Errorf("%+v, %v; want %v left", got, err, want)
		}
	}
	send(stage.ChargeTokens, 1<<63, 30, 70)
	send(stage.ChargeTokens, 1<<63, 30, 70)
	send(stage.ChargeTokens, 2, 20, 50)
	send(stage.ReturnTokens, 3, 10, 60)
	send(stage.ReturnTokens, 3, 10, 60)
	send(stage.TakeTokens, 0, 10, 50)
	send(stage.TakeTokens, 0, 10, 40)
	c, name := server.Client(), "headgate:{k}#2"
	if d := c.PTTL(t.Context(), name).Val(); d < DefaultKeep-time.Minute || d > DefaultKeep {
		t.Errorf("the ID is remembered for %v", d)
	}
	c.Del(t.Context(), name) // as if it had expired
	send(stage.ChargeTokens, 2, 20, 20)
}

func TestAKeyThatMovesToAnotherNodeIsFollowed(t *testing.T) {
	servers := redistest.StartCluster(t, 2)
	b := open(t, Config{Timeout: 5 * time.Second, Failures: 1, Pause: time.Minute}, []string{servers[0].Address, servers[1].Address})
	rule := ruled(0.001, 10)
	from, to := servers[0], servers[1]
	if slot("k") >= slots/2 {
		from, to = to, from
	}
	command := func(s *redistest.Server, args ...any) string {
		t.Helper()
		answer, err := s.Client().Do(t.Context(), args...).Text()
		if err != nil {
			t.Fatal(args, err)
		}
		return answer
	}
	sends := func(n, left float64) {
		t.Helper()
		if got := take(t, b, "k", rule, n); !got.OK || math.Abs(got.Left-left) > 0.5 {
			t.Errorf("%+v, want %v left", got, left)
		}
	}
	charge := func() error {
		_, err := b.Do(t.Context(), stage.Operation{Kind: stage.ChargeTokens, ID: 1, Key: "k", Rule: rule, N: 1})
		return err
	}
	sends(4, 6)
	host, port, _ := strings.Cut(to.Address, ":")
	old, successor := command(from, "cluster", "myid"), command(to, "cluster", "myid")
	command(to, "cluster", "setslot", slot("k"), "importing", old)
	command(from, "cluster", "setslot", slot("k"), "migrating", successor)
	sends(1, 5)
	if err := charge(); !goredis.HasErrorPrefix(err, "TRYAGAIN") {
		t.Errorf("a charge while the bucket moves, but not yet its IDs: %v", err)
	}
	command(from, "migrate", host, port, "headgate:{k}", 0, 1000)
	sends(1, 4) // ASK
	command(to, "cluster", "setslot", slot("k"), "node", successor)
	command(from, "cluster", "setslot", slot("k"), "node", successor)
	sends(1, 3) // MOVED
	if err := charge(); err != nil {
		t.Error(err)
	}
	sends(2, 0)
}
