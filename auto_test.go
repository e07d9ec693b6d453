// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/rule"
	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/exact"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
	"github.com/headgate/headgate/shadow"
)

// autoCluster is hosts on a network in memory with one key under auto, of which
// one host is the owner.
type autoCluster struct {
	network *rpctest.Network
	owner   placement
	names   []string
	started int // how many hosts there have been
	hosts   []*autoMember
	loops   sync.WaitGroup
	began   time.Time

	mu       sync.Mutex // protects following fields
	limit    float64
	allowed  float64   // by the limits, until at
	at       time.Time // of the last change
	admitted float64
	level    float64 // of one bucket that is asked for what was admitted
	worst    float64 // lowest level
	burst    float64
	seen     time.Time
}

// walked is a *testing.T or a *rapid.T.
type walked interface {
	Helper()
	Context() context.Context
	Fatal(args ...any)
}

type autoMember struct {
	aggregator *aggregator.Aggregator
	group      *limiter.Group
	taker      *ask.Taker
	fanout     *usage.Fanout
	stop       context.CancelFunc
}

const autoBurst = 60

func autoLimits(t *testing.T, limit float64) *dynamicconfig.Snapshot {
	t.Helper()
	s, err := dynamicconfig.Parse("limits.yaml", fmt.Appendf(nil, "limits:\n  - {key: k, limit: %g/s, burst: %d, algorithm: auto, fallback: closed}\n", limit, autoBurst))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// migratesToAuto is a rule of key k that migrates to auto from another algorithm.
func migratesToAuto(t *testing.T, other string, limit float64, mode string) *dynamicconfig.Snapshot {
	t.Helper()
	s, err := dynamicconfig.Parse("limits.yaml", fmt.Appendf(nil, "limits:\n  - {key: k, limit: %g/s, burst: %d, fallback: closed, migrate: {from: %s, to: auto, mode: %s}}\n", limit, autoBurst, other, mode))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newAutoCluster(t *testing.T, n int, limit float64) *autoCluster {
	t.Helper()
	return autoClusterOf(t, n, limit, autoLimits(t, limit))
}

func autoClusterOf(t walked, n int, limit float64, snapshot *dynamicconfig.Snapshot, options ...limiter.Option) *autoCluster {
	t.Helper()
	c := &autoCluster{network: rpctest.New(1), began: time.Now(), at: time.Now(), seen: time.Now(), limit: limit, level: autoBurst, burst: autoBurst}
	for range n {
		c.start(t, n, snapshot, options...)
	}
	c.owner.Store(&c.names[0])
	return c
}

// start starts one host more, of a cluster that is to have n.
func (c *autoCluster) start(t walked, n int, snapshot *dynamicconfig.Snapshot, options ...limiter.Option) {
	t.Helper()
	name := fmt.Sprint("host", c.started)
	c.started++
	a := aggregator.New(algorithm.Builtin(), snapshot)
	c.network.Host(name).Serve(a)
	for _, other := range c.names {
		c.network.SetFaults(name, other, rpctest.Faults{Delay: 200 * time.Microsecond})
		c.network.SetFaults(other, name, rpctest.Faults{Delay: 200 * time.Microsecond})
	}
	peers := c.network.Host(name).Peers()
	taker := &ask.Taker{Host: name, Placement: &c.owner, Peers: peers, Self: name, Local: a}
	group := limiter.NewGroup(snapshot, n, append([]limiter.Option{
		limiter.WithRemote(algorithm.NameAuto, exact.NewAuto(taker)), limiter.WithRemote(algorithm.NameExact, exact.New(taker)),
		limiter.WithMigration(shadow.Migrator()),
	}, options...)...)
	fanout := &usage.Fanout{Host: name, Placement: &c.owner, Self: name, Local: a, Peers: peers}
	running, stop := context.WithCancel(t.Context())
	c.names, c.hosts = append(c.names, name), append(c.hosts, &autoMember{a, group, taker, fanout, stop})
	c.loops.Go(func() { a.Run(running) })
	c.loops.Go(func() { group.Run(running, fanout) })
}

// use asks for n events of k, at the first so many hosts in turn, and returns how many were allowed.
func (c *autoCluster) use(n, hosts int, apart time.Duration) (allowed int) {
	for i := range n {
		if c.hosts[i%hosts].group.For("k").Allow() {
			allowed++
		}
		time.Sleep(apart)
	}
	return allowed
}

func (c *autoCluster) close() {
	for _, h := range c.hosts {
		h.stop()
		h.taker.Close() // else a call that withdraws may outlive the bubble
	}
	c.loops.Wait()
}

// inBubble runs f on virtual time, when Instants are no longer negative.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(stage.Now().Sub(0).Abs())
		f(t)
	})
}

// admit counts an event that is let through now.
func (c *autoCluster) admit(n float64) {
	c.mu.Lock()
	defer c.mu.Unlock()

	now := time.Now()
	c.level = math.Min(c.level+c.limit*now.Sub(c.seen).Seconds(), c.burst) - n
	c.worst, c.seen = math.Min(c.worst, c.level), now
	c.admitted += n
}

// change has all hosts follow another limit, at once.
func (c *autoCluster) change(t *testing.T, limit float64) {
	t.Helper()
	c.admit(0)
	c.mu.Lock()
	now := time.Now()
	c.allowed, c.at, c.limit = c.allowed+c.limit*now.Sub(c.at).Seconds(), now, limit
	c.mu.Unlock()
	c.configure(t, autoLimits(t, limit))
}

func (c *autoCluster) configure(t walked, snapshot *dynamicconfig.Snapshot) {
	t.Helper()
	for _, h := range c.hosts {
		if err := h.aggregator.Configure(snapshot); err != nil {
			t.Fatal(err)
		}
		h.group.Configure(snapshot)
	}
}

// crash ends the owner, with all that it knew. The others find out later.
func (c *autoCluster) crash() {
	c.network.Host(c.names[0]).Serve(nil)
	c.hosts[0].stop()
	c.names, c.hosts = c.names[1:], c.hosts[1:]
}

// found has the others know who owns the key now.
func (c *autoCluster) found() {
	c.owner.Store(&c.names[0])
	for _, h := range c.hosts {
		h.aggregator.Moved(aggregator.Now())
		h.group.SetHosts(len(c.hosts))
		h.group.Introduce()
	}
}

// ask has four callers at each host ask about rate times a second each, for d.
func (c *autoCluster) ask(rate float64, d time.Duration) {
	c.askAt(d, func(int) float64 { return rate })
}

// askAt is ask where callers at host i ask rate(i) times a second.
func (c *autoCluster) askAt(d time.Duration, rate func(i int) float64) {
	end := time.Now().Add(d)
	var callers sync.WaitGroup
	for i, h := range c.hosts {
		rate := rate(i)
		for caller := range 4 {
			callers.Go(func() {
				chance := rand.New(rand.NewPCG(uint64(i), uint64(caller)))
				key := h.group.For("k")
				for {
					time.Sleep(min(time.Duration(chance.ExpFloat64()/rate*1e9), time.Until(end)))
					if !time.Now().Before(end) {
						return
					}
					if key.Allow() {
						c.admit(1)
					}
				}
			})
		}
	}
	callers.Wait()
}

// balance is how many more were admitted than the limits allow and a burst.
func (c *autoCluster) balance() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.admitted - c.allowed - c.limit*time.Since(c.at).Seconds() - autoBurst
}

// Six hosts want far more than the limit, of which each has less than an event per
// second, then many, and then few again. While they have few it is exact, and no change
// gives anybody a second burst.
func TestAutoFollowsTheLimitOverACluster(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const hosts, low, high = 6, 3, 300
		c := newAutoCluster(t, hosts, low)
		defer c.close()
		c.ask(20, 30*time.Second)
		t.Logf("at %d/s: %+.2f beside limit·t + burst", low, c.balance())
		if got := c.balance(); got > 1e-6 || got < -3 {
			t.Errorf("while the limit is low: %+.3f beside limit·t + burst", got)
		}
		for round := range 2 {
			c.change(t, high)
			c.ask(100, 24*time.Second)
			t.Logf("at %d/s: %+.2f beside limit·t + burst, at worst %.2f", high, c.balance(), -c.worst)
			before := c.balance()
			c.change(t, low)
			c.ask(20, 34*time.Second)
			t.Logf("at %d/s: %+.2f beside limit·t + burst, at worst %.2f", low, c.balance(), -c.worst)
			if before < -0.5*high || c.balance() < -0.5*high {
				t.Errorf("round %d: %v and %v beside limit·t + burst", round, before, c.balance())
			}
		}
		if c.worst < -autoBurst/3 {
			t.Errorf("at worst %v more than limit·t + burst", -c.worst)
		}
	})
}

// After a quiet time, a host alone waits for no event as long as its old rate would have it:
// at one event per second, that is a second. An ask that reaches the owner just after a report
// has granted a rate waits for what that rate leaves of the limit, which is a sixth: two tokens
// of that take 0.12 s.
func TestAWaitAfterAQuietTimeIsNotScheduledAtAnOldRate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const limit = 100
		c := newAutoCluster(t, 2, limit) // of which one is only the owner
		defer c.close()
		key := c.hosts[1].group.For("k")
		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(time.Minute, cancel).Stop() // a deadline would have it refused, and not scheduled
		for range 30 {
			key.Allow()
			time.Sleep(time.Second)
		}
		longest, began := time.Duration(0), time.Now()
		const events = 3 * limit
		for range events {
			before := time.Now()
			if err := key.Wait(ctx); err != nil {
				t.Error(err)
				break
			}
			longest = max(longest, time.Since(before))
		}
		t.Logf("%d events in %v, the longest wait is %v", events, time.Since(began), longest)
		if longest > 200*time.Millisecond {
			t.Errorf("it waited for %v", longest)
		}
	})
}

// The owner dies while it decides itself, while hosts hold rates, and between.
// Each time that costs a burst at most.
func TestACrashOfAutosOwnerCostsAtMostABurst(t *testing.T) {
	for _, row := range []struct {
		name          string
		before, after float64 // limits; the change comes just before the crash
		rate          float64
	}{
		{"few events per host", 3, 3, 20},
		{"many", 300, 300, 100},
		{"suddenly few", 300, 3, 100},
		{"suddenly many", 3, 300, 100},
	} {
		if row.name == "many" && !testrun.Long() || row.name == "suddenly many" && testing.Short() {
			continue
		}
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := newAutoCluster(t, 8, row.before)
				defer c.close()
				c.ask(row.rate, 20*time.Second)
				if row.after != row.before {
					c.change(t, row.after)
					c.ask(row.rate, 200*time.Millisecond)
				}
				before := c.balance()
				c.crash()
				c.ask(row.rate, time.Second)
				c.found()
				c.ask(row.rate, 30*time.Second)
				t.Logf("%+.2f beside limit·t + burst before, and %+.2f after; at worst %.2f", before, c.balance(), -c.worst)
				if c.worst < -autoBurst {
					t.Errorf("at worst %.2f more than limit·t + burst", -c.worst)
				}
				if lost := before - c.balance(); lost > 2*row.after+autoBurst {
					t.Errorf("%.2f are lost", lost)
				}
			})
		})
	}
}

// An owner that hangs holds up a few decisions for the ask_timeout each. All others about
// its keys are made at once, whether the host has a grant of the key or not.
func TestAutoWaitsForAFewDecisionsOfAnOwnerThatHangs(t *testing.T) {
	const keys, misses = 40, 3
	for _, granted := range []bool{false, true} {
		t.Run(fmt.Sprint("granted=", granted), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				snapshot, err := dynamicconfig.Parse("limits.yaml", []byte("limits:\n  - {key: 'k*', limit: 1/s, burst: 2, algorithm: auto}\n"))
				if err != nil {
					t.Fatal(err)
				}
				c := autoClusterOf(t, 2, 1, snapshot)
				defer c.close()
				decide := func(i int) (d limiter.Decision, took time.Duration) {
					began := time.Now()
					d = c.hosts[1].group.For(fmt.Sprint("k", i)).Decide(t.Context(), 1, 0)
					return d, time.Since(began)
				}
				if granted {
					for i := range keys {
						for range 3 { // more than there is
							decide(i)
						}
					}
					time.Sleep(6 * time.Second)
				}
				c.network.Partition(c.names[:1], c.names[1:])
				for i := range keys {
					for n := range 3 {
						d, took := decide(i)
						asked := took > 0
						if took > rule.DefaultAskTimeout {
							t.Errorf("decision %d of key %d took %v", n, i, took)
						}
						if i >= misses && asked {
							t.Errorf("decision %d of key %d, %+v, waited for %v", n, i, d, took)
						}
					}
				}
				time.Sleep(time.Second)
				waited := 0
				for i := range keys {
					if _, took := decide(i); took > 0 {
						waited++
					}
				}
				if waited > 1 {
					t.Errorf("a second later %d decisions of %d waited", waited, keys)
				}
			})
		})
	}
}

// A key goes from one algorithm to auto and back, through all modes. Nobody
// gets a second burst, and the key is not held back for long.
func TestAutoMigratesThroughAllModes(t *testing.T) {
	for _, row := range []struct {
		other string
		limit float64
		rate  float64
		lost  float64 // at most
	}{{"exact", 3, 20, 10}, {"elastic", 300, 100, 2 * autoBurst}, {"exact", 300, 100, 2 * autoBurst}} {
		if !testrun.Long() && row.limit > 10 && row.other == "exact" {
			continue
		}
		t.Run(fmt.Sprint(row.other, " ", row.limit), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				limits := func(mode string) *dynamicconfig.Snapshot { return migratesToAuto(t, row.other, row.limit, mode) }
				c := autoClusterOf(t, 6, row.limit, limits("old"))
				defer c.close()
				c.ask(row.rate, 10*time.Second)
				before := c.balance()
				for _, mode := range []string{"old-shadow-new", "new-shadow-old", "new", "new-shadow-old", "old-shadow-new", "old"} {
					c.configure(t, limits(mode))
					c.ask(row.rate, 10*time.Second)
				}
				t.Logf("%+.2f beside limit·t + burst before, and %+.2f after; at worst %.2f", before, c.balance(), -c.worst)
				if c.worst < -autoBurst {
					t.Errorf("at worst %.2f more than limit·t + burst", -c.worst)
				}
				if lost := before - c.balance(); lost > row.lost {
					t.Errorf("%.2f are lost", lost)
				}
			})
		})
	}
}

// One host of six has most events of a key, whose owner keeps a bucket for each side of its migration. The side that was
// measured lacks about as much as the one that answered: a change of the mode costs a token for each host, which is what
// rounding up the charges of all hosts takes.
func TestAMigrationHoldsNoKeyBackThatOneHostUses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const hosts, limit = 6, 3
		use := func(c *autoCluster) {
			c.askAt(20*time.Second, func(i int) float64 {
				if i == 1 {
					return 20
				}
				return 0.5
			})
		}
		c := autoClusterOf(t, hosts, limit, migratesToAuto(t, "exact", limit, "old"))
		defer c.close()
		use(c)
		for _, mode := range []string{"new", "new-shadow-old", "old-shadow-new", "new-shadow-old", "old-shadow-new", "new-shadow-old"} {
			before := c.balance()
			c.configure(t, migratesToAuto(t, "exact", limit, mode))
			use(c)
			lost := before - c.balance()
			t.Logf("%s: %.2f lost, at worst %.2f", mode, lost, -c.worst)
			if lost > hosts {
				t.Errorf("%s: %.2f are lost", mode, lost)
			}
		}
	})
}
