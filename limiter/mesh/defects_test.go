// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/meshusage"
)

// pair is two hosts whose messages the test carries, through their bytes.
type pair struct {
	t    *testing.T
	rule *dynamicconfig.Rule
	now  stage.Instant
	a, b *Mesh
}

func newPair(t *testing.T, rule *dynamicconfig.Rule) *pair {
	p := &pair{t: t, rule: rule, a: New("a", always(rule), Config{}), b: New("b", always(rule), Config{})}
	p.a.SetPeers([]string{"a", "b"})
	p.b.SetPeers([]string{"a", "b"})
	return p
}

// send ends a round of from, and says how its messages go: "arrive", "lost", or
// "unanswered".
func (p *pair) send(from, to *Mesh, how string) (all []*meshusage.Report) {
	p.t.Helper()
	for _, message := range from.RoundAt(p.now) {
		for _, g := range message.Gossips {
			payload, err := meshusage.Encode(g)
			if err != nil {
				p.t.Fatal(err)
			}
			got := new(meshusage.Report)
			if err := meshusage.Decode(payload, got); err != nil {
				p.t.Fatal(err)
			}
			if how != "lost" {
				p.receive(to, from, got)
			}
			all = append(all, got)
		}
		by := uint64(0)
		if how == "arrive" {
			by = to.id
		}
		from.Done(message, by)
	}
	return all
}

func (p *pair) receive(to, from *Mesh, g *meshusage.Report) {
	p.t.Helper()
	if err := to.ReceiveAt(p.now, from.self, g); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pair) do(m *Mesh, kind stage.OperationKind, n float64) stage.Outcome {
	p.t.Helper()
	o, err := m.DoAt(p.now, stage.Operation{Kind: kind, Key: "k", Rule: p.rule, N: n})
	if err != nil {
		p.t.Fatal(err)
	}
	return o
}

func (p *pair) left(m *Mesh) float64 { return p.do(m, stage.TakeTokens, 0).Left }

// At 10¹³ tokens/s, a count would reach 2⁵³ within half an hour.
func TestTheLimitHoldsHoweverMuchIsUsed(t *testing.T) {
	const limit, minutes = 1e13, 80
	p := newPair(t, ruled(limit, limit))
	used := 0.0
	for second := 1; second <= minutes*60; second++ {
		p.now = p.now.Add(time.Second)
		for _, way := range [][2]*Mesh{{p.a, p.b}, {p.b, p.a}} {
			for range 10 {
				if p.do(way[0], stage.TakeTokens, limit/10).OK {
					used += limit / 10
				}
			}
			p.send(way[0], way[1], "arrive")
		}
		if second%600 == 0 {
			if part := used / 600 / limit; part > 1.01 || part < 0.99 {
				t.Errorf("in the ten minutes until minute %d, two hosts used %.2f of the limit", second/60, part)
			}
			used = 0
		}
	}
}

// The other host is charged once with what was used, no matter which messages are lost or
// come twice while a count begins anew.
func TestANewCountLosesAndDoublesNothing(t *testing.T) {
	const burst, step = 1 << 53, 1 << 48
	for _, how := range []string{"arrive", "lost", "unanswered"} {
		for round := range 12 { // in which messages begin to go wrong
			for length := range 4 {
				p := newPair(t, ruled(0, burst))
				p.do(p.a, stage.TakeTokens, 1) // both know the key
				p.send(p.a, p.b, "arrive")
				p.do(p.a, stage.TakeTokens, renewAt-4*step)
				var before []*meshusage.Report
				for i := range 12 {
					p.do(p.a, stage.TakeTokens, step)
					way := "arrive"
					if i >= round && i < round+length {
						way = how
					}
					before = append(before, p.send(p.a, p.b, way)...)
				}
				p.do(p.a, stage.TakeTokens, step)
				p.send(p.a, p.b, "arrive")
				for _, g := range before {
					p.receive(p.b, p.a, g) // again, and late
				}
				if e := p.a.shard("k").entries["k"]; e.ended.born == 0 {
					t.Fatal("the count did not begin anew")
				}
				if a, b := p.left(p.a), p.left(p.b); a != b {
					t.Fatalf("%d messages from %d on are %s: %v left where it was used, %v at the other", length, round, how, a, b)
				}
			}
		}
	}
}

// A host that receives nothing until a count has begun anew starts with what is
// left, whenever it came.
func TestAHostThatComesWhileACountBeginsAnew(t *testing.T) {
	for joins := range 5 {
		p := newPair(t, ruled(0, 1<<53))
		p.a.SetPeers([]string{"c"})
		for round := range 5 {
			if round == joins {
				p.a.SetPeers([]string{"b"})
			}
			p.do(p.a, stage.TakeTokens, renewAt/3)
			p.send(p.a, p.b, "lost")
		}
		p.do(p.a, stage.TakeTokens, 1<<40)
		p.send(p.a, p.b, "arrive")
		if a, b := p.left(p.a), p.left(p.b); math.Abs(a-b) > a*1e-6 { // the wire has a float32
			t.Errorf("a host that comes in round %d starts with %v of %v", joins, b, a)
		}
	}
}

// A message of a count's end that comes after messages of the next count says
// nothing new.
func TestAnEndedCountThatComesAgainIsIgnored(t *testing.T) {
	p := newPair(t, ruled(0, 1000))
	row := func(born, used uint64) {
		p.receive(p.a, p.b, &meshusage.Report{From: p.b.id, Version: 9, After: 2, Rows: []meshusage.Used{{Key: "k", Born: born, Tokens: used}}})
	}
	row(3, 100)
	row(8, 50)
	row(3, 100)
	row(8, 50)
	if left := p.left(p.a); left != 850 {
		t.Errorf("%v left, want 850", left)
	}
}

type peersFunc func(ctx context.Context, to, from string, payload *anypb.Any) (*anypb.Any, error)

func (f peersFunc) Peer(to string) (rpc.Decider, error) { return boundPeer{f, to}, nil }

type boundPeer struct {
	call peersFunc
	to   string
}

func (p boundPeer) Update(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	return p.call(ctx, p.to, host, payload)
}

// with returns the names of a cluster in which some hosts never answer.
func with(silent int, names ...string) []string {
	for i := range silent {
		names = append(names, fmt.Sprint("silent", i))
	}
	return names
}

func TestSilentHostsDelayNoOther(t *testing.T) {
	for _, silent := range []int{0, 60, 300, 600} {
		synctest.Test(t, func(t *testing.T) {
			rule := ruled(1, 1e6)
			a := New("a", always(rule), Config{})
			a.SetPeers(with(silent, "a", "good"))
			ctx, cancel := context.WithCancel(t.Context())
			var mu sync.Mutex
			var received []time.Time
			calls, most := 0, 0
			peers := peersFunc(func(ctx context.Context, to, _ string, _ *anypb.Any) (*anypb.Any, error) {
				mu.Lock()
				defer mu.Unlock()
				if to == "good" {
					received = append(received, time.Now())
					return meshusage.EncodeHeard(7), nil
				}
				calls++
				most = max(most, calls)
				mu.Unlock()
				<-ctx.Done()
				mu.Lock()
				calls--
				return nil, ctx.Err()
			})
			var loop sync.WaitGroup
			loop.Go(func() { a.Run(ctx, peers) })
			began := time.Now()
			after5s := 0
			for range 600 { // one minute
				time.Sleep(100 * time.Millisecond)
				if _, err := a.Do(ctx, stage.Operation{Key: "k", Rule: rule, N: 1}); err != nil {
					t.Fatal(err)
				}
				if a.paused(stage.Now()) {
					t.Fatal("the host takes itself for one that stood still")
				}
				if time.Since(began) > 5*time.Second {
					mu.Lock()
					after5s = max(after5s, calls)
					mu.Unlock()
				}
			}
			cancel()
			loop.Wait()
			longest := received[0].Sub(began)
			for i := range len(received) - 1 {
				longest = max(longest, received[i+1].Sub(received[i]))
			}
			if len(received) < 119 || longest > 600*time.Millisecond {
				t.Errorf("of %d silent hosts: the other one received %d messages in a minute, at most %v apart", silent, len(received), longest)
			}
			if most > silent || after5s > 2*maxRetries {
				t.Errorf("of %d silent hosts: %d calls at once, then %d", silent, most, after5s)
			}
		})
	}
}

// A change of the interval holds from the next round on, and is no pause.
func TestRoundsFollowTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := ruled(1, 1e6)
		a := New("a", always(rule), Config{})
		a.SetPeers([]string{"a", "b"})
		ctx, cancel := context.WithCancel(t.Context())
		pass := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				if _, err := a.Do(ctx, stage.Operation{Key: "k", Rule: rule, N: 1, Kind: stage.ChargeTokens}); err != nil {
					t.Fatal(err)
				}
				if a.paused(stage.Now()) {
					t.Fatal("the host takes itself for one that stood still")
				}
			}
		}
		var sent atomic.Int64
		var loop sync.WaitGroup
		loop.Go(func() {
			a.Run(ctx, peersFunc(func(context.Context, string, string, *anypb.Any) (*anypb.Any, error) {
				sent.Add(1)
				return meshusage.EncodeHeard(7), nil
			}))
		})
		for _, interval := range []time.Duration{DefaultInterval, 50 * time.Millisecond, 250 * time.Millisecond, 10 * time.Millisecond, 0} {
			a.SetInterval(interval)
			if interval == 0 {
				interval = DefaultInterval
			}
			pass(600 * time.Millisecond) // until the round under way has ended
			before := sent.Load()
			pass(100 * interval)
			if got := sent.Load() - before; got < 99 || got > 101 {
				t.Errorf("interval %v: %d messages in 100 intervals", interval, got)
			}
		}
		cancel()
		loop.Wait()
	})
}

// All silent hosts are tried again in turn.
func TestSilentHostsAreTriedInTurn(t *testing.T) {
	rule := ruled(1, 1e6)
	a := New("a", always(rule), Config{})
	a.SetPeers(with(3*maxRetries, "good"))
	tried := make(map[string]int)
	for round := range 7 { // the first is to all
		if _, err := a.DoAt(0, stage.Operation{Key: "k", Rule: rule, N: 1}); err != nil {
			t.Fatal(err)
		}
		messages := a.RoundAt(0)
		if messages[0].To != "good" || round > 0 && len(messages) != 1+maxRetries {
			t.Errorf("round %d: %d messages, the first to %s", round, len(messages), messages[0].To)
		}
		for _, message := range messages {
			tried[message.To]++
			by := uint64(0)
			if message.To == "good" {
				by = 7
			}
			a.Done(message, by)
		}
	}
	delete(tried, "good")
	for name, n := range tried {
		if n != 3 {
			t.Errorf("%s was tried %d times, want 3", name, n)
		}
	}
}

// A host that takes all it can from its own bucket never gets more than that
// bucket allows, whether other hosts answer or not, and when its rounds are
// late.
func TestOneHostNeverAdmitsMoreThanItsBucket(t *testing.T) {
	for _, silent := range []int{0, 600} {
		for _, late := range []time.Duration{0, 3 * time.Second, 5 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				const limit, burst = 100, 1000
				rule := ruled(limit, burst)
				meshes := make(map[string]*Mesh)
				for _, name := range []string{"a", "b"} {
					meshes[name] = New(name, always(rule), Config{})
					meshes[name].SetPeers(with(silent, "a", "b"))
				}
				peers := peersFunc(func(ctx context.Context, to, from string, payload *anypb.Any) (*anypb.Any, error) {
					if m := meshes[to]; m != nil {
						return m.Update(ctx, from, payload)
					}
					<-ctx.Done()
					return nil, ctx.Err()
				})
				ctx, cancel := context.WithCancel(t.Context())
				var loops sync.WaitGroup
				loops.Go(func() { meshes["b"].Run(ctx, peers) })
				loops.Go(func() {
					if late == 0 {
						meshes["a"].Run(ctx, peers)
					}
					for late > 0 && ctx.Err() == nil {
						time.Sleep(late)
						meshes["a"].send(ctx, peers, &loops)
					}
				})
				time.Sleep(10 * time.Second)
				began, got := time.Now(), 0
				for range 600 {
					time.Sleep(100 * time.Millisecond)
					take := stage.Operation{Key: "k", Rule: rule, N: 1}
					if _, err := meshes["b"].Do(ctx, take); err != nil {
						t.Fatal(err)
					}
					for o, _ := meshes["a"].Do(ctx, take); o.OK; o, _ = meshes["a"].Do(ctx, take) {
						got++
					}
				}
				cancel()
				loops.Wait()
				if most := burst + limit*time.Since(began).Seconds(); float64(got) > most {
					t.Errorf("with %d silent hosts and rounds of %v it admits %d, and its bucket %v", silent, late, got, most)
				}
			})
		}
	}
}

// The first use of a key belongs to the round that is under way when it is put
// in line. If an earlier round were sent, other hosts would not charge it.
func TestAFirstUseWhileARoundEndsIsCharged(t *testing.T) {
	rule := ruled(1, 100)
	m := New("a", always(rule), Config{})
	take := stage.Operation{Key: "k", Rule: rule}
	if _, err := m.DoAt(0, take); err != nil { // the entry, without a use
		t.Fatal(err)
	}
	s := m.shard("k")
	s.mu.RLock()
	var use sync.WaitGroup
	take.N = 1
	use.Go(func() { _, _ = m.DoAt(0, take) })
	for s.mu.TryRLock() { // until the use waits for the shard
		s.mu.RUnlock()
		runtime.Gosched()
	}
	ended := m.round.Add(1) - 1 // the round ends, and RoundAt collected the shard
	s.mu.RUnlock()
	use.Wait()
	if rows := m.changed(0, ended); len(rows) > 0 {
		t.Errorf("%+v is sent in the round before", rows)
	}
	if rows := m.changed(0, ended+1); len(rows) != 1 || rows[0].Born <= ended {
		t.Errorf("%+v: what hosts received up to round %d does not cover it", rows, ended)
	}
}

func TestARefundGivesBackWhatWasCharged(t *testing.T) {
	rule := ruled(0, 100)
	rule.MaxDebt, rule.MaxCost = time.Second, 1000
	p := newPair(t, rule)
	check := func(what string, a, b float64) {
		t.Helper()
		p.send(p.a, p.b, "arrive")
		if gotA, gotB := p.left(p.a), p.left(p.b); gotA != a || gotB != b {
			t.Errorf("%s: %v and %v left, want %v and %v", what, gotA, gotB, a, b)
		}
	}
	p.do(p.a, stage.TakeTokens, 1)
	check("a take", 99, 99)
	p.do(p.a, stage.ChargeTokens, 1000)
	check("an upload with an estimate", -901, -200) // as deep as two bursts
	p.do(p.a, stage.ReturnTokens, 500)
	check("half of it did not happen", -401, -200) // 701 were not charged
	p.do(p.a, stage.ReturnTokens, 250)
	check("nor this", -151, -151)
	p.do(p.a, stage.ReturnTokens, 100)
	check("and this", -51, -51)
	p.do(p.a, stage.ChargeTokens, 249)
	check("another", -300, -200)
	p.do(p.b, stage.ReturnTokens, 150)
	p.send(p.b, p.a, "arrive")
	p.do(p.a, stage.ChargeTokens, 60)
	check("one that is charged", -360, -110)
	p.do(p.a, stage.ReturnTokens, 50)
	check("is given back first", -310, -60)
}

func TestAHostThatLeavesSendsItsLastInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, ruled(0.001, 100), "a", "b", "c")
		defer c.stopAll()
		after(3)
		got, leaving := c.take("a", 60), c.hosts["a"]
		leaving.cancel()
		leaving.Leave(t.Context(), c.network.Host("a").Peers())
		c.stop("a")
		for _, name := range []string{"b", "c"} {
			if left := c.left(name); math.Abs(left-float64(100-got)) > 0.1 {
				t.Errorf("%s has %v left; %d were used", name, left, got)
			}
		}
	})
}

// Hosts that do not answer delay a host that leaves for an interval, or until
// its context ends.
func TestLeaveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New("a", always(ruled(1, 1)), Config{})
		a.SetPeers(with(300, "a"))
		silent := peersFunc(func(ctx context.Context, _, _ string, _ *anypb.Any) (*anypb.Any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		began := time.Now()
		a.Leave(t.Context(), silent)
		if took := time.Since(began); took > DefaultInterval {
			t.Errorf("it took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		began = time.Now()
		a.Leave(ctx, silent)
		if took := time.Since(began); took > time.Millisecond {
			t.Errorf("it took %v with less time", took)
		}
	})
}

// Each start admits a burst, and the limit for two intervals, at most: that is
// the bound of the package's documentation.
func TestRestartsAdmitABurstEach(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const limit, burst, restarts = 1, 100, 9
			c := newCluster(t, ruled(limit, burst), "a", "b", "c")
			defer c.stopAll()
			began, total := time.Now(), 0
			use := func() { // all hosts take what they can
				for range 30 {
					for _, name := range c.names {
						total += c.take(name, burst)
					}
					time.Sleep(DefaultInterval / 10)
				}
			}
			after(3)
			total += c.take("a", burst)
			after(3)
			for i := range restarts {
				name := c.names[i%3]
				if leaves {
					c.hosts[name].cancel()
					c.hosts[name].Leave(t.Context(), c.network.Host(name).Peers())
				}
				c.start(name)
				use()
			}
			each := burst + limit*(2*DefaultInterval).Seconds()
			if most := burst + limit*time.Since(began).Seconds() + restarts*each; float64(total) > most {
				t.Errorf("with %d restarts, %d were admitted; at most %v may be", restarts, total, most)
			}
			want := total // all of it is paid back before anybody gets more
			use()
			if slices.Max([]float64{c.left("a"), c.left("b"), c.left("c")}) > 0 || total != want {
				t.Errorf("%d more were admitted while the buckets should be in debt", total-want)
			}
		})
	}
}

// A host that claims to restart with each message leaves no count behind.
func TestAHostThatRestartsForEverTakesNoMemory(t *testing.T) {
	m := New("a", always(ruled(1, 100)), Config{})
	for i := range uint64(1000) {
		row := meshusage.Used{Key: fmt.Sprint("k", i%2), Born: 1, Tokens: 1}
		if err := m.ReceiveAt(0, "b", &meshusage.Report{From: i + 1, Version: 1, Rows: []meshusage.Used{row}}); err != nil {
			t.Fatal(err)
		}
	}
	s := m.shard("k0")
	s.mu.RLock()
	defer s.mu.RUnlock()
	if n := len(s.entries["k0"].others); n > 2 {
		t.Errorf("%d counts of one host", n)
	}
}

// A host that says that a key has an absurd debt closes it for no longer than the hosts
// together could.
func TestAnAbsurdDebtIsBounded(t *testing.T) {
	const second = stage.Instant(time.Second)
	rule := ruled(10, 10)
	m := New("a", always(rule), Config{})
	m.SetPeers([]string{"a", "b"})
	m.StartAt(0)
	if err := m.ReceiveAt(second, "b", &meshusage.Report{From: 7, Version: 1, Rows: []meshusage.Used{{Key: "k", Left: -3e38}}}); err != nil {
		t.Fatal(err)
	}
	take := func(now stage.Instant) bool {
		o, err := m.DoAt(now, stage.Operation{Key: "k", Rule: rule, N: 1})
		return err == nil && o.OK
	}
	if take(2*second) || !take(60*second) {
		t.Error("the debt is forgotten at once, or not paid back within a minute")
	}
}
