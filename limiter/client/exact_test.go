// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/internal/addresstest"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/client"
)

const exactRules = `
defaults: {algorithm: exact, ask_timeout: 10s}
limits:
  - {key: closed, limit: 1/h, burst: 100, fallback: closed}
  - {key: even, limit: 1/h, burst: 100, fallback: even}
`

// exactly returns a decision of key that a decider made, for no tokens.
func exactly(t *testing.T, c *client.Client, key string) limiter.Decision {
	t.Helper()
	var d limiter.Decision
	eventually(t, key+" is decided by its owner", func() bool {
		d = c.For(key).Decide(t.Context(), 0, 0)
		return d.By == "exact" || d.By == "owner" || d.By == "auto"
	})
	return d
}

func TestExactKeysHaveOneBucketForAllClients(t *testing.T) { oneBucketForAll(t, exactRules, 100) }

func TestAutoKeysHaveOneBucketForAllClients(t *testing.T) {
	oneBucketForAll(t, strings.Replace(exactRules, "exact", "auto", 1), 60)
}

func oneBucketForAll(t *testing.T, rules string, least int64) {
	t.Helper()
	d, _ := serve(t, "127.0.0.1:0", rules)
	var clients []*client.Client
	for range 3 {
		c := newClient(t, client.Config{Addresses: []string{d.Edge()}, Hosts: 3}, memory.New(parse(t, rules)))
		exactly(t, c, "closed")
		clients = append(clients, c)
	}
	var admitted, refused atomic.Int64
	var all sync.WaitGroup
	for i := range 150 {
		key := clients[i%3].For("closed")
		all.Go(func() {
			switch d := key.Decide(t.Context(), 1, 0); {
			case d.By != "exact" && d.By != "owner" && d.By != "auto":
				t.Errorf("%+v", d)
			case d.OK:
				admitted.Add(1)
			case d.RetryAfter > 30*time.Minute:
				refused.Add(1)
			}
		})
	}
	all.Wait()
	// Under auto, a client may hold a few of the last tokens.
	if n := admitted.Load(); n > 100 || n < least || n+refused.Load() != 150 {
		t.Errorf("%d admitted and %d refused of 150", admitted.Load(), refused.Load())
	}

	// One client gives tokens back, and another client has them.
	hold := clients[0].For("even").Take(t.Context(), 100, 0)
	hold.Settle(40)
	eventually(t, "the rest is there", func() bool {
		left := exactly(t, clients[1], "even").Left
		return left >= 60 && left < 61
	})
}

func TestExactKeysFallBackWhileNoDeciderIsThere(t *testing.T) {
	d, stop := serve(t, addresstest.Free(t, 1)[0], exactRules)
	c := newClient(t, client.Config{Addresses: []string{d.Edge()}, Hosts: 4}, memory.New(parse(t, exactRules)))
	exactly(t, c, "closed")
	exactly(t, c, "even")
	stop()
	eventually(t, "the fallbacks decide", func() bool {
		shut, even := c.For("closed").Decide(t.Context(), 1, 0), c.For("even").Decide(t.Context(), 0, 0)
		return shut.Reason == limiter.Failed && !shut.OK && even.By == "even" && even.OK
	})
	began := time.Now()
	admitted := 0
	for range 200 {
		if c.For("even").Allow() {
			admitted++
		}
	}
	if admitted != 25 { // of 100, among 4
		t.Errorf("%d admitted by the fallback", admitted)
	}
	if took := time.Since(began); took > 30*time.Second { // each could wait for two calls of 25 s
		t.Errorf("each event waits for deciders that are gone: %v", took)
	}
	serve(t, d.Edge(), exactRules)
	exactly(t, c, "closed")
	eventually(t, "the decider hears what the fallback let through", func() bool {
		left := exactly(t, c, "even").Left
		return left >= 75 && left < 76
	})
}

// An edge answers, and decides nothing, most often because a key's owner does not answer the edge. The
// owner's own reasons alone would have the reader look at max_keys.
func TestTheLogSaysWhyADeciderDecidesNothing(t *testing.T) {
	d, _ := serve(t, "127.0.0.1:0", exactRules)
	var logged text
	c, err := client.New(client.Config{Addresses: []string{d.Edge()}}, memory.New(parse(t, "limits: [{key: unknown, limit: 1/s, algorithm: exact, ask_timeout: 10s}]")),
		client.WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	eventually(t, "the log names the decider, the owner, and the limits", func() bool {
		c.For("unknown").Allow()
		got := logged.String()
		return strings.Contains(got, "the decider got no answer") && strings.Contains(got, "other limits")
	})
}

// text is a log in memory.
type text struct {
	mu sync.Mutex
	strings.Builder
}

func (l *text) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(p)
}

func (l *text) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.String()
}

func TestExactKeysOutliveADeciderByWhatItsClientsWereTold(t *testing.T) {
	d, stop := serve(t, addresstest.Free(t, 1)[0], exactRules)
	c := newClient(t, client.Config{Addresses: []string{d.Edge()}}, memory.New(parse(t, exactRules)))
	exactly(t, c, "closed")
	if d := c.For("closed").Decide(t.Context(), 90, 0); !d.OK || d.By != "exact" {
		t.Fatalf("%+v", d)
	}
	stop()
	serve(t, d.Edge(), exactRules)
	if left := exactly(t, c, "closed").Left; left < 10 || left > 11 {
		t.Errorf("%v left after a restart; want 10", left)
	}
}

// An event of an exact key waits for a decider that does not answer as long as
// Config.ExactTimeout says, or else the rule's ask_timeout.
func TestConfigsTimeoutOfExactKeysGoesBeforeTheRules(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, row := range []struct {
		rule   string
		config time.Duration
	}{{"10s", time.Millisecond}, {"1ms", 0}} {
		c := newClient(t, client.Config{Addresses: []string{l.Addr().String()}, ExactTimeout: row.config}, memory.New(parse(t, fmt.Sprintf(
			"limits: [{key: k, limit: 1/h, algorithm: exact, fallback: closed, ask_timeout: %s}]", row.rule))))
		began := time.Now()
		if d := c.For("k").Decide(t.Context(), 1, 0); d.OK || d.Reason != limiter.Failed {
			t.Errorf("%+v of a decider that never answers", d)
		}
		if took := time.Since(began); took > 9*time.Second {
			t.Errorf("ask_timeout %s, ExactTimeout %v: waited for %v", row.rule, row.config, took)
		}
	}
}

func TestTheTimeoutOfExactKeysHasBounds(t *testing.T) {
	for timeout, ok := range map[time.Duration]bool{-1: false, 0: true, client.MaxExactTimeout: true, client.MaxExactTimeout + 1: false} {
		if err := (client.Config{ExactTimeout: timeout}).Validate(); (err == nil) != ok {
			t.Errorf("%v: %v", timeout, err)
		}
	}
}

// BenchmarkExact measures an event of an exact key by way of a daemon, over gRPC on
// loopback, with both sides on this machine: one caller, and 64 of them.
func BenchmarkExact(b *testing.B) {
	const rules = "limits:\n  - {key: k, limit: 1000000000/s, algorithm: exact, fallback: closed}\n"
	d, _ := serve(b, "127.0.0.1:0", rules)
	for name, callers := range map[string]int{"1 caller": 1, "64 callers": 64} {
		b.Run(name, func(b *testing.B) {
			c := newClient(b, client.Config{Addresses: []string{d.Edge()}, ExactTimeout: time.Second}, memory.New(parse(b, rules)))
			key := c.For("k")
			eventually(b, "the decider answers", func() bool { return key.Allow() })
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ReportAllocs()
			b.ResetTimer()
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					for left.Add(-1) >= 0 {
						if !key.Allow() {
							b.Error("refused")
							return
						}
					}
				})
			}
			all.Wait()
		})
	}
}
