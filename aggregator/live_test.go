// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/internal/account/pool"
	"github.com/headgate/headgate/aggregator/internal/owned"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/usage"
)

// crowd is hosts that report about one key, one after another, and keep what they
// are granted.
type crowd struct {
	a      *Aggregator
	limit  float64
	wants  []float64 // events/s, by host
	names  []string  // of the algorithm, by host; "" is elastic
	weight []float64
	last   []time.Duration
	until  []time.Duration // end of the lease
	now    time.Duration
}

func newCrowd(a *Aggregator, limit float64, wants ...float64) *crowd {
	n := len(wants)
	return &crowd{
		a: a, limit: limit, wants: wants, names: make([]string, n),
		weight: make([]float64, n), last: make([]time.Duration, n), until: make([]time.Duration, n),
	}
}

// round has each host report once in the time that every is.
func (c *crowd) round(t *testing.T, every time.Duration) {
	t.Helper()
	for h, wants := range c.wants {
		c.now += every / time.Duration(len(c.wants))
		elapsed := max(c.now-c.last[h], time.Millisecond)
		c.last[h] = c.now
		if c.now >= c.until[h] {
			c.weight[h] = 0
		}
		used := min(c.weight[h]*c.limit, wants) * elapsed.Seconds()
		u := reportOf(c.named(h), int64(used), int64(wants*elapsed.Seconds()-used), elapsed, "k")
		u.Weight[0] = c.weight[h]
		if g := step(t, c.a, c.now, fmt.Sprint("host", h), u); g.Lease[0] > 0 {
			c.weight[h], c.until[h] = g.Weight[0], c.now+g.Lease[0]
		}
	}
}

func (c *crowd) named(h int) string {
	if c.names[h] == "" {
		return algorithm.NameElastic
	}
	return c.names[h]
}

func (c *crowd) sum() (sum float64) {
	for _, w := range c.weight {
		sum += w
	}
	return sum
}

// Hosts report as often as the interval in force says, and none is taken for dead
// when that changes.
func TestAnIntervalThatChangesLiveLendsNothingTwice(t *testing.T) {
	for _, name := range []string{algorithm.NameElastic, algorithm.NameAuto} {
		rule := dynamicconfig.Rule{Key: "*", Limit: 100, Burst: 100, Algorithm: name}
		for _, from := range []time.Duration{s, 3 * s, 20 * s} {
			for _, to := range []time.Duration{s, 3 * s, 5 * s, 6 * s, 10 * s, 20 * s} {
				interval := func(d time.Duration) *dynamicconfig.Snapshot {
					return snapshot(t, dynamicconfig.Properties{UpdateInterval: d, GCAfter: 10 * d}, rule)
				}
				a := New(algorithm.Builtin(), interval(from))
				c := newCrowd(a, 100, 100, 100, 100, 100, 100)
				for h := range c.names {
					c.names[h] = name
				}
				for range 20 {
					c.round(t, from)
				}
				a.Core.Configure(c.now, interval(to))
				c.round(t, from) // before they have heard of it
				for range 20 {
					c.round(t, to)
					if sum := c.sum(); sum > 1.03 || sum < 0.8 && name != "auto" {
						t.Fatalf("%s, %v to %v: weights sum to %.2f: %.2f", name, from, to, sum, c.weight)
					}
				}
			}
		}
	}
}

// A change of the interval comes with parameters that cannot be used: the key goes on with
// its parameters, and its hosts report as often as the new interval says.
func TestAnIntervalChangesBesideBadParameters(t *testing.T) {
	interval := func(d time.Duration, overcommit string) *dynamicconfig.Snapshot {
		return snapshot(t, dynamicconfig.Properties{UpdateInterval: d, GCAfter: 10 * d},
			dynamicconfig.Rule{Key: "*", Limit: 100, Algorithm: algorithm.NameElastic, Parameters: map[string]string{"overcommit": overcommit}})
	}
	a := New(algorithm.Builtin(), interval(s, "0.1"))
	c := newCrowd(a, 100, 100, 100, 100, 100, 100)
	for range 20 {
		c.round(t, s)
	}
	a.Core.Configure(c.now, interval(20*s, "banana"))
	c.round(t, s)
	for range 10 {
		c.round(t, 20*s)
		if sum := c.sum(); sum > 1.03 || sum < 0.8 {
			t.Errorf("weights sum to %.2f: %.2f", sum, c.weight)
		}
	}
}

// One report of a demand beyond reason is over when its host is forgotten.
func TestADemandBeyondReasonIsForgotten(t *testing.T) {
	for _, name := range []string{algorithm.NameElastic, algorithm.NameAuto, algorithm.NameRequestWeighted} {
		for _, wants := range []float64{1 << 53, 1e18, 3e38, 1e300} {
			a := New(algorithm.Builtin(), snapshot(t, dynamicconfig.Properties{}, dynamicconfig.Rule{Key: "*", Limit: 600, Algorithm: name}))
			c := newCrowd(a, 600, 900, 250, 50)
			c.names = []string{name, name, name}
			for range 20 {
				c.round(t, 3*s)
			}
			before := slices.Clone(c.weight)
			u := reportOf(name, 0, rpc.MaxCount, s, "k")
			if name != algorithm.NameRequestWeighted {
				u.Rejected[0], u.Wants = 0, []float64{wants}
			}
			var heard usage.Report // over the wire
			if err := (usage.Columnar{}).DecodeReport(encode(t, u), &heard); err != nil {
				t.Fatal(err)
			}
			step(t, a, c.now, "hostile", &heard)
			for range 20 {
				c.round(t, 3*s)
			}
			for h, w := range c.weight {
				if w < before[h]*0.97-0.01 || w > before[h]*1.03+0.01 {
					t.Errorf("%s, after %g: weights %.3f, before %.3f", name, wants, c.weight, before)
					break
				}
			}
		}
	}
}

// A rule with a parent goes, while its hosts report and the cluster above answers.
func TestAParentThatVanishesLive(t *testing.T) {
	for _, name := range []string{"elastic", "request-weighted", "auto", "fair-share"} {
		a := below(t, dynamicconfig.Rule{Algorithm: name})
		report := func(at time.Duration) *usage.Grants { return step(t, a, at, "h", reportOf(name, 30, 0, s, "k")) }
		rules := func(now time.Duration, rule dynamicconfig.Rule) {
			t.Helper()
			a.Core.Configure(now, snapshot(t, dynamicconfig.Properties{}, rule))
		}
		child, gone := terms(dynamicconfig.Rule{Algorithm: name, Limit: 1000, Parent: true}), dynamicconfig.Rule{Key: "other", Limit: 1}
		alone := child
		alone.Parent = false
		report(0)
		asked := a.Parent().Ask(0, "region")
		rules(0, gone)
		report(s)
		a.Parent().Hear(s, asked, &claims.Leases{Rows: []claims.Lease{lease(100)}}, nil) // the answer comes late
		if asked := a.Parent().Ask(2*s, "region"); asked != nil {
			t.Errorf("%s: there is no rule, and it asks for %+v", name, asked)
		}
		a.GC(3 * s)
		rules(3*s, child)
		report(4 * s)
		a.GC(4 * s)
		report(4 * s)
		answered(t, a, 5*s, lease(100))
		rules(5*s, alone)
		report(6 * s)
		if asked := a.Parent().Ask(20*s, "region"); asked != nil {
			t.Errorf("%s: the rule has no parent, and it asks for %+v", name, asked)
		}
		// As often as you like, without a trace.
		for i := range 10 {
			at := time.Duration(20+3*i) * s
			rules(at, child)
			report(at) // from now on it asks
			if asked := a.Parent().Ask(at+s, "region"); asked == nil || len(asked.Rows) != 1 {
				t.Fatalf("%s: round %d asks %+v, want one claim", name, i, asked)
			}
			rules(at+s, alone)
			report(at + 2*s)
		}
	}
}

// claiming is somebody's Claiming.
type claiming func(ctx context.Context) (*claims.Leases, []error)

func (c claiming) Claim(ctx context.Context, asked *claims.Claims) (*claims.Leases, []error) {
	defer func() { asked.Rows = nil }() // as one does that takes out what it has answered
	return c(ctx)
}

// The client's Run goes on whatever the way to the cluster above does: a call that panics,
// ends its goroutine or hangs is no answer.
func TestRunOutlivesItsParent(t *testing.T) {
	for name, bad := range map[string]claiming{
		"panics":             func(context.Context) (*claims.Leases, []error) { panic("a bug in Claim") },
		"ends its goroutine": func(context.Context) (*claims.Leases, []error) { runtime.Goexit(); return nil, nil },
		"hangs": func(ctx context.Context) (*claims.Leases, []error) {
			<-ctx.Done()
			return nil, []error{ctx.Err()}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := below(t, dynamicconfig.Rule{Algorithm: "elastic"})
			if _, err := a.Update(t.Context(), "h", encode(t, reportOf("elastic", 1, 0, s, "k"))); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			calls, good := 0, false
			var wg sync.WaitGroup
			wg.Go(func() {
				a.Parent().Run(ctx, "region", claiming(func(ctx context.Context) (*claims.Leases, []error) {
					if calls++; calls <= 2 {
						return bad(ctx)
					}
					good = true
					return &claims.Leases{Rows: []claims.Lease{lease(100)}}, nil
				}))
			})
			time.Sleep(time.Minute)
			synctest.Wait()
			if cancel(); !good {
				t.Errorf("%s: nothing was asked after call %d", name, calls)
			}
			wg.Wait()
		})
	}
}

// A call to the cluster above that ignores its context is logged once, there is no other meanwhile,
// and Run ends with its own context.
func TestACallAboveThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(bytes.Buffer)
		a := below(t, dynamicconfig.Rule{Algorithm: "elastic"}, WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		if _, err := a.Update(t.Context(), "h", encode(t, reportOf("elastic", 1, 0, s, "k"))); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		calls, returns := 0, make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			a.Parent().Run(ctx, "region", claiming(func(context.Context) (*claims.Leases, []error) {
				calls++
				<-returns
				return &claims.Leases{Rows: []claims.Lease{lease(100)}}, nil
			}))
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if lines := strings.Count(log.String(), "\n"); calls != 1 || lines != 1 || !strings.Contains(log.String(), "does not return") {
			t.Errorf("%d calls at once, and %d lines in the log: %s", calls, lines, log)
		}
		returns <- struct{}{} // late
		time.Sleep(time.Minute)
		synctest.Wait()
		if calls != 2 {
			t.Errorf("after the first call has returned there were %d, want 2", calls)
		}
		cancel()
		wg.Wait()
		close(returns)
	})
}

// With parameters that cannot be used, a key has no grants, or goes on as it was.
// When they are mended it is limited as they say.
func TestBadParametersAreMended(t *testing.T) {
	rule := func(name, key, value string) *dynamicconfig.Snapshot {
		return snapshot(t, dynamicconfig.Properties{}, dynamicconfig.Rule{Key: "*", Limit: 100, Algorithm: name, Parameters: map[string]string{key: value}})
	}
	for name, p := range map[string][3]string{
		"elastic": {"overcommit", "banana", "0.1"},
		"tuned":   {"overcommit", "banana", "0.1"},
	} {
		registry := algorithm.Builtin()
		if err := registry.Register("tuned", algorithm.RequestWeighted); err != nil {
			t.Fatal(err)
		}
		a := New(registry, rule(name, p[0], p[1]))
		c := newCrowd(a, 100, 100, 100, 100, 100, 100)
		for h := range c.names {
			c.names[h] = name
		}
		put := func(value string) {
			t.Helper()
			a.Core.Configure(c.now, rule(name, p[0], value))
			for range 20 {
				c.round(t, 3*s)
			}
		}
		for range 5 {
			c.round(t, 3*s)
		}
		if sum := c.sum(); sum != 0 {
			t.Errorf("%s: of parameters that cannot be used, weights sum to %v", name, sum)
		}
		for range 2 {
			if put(p[2]); c.sum() > 1.03 || c.sum() < 0.9 {
				t.Errorf("%s: mended, weights sum to %v", name, c.sum())
			}
			if put(p[1]); c.sum() > 1.03 {
				t.Errorf("%s: bad again, weights sum to %v", name, c.sum())
			}
		}
	}
}

// A host that names another algorithm than the rule does keeps what it has until
// its lease ends, and all together get the limit once.
func TestOneKeyIsLimitedOnceUnderManyNames(t *testing.T) {
	all := []string{"elastic", "request-weighted", "auto", "fair-share", "proportional-share", "drop-ratio"}
	for _, name := range []string{"elastic", "request-weighted", "auto", "fair-share"} {
		a := New(algorithm.Builtin(), snapshot(t, dynamicconfig.Properties{}, every(name)))
		c := newCrowd(a, 100, 90, 90, 90, 90, 90, 90)
		c.names = all
		for range 30 {
			c.round(t, 3*s)
			if sum := c.sum(); sum > 1.03 {
				t.Errorf("the rule names %s: weights %.2f sum to %.2f", name, c.weight, sum)
			}
		}
		if h := slices.Index(all, name); c.weight[h] == 0 {
			t.Errorf("who names %s as the rule does has nothing", name)
		}
	}
}

// Hosts whose rules name another algorithm, or one that the owner does not have, as hosts of the
// next release may, go on with their fallbacks. The owner leaves them that much.
func TestWhatHostsUseUnderAnotherNameIsNotForOthers(t *testing.T) {
	others := map[string]string{"elastic": "fair-share", "request-weighted": "fair-share", "drop-ratio": "auto", "auto": "fair-share", "fair-share": "elastic", "pool/fair-share": "auto"}
	for name, other := range others {
		for _, named := range []string{other, "pool/mine"} {
			var log bytes.Buffer
			a := New(algorithm.Builtin(), snapshot(t, dynamicconfig.Properties{}, every(name)), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			c := newCrowd(a, 100, 900)
			c.names[0] = name
			most := 0.36
			if name == "drop-ratio" { // whose weight is of what it wants
				most /= 9
			}
			for i := range 40 {
				for _, host := range []string{"other1", "other2"} {
					if g := step(t, a, c.now, host, reportOf(named, 99, 171, 3*s, "k")); g.Lease[0] != 0 {
						t.Fatalf("%s: a grant of %+v", name, g)
					}
				}
				if c.round(t, 3*s); i > 10 && !(c.sum() <= most && c.sum() > most/2) {
					t.Errorf("the rule names %s: beside two hosts that name %s and use a third each, one has %.2f", name, named, c.sum())
					break
				}
			}
			for _, k := range a.Look(c.now, "k") {
				for _, host := range k.Hosts { // what a host is not told of is not granted
					if host.Name != "host0" && k.Pooled && (host.Weight > 0.33 || host.Lent != 0) {
						t.Errorf("the rule names %s: a host that names %s holds %+v", name, named, host)
					}
				}
			}
			for sh := range a.keys.Table.All {
				for b := range sh.Maps {
					if b.Algorithm() == "pool/mine" {
						t.Error("a name that hosts choose is kept")
					}
				}
			}
			if said := log.String(); named == "pool/mine" && (strings.Count(said, "\n") > 20 || !strings.Contains(said, "no weigher") || !strings.Contains(said, "request-weighted")) {
				t.Errorf("the log says\n%s", said)
			}
		}
	}
}

// Hosts whose fallbacks let much more than the limit pass hold no more than the limit, and leave no
// debt that outlasts them.
func TestHostsThatUseMoreThanTheLimitElsewhereLeaveNoLastingDebt(t *testing.T) {
	for _, name := range []string{"elastic", "auto", "exact", "request-weighted"} {
		a := New(algorithm.Builtin(), snapshot(t, dynamicconfig.Properties{}, dynamicconfig.Rule{Key: "*", Limit: 100, Burst: 100, Algorithm: name}))
		c := newCrowd(a, 100, 900)
		c.names[0] = name
		round := func(others ...string) {
			for _, host := range others {
				step(t, a, c.now, host, reportOf("fair-share", 1500, 0, 3*s, "k"))
			}
			for range 10 { // which fill the pool, or empty it
				a.Take(c.now, "asks", &usage.Takes{Rows: []usage.Take{{Key: "k", Auto: name == "auto", Tokens: 1}}}, new(usage.Taken))
			}
			c.round(t, 3*s)
			for _, k := range a.Look(c.now, "k") {
				all := 0.0
				for _, host := range k.Hosts {
					all += host.Weight
				}
				if k.Pooled && (all > 1+1e-6 || k.Tokens < -300) {
					t.Errorf("%s: at %v, hosts hold %.2f, and the pool has %v", name, c.now, all, k.Tokens)
				}
			}
		}
		for range 40 {
			round("other1", "other2", "other3")
		}
		for range 20 {
			round()
		}
		if sum := c.sum(); sum < 0.9 && (name == "elastic" || name == "request-weighted") || sum < 0.5 && name == "auto" {
			t.Errorf("%s: a minute after the others are gone, the host has %.2f", name, sum)
		}
	}
}

// rollouts calls test for each pair of algorithms, with hosts that have reported under the first one for
// a minute, and what has the owner follow the second one.
func rollouts(t *testing.T, test func(c *crowd, from, to string, follow func())) {
	names := []string{"elastic", "request-weighted", "auto", "fair-share"}
	for _, from := range names {
		for _, to := range names {
			a := New(algorithm.Builtin(), snapshot(t, dynamicconfig.Properties{}, every(from)))
			c := newCrowd(a, 100, 90, 90, 90, 90, 90, 90)
			for h := range c.names {
				c.names[h] = from
			}
			for range 20 {
				c.round(t, 3*s)
			}
			test(c, from, to, func() {
				a.Core.Configure(c.now, snapshot(t, dynamicconfig.Properties{}, every(to)))
			})
		}
	}
}

// A rule changes from one algorithm to another, and its hosts hear of it one after
// another.
func TestARolloutToAnotherAlgorithmLendsNothingTwice(t *testing.T) {
	rollouts(t, func(c *crowd, from, to string, follow func()) {
		follow()
		for i := range 30 {
			if i%3 == 2 && i/3 < len(c.names) {
				c.names[i/3] = to
			}
			c.round(t, 3*s)
			// A host that was counted under the old name may keep its grant for one
			// interval, beside the parts of the others. Under averages, a host that hears of the
			// new name gets its part before the others have reported, as one that is new.
			if sum := c.sum(); sum > 1.25 {
				t.Errorf("%s to %s, round %d: weights %.2f sum to %.2f", from, to, i, c.weight, sum)
			}
		}
		if sum := c.sum(); sum > 1.03 || sum < 0.9 && to != "auto" {
			t.Errorf("%s to %s: at the end weights %.2f sum to %.2f", from, to, c.weight, sum)
		}
	})
}

// Hosts hear of another algorithm before the owner of the key does.
func TestARolloutInWhichHostsAreFirstLendsNothingTwice(t *testing.T) {
	rollouts(t, func(c *crowd, from, to string, follow func()) {
		for h := range c.names {
			c.names[h] = to
			c.round(t, 3*s)
		}
		follow()
		for i := range 10 {
			c.round(t, 3*s)
			if sum := c.sum(); sum > 1.2 {
				t.Errorf("%s to %s, round %d: weights %.2f sum to %.2f", from, to, i, c.weight, sum)
			}
		}
	})
}

// watched is an account that notes when it is called. Its first caller waits until
// block is closed.
type watched struct {
	account.Account

	block, entered chan bool // entered is closed when the first caller waits
	waited         atomic.Bool
	seen           []time.Duration
}

func (k *watched) Expire(now time.Duration, _ func(uint32)) { k.seen = append(k.seen, now) }

func (k *watched) Hosts() int {
	if k.waited.CompareAndSwap(false, true) {
		close(k.entered)
		<-k.block
	}
	return 0
}

// For a Key, time does not go backwards, however long a report waits for its lock.
func TestTimeDoesNotGoBackForAKey(t *testing.T) {
	w := watched{block: make(chan bool), entered: make(chan bool)}
	a, _ := custom(t, dynamicconfig.Properties{}, algorithm.Algorithm{Account: "watched"})
	a.keys.Accounts = owned.Accounts{"watched": func(now, moved time.Duration, c *account.Config) account.Account {
		w.Account = pool.New(now, moved, c)
		return &w
	}}
	one, two := "m1", ""
	for i := 2; two == ""; i++ { // a key that another lock guards
		if k := fmt.Sprint("m", i); a.keys.Table.Shard(a.keys.Table.Hash(k)) != a.keys.Table.Shard(a.keys.Table.Hash(one)) {
			two = k
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { step(t, a, s, "slow", reportOf("mine", 7, 0, s, one, two)) })
	<-w.entered // it has the lock of one
	step(t, a, 2*s, "quick", reportOf("mine", 1, 0, s, two))
	close(w.block)
	wg.Wait()
	if !slices.IsSorted(w.seen[1:]) || len(w.seen) < 3 {
		t.Errorf("a Key was called at %v", w.seen)
	}
}

// A key that is named twice in a report, and a host whose name another has, are
// reports about time that is taken in already: it counts once where it can, and is
// counted.
func TestReportsAboutTheSameTimeAreCounted(t *testing.T) {
	for _, name := range []string{"elastic", "auto", "request-weighted"} {
		scope := tally.NewTestScope("", nil)
		a := New(algorithm.Builtin(), snapshot(t, dynamicconfig.Properties{}, every(name)), WithScope(scope))
		overlapping := func() int64 { return scope.Snapshot().Counters()["aggregator.overlapping_reports+"].Value() }
		wants := func(want int64, what string) {
			t.Helper()
			a.GC(12 * s)
			if got := overlapping(); got != want {
				t.Errorf("%s, %s: %d are counted, want %d", name, what, got, want)
			}
		}
		for i := range 5 {
			step(t, a, time.Duration(3*i)*s, "h", reportOf(name, 30, 0, 3*s, "k"))
			step(t, a, time.Duration(3*i)*s, "other", reportOf(name, 30, 0, 3*s, "k"))
		}
		wants(0, "an honest host")
		step(t, a, 15*s, "h", reportOf(name, 30, 0, 3*s, "k", "k"))
		wants(1, "a key that is named twice")
		step(t, a, 15*s+1500*time.Millisecond, "h", reportOf(name, 30, 0, 3*s, "k")) // the other h
		step(t, a, 18*s, "h", reportOf(name, 30, 0, 3*s, "k"))
		wants(3, "two hosts of one name")
	}
}

// A Weigh sees the labels that membership has now, whatever hosts report.
func TestAWeighFollowsTheLabelsOfMembers(t *testing.T) {
	registry := algorithm.Builtin()
	if err := registry.Register("zone-a", func(capacity float64, demands []algorithm.Demand, parts []float64) {
		for i, d := range demands {
			if d.Labels.Get("zone") == "a" {
				parts[i] = capacity
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	a := New(registry, snapshot(t, dynamicconfig.Properties{}, every("zone-a")))
	c := newCrowd(a, 100, 200, 200)
	c.names = []string{"zone-a", "zone-a"}
	for favoured := range c.names {
		a.Label(map[string]algorithm.Labels{fmt.Sprint("host", favoured): algorithm.NewLabels(map[string]string{"zone": "a"})})
		for range 10 {
			c.round(t, 3*s)
		}
		if c.weight[favoured] < 0.9 || c.weight[1-favoured] != 0 {
			t.Errorf("host %d is in zone a, and weights are %v", favoured, c.weight)
		}
	}
}
