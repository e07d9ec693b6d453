// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/meshusage"
)

func TestMain(m *testing.M) { waittest.Main(m) }

func ruled(limit rate.Limit, burst float64) *dynamicconfig.Rule {
	return &dynamicconfig.Rule{Key: "*", Limit: limit, Burst: burst, Algorithm: Name}
}

// always is Rules that have one rule.
func always(rule *dynamicconfig.Rule) Rules {
	return func(string) (*dynamicconfig.Rule, bool) { return rule, true }
}

// cluster is some hosts on a network, in a bubble of synctest.
type cluster struct {
	t       *testing.T
	rule    *dynamicconfig.Rule
	network *rpctest.Network
	names   []string
	hosts   map[string]*host
}

type host struct {
	*Mesh
	cancel func()
}

func newCluster(t *testing.T, rule *dynamicconfig.Rule, names ...string) *cluster {
	c := &cluster{t: t, rule: rule, network: rpctest.New(1), hosts: make(map[string]*host)}
	c.network.Bytes(true)
	for _, name := range names {
		c.start(name)
	}
	return c
}

// start starts a host, or a new process of it, and adds it to the peers of all.
func (c *cluster) start(name string) {
	c.stop(name)
	m := New(name, always(c.rule), Config{})
	ctx, cancel := context.WithCancel(c.t.Context())
	var loops sync.WaitGroup
	loops.Go(func() { m.Run(ctx, c.network.Host(name).Peers()) })
	c.network.Host(name).Serve(m)
	c.hosts[name] = &host{m, func() { cancel(); loops.Wait() }}
	if !slices.Contains(c.names, name) {
		c.names = append(c.names, name)
	}
	for _, h := range c.hosts {
		h.SetPeers(c.names)
	}
}

// stop ends a host's process, without Leave.
func (c *cluster) stop(name string) {
	if h := c.hosts[name]; h != nil {
		h.cancel()
		c.network.Host(name).Serve(nil)
		delete(c.hosts, name)
	}
}

func (c *cluster) stopAll() {
	for _, name := range c.names {
		c.stop(name)
	}
}

// take takes up to n single tokens and returns how many it got.
func (c *cluster) take(name string, n int) (got int) {
	for range n {
		taken, err := c.hosts[name].Do(c.t.Context(), stage.Operation{Key: "k", Rule: c.rule, N: 1})
		if err != nil {
			c.t.Fatal(err)
		}
		if taken.OK {
			got++
		}
	}
	return got
}

func (c *cluster) left(name string) float64 {
	taken, err := c.hosts[name].Do(c.t.Context(), stage.Operation{Key: "k", Rule: c.rule})
	if err != nil {
		c.t.Fatal(err)
	}
	return taken.Left
}

// after waits for so many rounds of all hosts.
func after(rounds int) { time.Sleep(time.Duration(rounds)*DefaultInterval + DefaultInterval/2) }

// The example of the design interview: three hosts, four a second.
func TestWhatWasUsedTooMuchIsPaidBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, ruled(4, 4), "a", "b", "c")
		defer c.stopAll()
		got := 0
		for _, name := range c.names {
			got += c.take(name, 10)
		}
		began := time.Now()
		if got != 12 {
			t.Errorf("%d at once, want 4 of each host", got)
		}
		after(1)
		for _, name := range c.names {
			want := -8 + 4*time.Since(began).Seconds()
			if left := c.left(name); math.Abs(left-want) > 1e-6 {
				t.Errorf("%s has %v, want %v", name, left, want)
			}
		}
		for time.Since(began) < 2*time.Second {
			for _, name := range c.names {
				got += c.take(name, 1)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if got != 12 {
			t.Errorf("%d in two seconds, want 12: they are paid back", got)
		}
	})
}

// Each host ends up with what all used, no matter which messages are lost.
func TestLostAndRepeatedMessagesDoNoHarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, ruled(0.001, 1000), "a", "b")
		defer c.stopAll()
		after(1)
		used := 0
		check := func(what string) {
			t.Helper()
			after(4)
			for _, name := range c.names {
				if left := c.left(name); math.Abs(left-float64(1000-used)) > 0.5 {
					t.Errorf("%s: %s has %v, want %v", what, name, left, 1000-used)
				}
			}
		}
		used += c.take("a", 10)
		check("at first")
		c.network.Cut("b", "a") // messages of a arrive, and no answers
		used += c.take("a", 20)
		after(3)
		used += c.take("a", 5)
		after(3)
		c.network.HealAll()
		check("answers were lost")
		c.network.Cut("a", "b")
		used += c.take("a", 20) + c.take("b", 30)
		after(3)
		c.network.HealAll()
		check("messages were lost")
		if _, err := c.hosts["a"].Do(t.Context(), stage.Operation{Key: "k", Rule: c.rule, N: 5, Kind: stage.ReturnTokens}); err != nil {
			t.Fatal(err)
		}
		used -= 5
		check("some were given back")
		if _, err := c.hosts["b"].Do(t.Context(), stage.Operation{Key: "k", Rule: c.rule, N: 2000, Kind: stage.ChargeTokens}); err != nil {
			t.Fatal(err)
		}
		used += 2000
		check("some were charged")
		if n := c.network.Sent("a", "b"); n > 40 {
			t.Errorf("%d messages; there was little to send", n)
		}
	})
}

// A row that comes twice, or late, counts once.
func TestWhatIsReceivedTwiceCountsOnce(t *testing.T) {
	rule := ruled(0.001, 1000)
	m := New("a", always(rule), Config{})
	receive := func(version, after, born, used uint64, left float64) {
		if err := m.ReceiveAt(0, "b", &meshusage.Report{From: 9, Version: version, After: after, Rows: []meshusage.Used{{Key: "k", Born: born, Tokens: used, Left: left}}}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want float64) {
		t.Helper()
		taken, err := m.DoAt(0, stage.Operation{Key: "k", Rule: rule})
		if err != nil || math.Abs(taken.Left-want) > 1e-9 {
			t.Errorf("%v left, want %v: %v", taken.Left, want, err)
		}
	}
	receive(5, 2, 3, 10, 990)
	check(990)
	receive(5, 2, 3, 10, 990)
	check(990)
	receive(6, 2, 3, 25, 975)
	check(975)
	receive(4, 2, 3, 7, 993) // late
	check(975)
	receive(7, 6, 3, 20, 980) // given back
	check(980)
	receive(9, 8, 9, 4, 976) // the sender had dropped the key, and counts anew
	check(976)
	receive(12, 11, 10, 500, 300) // this host missed a count; what is left at the sender counts
	check(300)
}

func TestANewHostBeginsWithWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, ruled(0.001, 100), "a", "b")
		defer c.stopAll()
		after(1)
		c.take("a", 30)
		c.take("b", 30)
		after(2)
		c.start("c")
		after(2)
		if left := c.left("c"); math.Abs(left-40) > 0.5 {
			t.Errorf("c begins with %v, want the 40 that are left", left)
		}
		c.take("c", 10)
		after(2)
		c.start("a") // dies, and comes back knowing nothing
		after(2)
		for _, name := range c.names {
			if left := c.left(name); math.Abs(left-30) > 0.5 {
				t.Errorf("%s has %v, want 30", name, left)
			}
		}
		c.take("a", 10)
		after(2)
		c.stop("b")
		c.take("a", 5)
		c.take("c", 5)
		after(2)
		if a, b := c.left("a"), c.left("c"); math.Abs(a-10) > 0.5 || math.Abs(b-10) > 0.5 {
			t.Errorf("without b: %v and %v, want 10", a, b)
		}
	})
}

// Otherwise a key would be closed for as long as messages did not arrive.
func TestAfterALongPartitionWhatIsPaidBackIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, ruled(10, 10), "a", "b")
		defer c.stopAll()
		after(1)
		c.network.Partition([]string{"a"}, []string{"b"})
		got := 0
		for range 600 {
			got += c.take("a", 10) + c.take("b", 10)
			time.Sleep(time.Second)
		}
		if got < 2*6000 {
			t.Errorf("%d in ten minutes apart, want the limit of each", got)
		}
		c.network.HealAll()
		after(3)
		for _, name := range c.names {
			// Two hosts with a burst of 10, and 2 s of 10/s.
			if left := c.left(name); left > -30 || left < -61 {
				t.Errorf("%s has %v", name, left)
			}
		}
		time.Sleep(7 * time.Second)
		if c.take("a", 1) != 1 {
			t.Error("still closed, seven seconds later")
		}
	})
}

// While a process stands still its bucket is full, and others use what is filled
// in meanwhile.
func TestAHostThatStoodStillIsNotInDebt(t *testing.T) {
	for _, awake := range []bool{false, true} {
		rule := ruled(10, 10)
		a, b := New("a", always(rule), Config{}), New("b", always(rule), Config{})
		b.SetPeers([]string{"a"})
		send := func(now stage.Instant) {
			for _, message := range b.RoundAt(now) {
				for _, g := range message.Gossips {
					if err := a.ReceiveAt(now, "b", g); err != nil {
						t.Fatal(err)
					}
				}
				b.Done(message, a.id)
			}
		}
		second := stage.Instant(time.Second)
		for i := range stage.Instant(21) {
			if _, err := b.DoAt(i*second, stage.Operation{Key: "k", Rule: rule, N: 5}); err != nil {
				t.Fatal(err)
			}
			if i == 0 || i == 20 {
				send(i * second)
			}
			if i == 0 || awake { // it goes on, and what b says was lost until the end
				a.RoundAt(i * second)
			}
		}
		taken, err := a.DoAt(20*second, stage.Operation{Key: "k", Rule: rule})
		if err != nil {
			t.Fatal(err)
		}
		if awake && taken.Left > -29 || !awake && taken.Left != 5 {
			t.Errorf("awake %v: %v left", awake, taken.Left)
		}
	}
}

func TestIdleKeysAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := ruled(10, 10)
		c := newCluster(t, rule, "a", "b")
		defer c.stopAll()
		for i := range 1000 {
			if _, err := c.hosts["a"].Do(t.Context(), stage.Operation{Key: fmt.Sprint(i), Rule: rule, N: 5}); err != nil {
				t.Fatal(err)
			}
		}
		after(3)
		if a, b := c.hosts["a"].keys.Load(), c.hosts["b"].keys.Load(); a != 1000 || b != 1000 {
			t.Errorf("%d and %d keys", a, b)
		}
		time.Sleep(time.Minute)
		if a, b := c.hosts["a"].keys.Load(), c.hosts["b"].keys.Load(); a != 0 || b != 0 {
			t.Errorf("a minute later there are %d and %d keys", a, b)
		}
		// One that was forgotten is counted from the beginning again.
		c.take("a", 5)
		after(2)
		if _, err := c.hosts["a"].Do(t.Context(), stage.Operation{Key: "0", Rule: rule, N: 8}); err != nil {
			t.Fatal(err)
		}
		taken, _ := c.hosts["b"].Do(t.Context(), stage.Operation{Key: "0", Rule: rule})
		if taken.Left != 10 {
			t.Errorf("%+v", taken)
		}
	})
}

func TestKeysAreBounded(t *testing.T) {
	rule := ruled(10, 10)
	m := New("a", always(rule), Config{MaxKeys: 3})
	for i := range 5 {
		_, err := m.DoAt(0, stage.Operation{Key: fmt.Sprint(i), Rule: rule, N: 1})
		if full := i >= 3; full != errors.Is(err, ErrTooManyKeys) || full != errors.Is(err, stage.ErrBusy) || full != (err != nil) {
			t.Errorf("key %d: %v", i, err)
		}
	}
	rows := []meshusage.Used{{Key: "x", Born: 1, Tokens: 5}, {Key: "0", Born: 1, Tokens: 5}}
	if err := m.ReceiveAt(0, "b", &meshusage.Report{From: 2, Version: 1, Rows: rows}); err != nil {
		t.Fatal(err)
	}
	if taken, _ := m.DoAt(0, stage.Operation{Key: "0", Rule: rule}); taken.Left != 4 || m.keys.Load() != 3 {
		t.Errorf("%+v, %d keys", taken, m.keys.Load())
	}
	for i := range maxSenders + 10 {
		err := m.ReceiveAt(0, fmt.Sprint("host", i), &meshusage.Report{From: uint64(i) + 10, Version: 1})
		if (err != nil) != (i >= maxSenders-1) {
			t.Fatalf("host %d: %v", i, err)
		}
	}
}

// A host does not count what other hosts use of a key that has another rule here.
func TestOtherRulesReceiveNothing(t *testing.T) {
	for _, rule := range []*dynamicconfig.Rule{
		{Limit: 1, Burst: 1, Algorithm: "elastic"},
		{Limit: 1, InFlight: true, Algorithm: Name},
		{Limit: 1, Burst: 1, Migration: &dynamicconfig.Migration{From: "even", To: "elastic"}, Algorithm: Name},
		nil,
	} {
		m := New("a", func(string) (*dynamicconfig.Rule, bool) { return rule, rule != nil }, Config{})
		if err := m.ReceiveAt(0, "b", &meshusage.Report{From: 2, Version: 1, Rows: []meshusage.Used{{Key: "k", Born: 1, Tokens: 5}}}); err != nil || m.keys.Load() != 0 {
			t.Errorf("%+v: %v, %d keys", rule, err, m.keys.Load())
		}
	}
	migrating := &dynamicconfig.Rule{Limit: 1, Burst: 1, Migration: &dynamicconfig.Migration{From: "even", To: Name}}
	if !applies(migrating) {
		t.Error("a rule that migrates to gossip receives nothing")
	}
}

func TestHostsInParallel(t *testing.T) {
	rule := ruled(1e-9, 100_000)
	a, b := New("a", always(rule), Config{}), New("b", always(rule), Config{})
	a.SetPeers([]string{"a", "b"})
	b.SetPeers([]string{"a", "b"})
	exchange := func() {
		for _, way := range [][2]*Mesh{{a, b}, {b, a}} {
			for _, message := range way[0].RoundAt(0) {
				for _, g := range message.Gossips {
					if err := way[1].ReceiveAt(0, way[0].self, g); err != nil {
						t.Error(err)
					}
				}
				way[0].Done(message, way[1].id)
			}
		}
	}
	var wg sync.WaitGroup
	for _, m := range []*Mesh{a, b} {
		for range 2 {
			wg.Go(func() {
				for i := range 20_000 {
					if _, err := m.DoAt(0, stage.Operation{Key: fmt.Sprint(i % 7), Rule: rule, N: 1}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Go(func() {
		for range 200 {
			exchange()
		}
	})
	wg.Wait()
	exchange()
	exchange()
	for i := range 7 {
		for _, m := range []*Mesh{a, b} {
			taken, err := m.DoAt(0, stage.Operation{Key: fmt.Sprint(i), Rule: rule})
			want := float64(100_000 - 4*(20_000/7))
			if err != nil || taken.Left > want || taken.Left < want-4 {
				t.Errorf("key %d: %s has %v, want %v", i, m.self, taken.Left, want)
			}
		}
	}
}

func BenchmarkTake(b *testing.B) {
	rule := ruled(1e9, 1e9)
	m := New("a", always(rule), Config{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Do(b.Context(), stage.Operation{Key: "frontend:orders", Rule: rule, N: 1}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRound(b *testing.B) {
	rule := ruled(1e9, 1e9)
	m, other := New("a", always(rule), Config{}), New("b", always(rule), Config{})
	m.SetPeers([]string{"b"})
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = fmt.Sprintf("frontend:operation-%05d", i)
	}
	b.ReportAllocs()
	bytes := 0
	for b.Loop() {
		for _, key := range keys {
			_, _ = m.DoAt(0, stage.Operation{Key: key, Rule: rule, N: 1})
		}
		for _, message := range m.RoundAt(0) {
			bytes = 0
			for _, g := range message.Gossips {
				payload, err := meshusage.Encode(g)
				if err != nil {
					b.Fatal(err)
				}
				bytes += len(payload.GetValue())
				if _, err := other.Update(b.Context(), "a", payload); err != nil {
					b.Fatal(err)
				}
			}
			m.Done(message, other.id)
		}
	}
	b.ReportMetric(float64(bytes)/float64(len(keys)), "bytes/key")
}
