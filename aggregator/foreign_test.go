// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/usage"
)

// custom is an Aggregator with the algorithm "mine", which has the keys that
// begin with an m; it returns what is logged too. The rest is request-weighted.
func custom(t testing.TB, p dynamicconfig.Properties, mine algorithm.Algorithm) (*Aggregator, *bytes.Buffer) {
	t.Helper()
	registry := algorithm.Builtin()
	if err := registry.Add("mine", mine); err != nil {
		t.Fatal(err)
	}
	log := new(bytes.Buffer)
	a := New(registry, snapshot(t, p,
		dynamicconfig.Rule{Key: "m*", Limit: 100, Algorithm: "mine"},
		every(algorithm.NameRequestWeighted),
	), WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	return a, log
}

// onAverage is an algorithm that weighs averages.
func onAverage(weigh algorithm.Weigh) algorithm.Algorithm {
	return algorithm.Algorithm{Account: algorithm.AccountAverage, Weigher: algorithm.Weigher{Weigh: weigh}}
}

// counting weighs in equal parts, and counts what it is made to do.
type counting struct{ calls, rows atomic.Int64 }

func (c *counting) weigh(capacity float64, demands []algorithm.Demand, parts []float64) {
	c.calls.Add(1)
	c.rows.Add(int64(len(demands)))
	for i := range parts {
		parts[i] = capacity / float64(len(demands))
	}
}

func TestAllAskersShareOneRound(t *testing.T) {
	mine := new(counting)
	a, _ := custom(t, cadence, onAverage(mine.weigh))
	const hosts = 50
	ask := func(now time.Duration, host int) float64 {
		return step(t, a, now, fmt.Sprint(host), reportOf("mine", 1, 0, time.Second, "m")).Weight[0]
	}
	for h := range hosts {
		if got := ask(0, h); !near(got, 1/float64(h+1)) {
			t.Fatalf("host %d of a few got %v at once", h, got)
		}
	}
	for i := range 12 { // parts of an interval
		mine.calls.Store(0)
		for at := range 3 {
			for h := range hosts {
				now := time.Duration(i+1)*time.Second/account.Parted + time.Duration(at)*time.Second/account.Parted/3
				if got := ask(now, h); !near(got, 1.0/hosts) {
					t.Fatalf("at %v host %d got %v", now, h, got)
				}
			}
		}
		if mine.calls.Load() != 1 {
			t.Errorf("part %d: %d calls for %d askers", i, mine.calls.Load(), 3*hosts)
		}
	}
	mine.calls.Store(0)
	for range 10 {
		if g := step(t, a, 1550*time.Millisecond, "asks only", reportOf("mine", 0, 0, time.Second, "m")); g.Lease[0] != 0 {
			t.Fatalf("a host that the algorithm never saw has a grant: %+v", g)
		}
	}
	if mine.calls.Load() != 0 {
		t.Error("who only asks brings a round about")
	}
}

// Of the hosts of a band, those that want nothing bring no round about.
func TestHostsThatWantNothingAreNotWeighed(t *testing.T) {
	mine, registry := new(counting), algorithm.Builtin()
	if err := registry.Register("mine", mine.weigh); err != nil {
		t.Fatal(err)
	}
	a := New(registry, snapshot(t, cadence, dynamicconfig.Rule{Key: "*", Limit: 100, Algorithm: "claims/mine", Learning: dynamicconfig.None}))
	claim := func(host string, wants float64) {
		a.Claim(s, &claims.Claims{Rows: []claims.Claim{{Key: "k", Host: host, Bands: []claims.Band{{Clients: 1, Wants: wants}}}}})
	}
	claim("busy", 10)
	before := mine.calls.Load()
	for range 10 {
		claim("idle", 0)
		step(t, a, s, "reports", reportOf("claims/mine", 0, 0, s, "k"))
	}
	if n := mine.calls.Load() - before; n != 0 {
		t.Errorf("%d rounds", n)
	}
}

// A weigher that ends its goroutine does not end that of the report, and the host that reported is
// counted as others are.
func TestAWeigherThatEndsItsGoroutineStopsNobodyElse(t *testing.T) {
	const more = 10 // keys in each report than in the one before
	for _, on := range []string{algorithm.AccountAverage, algorithm.AccountPool, algorithm.AccountClaims} {
		var ends atomic.Bool
		mine := new(counting)
		a, _ := custom(t, cadence, algorithm.Algorithm{Account: on, Weigher: algorithm.Weigher{Weigh: func(capacity float64, demands []algorithm.Demand, parts []float64) {
			if ends.Load() {
				runtime.Goexit()
			}
			mine.weigh(capacity, demands, parts)
		}}})
		a.Moved(-time.Hour) // so it has nothing to learn
		keys := []string{"m"}
		for n := 0; n < 100; n += more { // many are taken shard by shard
			report := reportOf("mine", 1, 0, time.Second, keys...)
			ends.Store(true)
			if g := step(t, a, time.Second, fmt.Sprint("ends ", n), report); g.Lease[0] != 0 {
				t.Errorf("%s: the weigher ends its goroutine, and the host is granted %+v", on, g)
			}
			ends.Store(false)
			step(t, a, 2*time.Second, fmt.Sprint("goes on ", n), report)
			hash := a.keys.Table.Hash("m")
			k := a.keys.Table.Shard(hash).Map("mine").Find(hash, "m")
			if got, want := a.keys.Hosts.Len(), k.Account.Hosts(); n == 0 && got != want {
				t.Errorf("%s: %d hosts have a number, and the key has %d", on, got, want)
			}
			for i := range more {
				keys = append(keys, fmt.Sprint("m", n+i))
			}
		}
		a.GC(24 * time.Hour)
		a.GC(48 * time.Hour)
		if n := a.keys.Hosts.Len(); n != 0 {
			t.Errorf("%s: %d hosts have a number after all are gone", on, n)
		}
	}
}

// One host leaves in the same step in which another comes: there are as many
// as before, and still the new one has a grant.
func TestARoundIsNotMistakenForAnotherOfItsSize(t *testing.T) {
	mine := new(counting)
	p := cadence
	p.UpdateInterval, p.DecayAfter, p.GCAfter = 10*time.Second, time.Second, 2*time.Second
	a, _ := custom(t, p, onAverage(mine.weigh))
	u := reportOf("mine", 1, 0, time.Second, "m")
	step(t, a, 0, "a", u)
	if g := step(t, a, 2*time.Second, "b", u); g.Weight[0] != 1 || g.Lease[0] == 0 {
		t.Errorf("b, who is alone: %+v", g)
	}
}

// A new owner is asked by all hosts at once. What that costs per host must not
// grow with their number.
func TestManyNewHostsCostLittleEach(t *testing.T) {
	mine := new(counting)
	a, _ := custom(t, cadence, onAverage(mine.weigh))
	const hosts = 5000
	for h := range hosts {
		step(t, a, 0, fmt.Sprint(h), reportOf("mine", 1, 0, time.Second, "m"))
	}
	if each := float64(mine.rows.Load()) / hosts; each > 8 {
		t.Errorf("%d calls looked at %d rows, %.1f for each of %d hosts", mine.calls.Load(), mine.rows.Load(), each, hosts)
	}
	if g := step(t, a, time.Second/2, fmt.Sprint(hosts-1), reportOf("mine", 1, 0, time.Second, "m")); !near(g.Weight[0], 1.0/hosts) {
		t.Errorf("half an interval later the last host has %+v", g)
	}
}

// failing is an account that misbehaves as its fields say.
type failing struct {
	account.Account

	grant account.Grant
	panic string // in which method
	known map[uint32]bool
}

// failing is custom with an account that misbehaves.
func (f *failing) custom(t *testing.T) (*Aggregator, *bytes.Buffer) {
	t.Helper()
	a, log := custom(t, cadence, algorithm.Algorithm{Account: "failing"})
	a.keys.Accounts = maps.Clone(a.keys.Accounts)
	a.keys.Accounts["failing"] = func(time.Duration, time.Duration, *account.Config) account.Account {
		f.maybe("New")
		f.known = make(map[uint32]bool)
		return f
	}
	return a, log
}

func (f *failing) maybe(method string) {
	if f.panic == method {
		panic("a bug in " + method)
	}
}

func (f *failing) Report(_ time.Duration, _ algorithm.Limit, host uint32, _ *account.Report) (account.Grant, bool) {
	f.known[host] = true
	f.maybe("Report")
	return f.grant, true
}

func (f *failing) Expire(_ time.Duration, gone func(uint32)) {
	f.maybe("Expire")
	if f.panic == "gone" {
		gone(12345)
	}
}

func (f *failing) Hosts() int {
	f.maybe("Hosts")
	if f.panic == "Knows" {
		return math.MaxInt32 // it is asked only when there is no room for another host
	}
	return len(f.known)
}

func (f *failing) Knows(host uint32) bool { f.maybe("Knows"); return f.known[host] }

func (f *failing) Configure(time.Duration, *account.Config) { f.maybe("Configure") }

func (f *failing) Fetch(now time.Duration, _ uint32, _ int32, gone func(uint32)) (int32, int) {
	f.Expire(now, gone)
	return none, 0
}

func TestAnAlgorithmThatFailsCostsItsOwnKeysOnly(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	weighing := func(weigh algorithm.Weigh) func() (*Aggregator, *bytes.Buffer) {
		return func() (*Aggregator, *bytes.Buffer) { return custom(t, cadence, onAverage(weigh)) }
	}
	making := func(f *failing) func() (*Aggregator, *bytes.Buffer) {
		return func() (*Aggregator, *bytes.Buffer) { return f.custom(t) }
	}
	all := map[string]func() (*Aggregator, *bytes.Buffer){
		"Weigh panics":    weighing(func(float64, []algorithm.Demand, []float64) { panic("a bug in Weigh") }),
		"NaN part":        weighing(func(_ float64, _ []algorithm.Demand, parts []float64) { parts[0] = nan }),
		"negative part":   weighing(func(_ float64, _ []algorithm.Demand, parts []float64) { parts[0] = -1 }),
		"New panics":      making(&failing{panic: "New"}),
		"Report panics":   making(&failing{panic: "Report"}),
		"Expire panics":   making(&failing{panic: "Expire"}),
		"Hosts panics":    making(&failing{panic: "Hosts"}),
		"Knows panics":    making(&failing{panic: "Knows"}),
		"a host too many": making(&failing{panic: "gone", grant: account.Grant{Weight: nan}}),
		"NaN tokens":      making(&failing{grant: account.Grant{Tokens: nan}}),
	}
	for name, g := range map[string]account.Grant{
		"NaN weight":      {Weight: nan},
		"weight above 1":  {Weight: 1.001},
		"negative weight": {Weight: -0.001},
		"endless burst":   {Burst: inf},
		"negative burst":  {Burst: -1},
		"NaN used":        {Used: nan},
	} {
		all[name] = making(&failing{grant: g})
	}
	for name, made := range all {
		a, log := made()
		for i := range 3 {
			now := time.Duration(i) * time.Second
			g := step(t, a, now, "a", reportOf("mine", 1, 0, time.Second, "m1", "m2"))
			for row, lease := range g.Lease {
				if lease != 0 || g.Weight[row] != 0 || g.Burst[row] != 0 || g.Used[row] != 0 {
					t.Errorf("%s: row %d has a grant: %+v", name, row, g)
				}
			}
			if g := step(t, a, now, "a", reportOf("request-weighted", 1, 0, time.Second, "l", "k")); g.Lease[0] == 0 || g.Lease[1] == 0 {
				t.Errorf("%s: the keys of another algorithm have no grant: %+v", name, g)
			}
			a.GC(now) // takes every lock
		}
		if lines := strings.Count(log.String(), "\n"); lines != 1 {
			t.Errorf("%s: %d lines in the log, want one:\n%s", name, lines, log)
		}
		if !strings.Contains(log.String(), "algorithm=mine") || !strings.Contains(log.String(), "key=m") {
			t.Errorf("%s: the log does not say whose fault it is: %s", name, log)
		}
		step(t, a, time.Hour, "a", reportOf("mine", 1, 0, time.Second, "m1"))
		if lines := strings.Count(log.String(), "\n"); lines != 2 {
			t.Errorf("%s: %d lines in the log an hour later, want two", name, lines)
		}
	}
}

func TestFloorsGoWithTheGrants(t *testing.T) {
	for floor, want := range map[algorithm.Floor]usage.Floor{
		algorithm.FloorNone:   usage.FloorNone,
		algorithm.FloorUnused: usage.FloorUnused,
		algorithm.FloorEven:   usage.FloorEven,
		algorithm.FloorDrop:   usage.FloorDrop,
	} {
		mine := onAverage(algorithm.RequestWeighted)
		mine.Weigher.Floor = floor
		a, _ := custom(t, cadence, mine)
		if g := step(t, a, 0, "a", reportOf("mine", 1, 0, time.Second, "m")); g.Floor != want {
			t.Errorf("floor %v became %v", floor, g.Floor)
		}
	}
}

// Tokens come from the pool only: hosts of other accounts keep what they have.
func TestTokensComeFromThePoolOnly(t *testing.T) {
	a, _ := custom(t, cadence, onAverage(algorithm.RequestWeighted))
	g := new(usage.Grants)
	for range 2 { // with the same memory
		if err := a.Configure(snapshot(t, cadence, every(algorithm.NameElastic))); err != nil {
			t.Fatal(err)
		}
		if err := a.Step(0, "a", reportOf(algorithm.NameElastic, 1, 0, time.Second, "k"), g); err != nil || len(g.Tokens) != 1 {
			t.Errorf("%v, tokens %v, want one", err, g.Tokens)
		}
		for _, name := range []string{algorithm.NameRequestWeighted, algorithm.NameFairShare, "mine"} {
			if err := a.Step(0, "a", reportOf(name, 1, 0, time.Second, "k"), g); err != nil || g.Tokens != nil {
				t.Errorf("%s: %v, tokens %v, want none", name, err, g.Tokens)
			}
		}
	}
}

// A host that gets no answer, because the weigher fails, goes on with what it has. What it uses
// meanwhile counts.
func TestHostsUseNoMoreForAWeigherThatFailsNowAndThen(t *testing.T) {
	for how, fail := range map[string]func(parts []float64){
		"panics":    func([]float64) { panic("now and then") },
		"no number": func(parts []float64) { parts[0] = math.NaN() },
		"below 0":   func(parts []float64) { parts[0] = -1 },
	} {
		t.Run(how, func(t *testing.T) {
			failing := false
			p := cadence
			p.UpdateInterval = time.Second
			limit := algorithm.Limit{Rate: 100, Burst: 100}
			a := New(registryWith(t, "mine", func(capacity float64, demands []algorithm.Demand, parts []float64) {
				if algorithm.RequestWeighted(capacity, demands, parts); failing {
					fail(parts)
				}
			}), snapshot(t, p, dynamicconfig.Rule{Key: "k", Limit: 100, Burst: limit.Burst, Algorithm: "mine", Lease: 10 * time.Second}))
			weight, tokens, used := 0.0, 0.0, 0.0
			const seconds = 60
			for i := range seconds {
				failing = i%2 == 1
				uses := math.Floor(tokens + weight*limit.Rate)
				tokens += weight*limit.Rate - uses
				used += uses
				u := reportOf("mine", int64(uses), 900, time.Second, "k")
				u.Weight[0] = weight
				if g := step(t, a, time.Duration(i)*time.Second, "h", u); g.Lease[0] > 0 {
					weight, tokens = g.Weight[0], g.Tokens[0]
				}
			}
			least, most := limit.Rate*seconds*0.9, limit.Rate*seconds+limit.Burst+algorithm.Elastic{}.Overshoot(limit, 1, p.UpdateInterval)
			if used < least || used > most {
				t.Errorf("a host that uses all that it may used %v in %d s, want %v to %v", used, seconds, least, most)
			}
		})
	}
}

// A host that gets no answer, because the weigher fails, keeps what it holds until its lease ends.
func TestWhatAHostHoldsIsNotForOthersWhenTheWeigherFails(t *testing.T) {
	for _, on := range []string{algorithm.AccountClaims, algorithm.AccountPool} {
		failing := false
		name := algorithm.Pair(on, "mine")
		a := New(registryWith(t, "mine", func(capacity float64, demands []algorithm.Demand, parts []float64) {
			if algorithm.RequestWeighted(capacity, demands, parts); !failing {
				return
			}
			for i, d := range demands {
				if parts[i] = capacity; d.Wants < 75 {
					parts[i] = -1
				}
			}
		}), snapshot(t, cadence, dynamicconfig.Rule{Key: "k", Limit: 100, Algorithm: name, Lease: time.Minute, Learning: dynamicconfig.None}))
		a.Moved(-time.Hour) // so it has nothing to learn
		weights := make(map[string]float64)
		report := func(now time.Duration, host string, wants float64) {
			u := reportOf(name, int64(weights[host]*100), 500, time.Second, "k")
			u.Weight[0], u.Wants = weights[host], []float64{wants}
			if g := step(t, a, now, host, u); g.Lease[0] > 0 {
				weights[host] = g.Weight[0]
			}
		}
		for i := range 20 {
			failing = i > 10
			report(time.Duration(i)*time.Second, "a", 70)
			report(time.Duration(i)*time.Second+time.Second/2, "b", 80)
			if all := weights["a"] + weights["b"]; i > 1 && (all < 0.9 || all > 1+1e-6) {
				t.Errorf("%s: after %d s, the weigher fails: %v; hosts have %v", on, i, failing, weights)
			}
		}
	}
}

// A weigher that does not return holds up one report, for a second. Its keys get no grants, and other
// keys are decided at once. It is called again once it has returned, and some time is over.
func TestAWeigherThatDoesNotReturnHoldsUpOneReport(t *testing.T) {
	for _, on := range []string{algorithm.AccountAverage, algorithm.AccountPool, algorithm.AccountClaims} {
		synctest.Test(t, func(t *testing.T) {
			var hangs atomic.Bool
			mine, returns := new(counting), make(chan struct{})
			a, log := custom(t, cadence, algorithm.Algorithm{Account: on, Weigher: algorithm.Weigher{Weigh: func(capacity float64, demands []algorithm.Demand, parts []float64) {
				if mine.weigh(capacity, demands, parts); hangs.Load() {
					<-returns
					clear(demands) // the owner no longer waits, so this must not reach it
					parts[0] = math.NaN()
				}
			}}})
			a.Moved(-time.Hour) // so it has nothing to learn
			var all []string    // keys, of all shards
			for n := range 200 {
				all = append(all, fmt.Sprint("m", n))
			}
			begin := time.Now()
			report := func(name string, keys ...string) *usage.Grants {
				return step(t, a, time.Since(begin), "host", reportOf(name, 1, 0, time.Second, keys...))
			}
			granted := func(g *usage.Grants) (n int) {
				for _, lease := range g.Lease {
					if lease > 0 {
						n++
					}
				}
				return n
			}
			report("mine", all...)
			time.Sleep(cadence.UpdateInterval)
			if n := granted(report("mine", all...)); n != len(all) {
				t.Fatalf("%s: %d grants, want %d", on, n, len(all))
			}
			hangs.Store(true)
			mine.calls.Store(0)
			for range 3 {
				time.Sleep(cadence.UpdateInterval)
				if n := granted(report("mine", all...)); n != 0 {
					t.Errorf("%s: while the weigher hangs, there are %d grants", on, n)
				}
				for n := range 200 {
					if g := report(algorithm.NameRequestWeighted, fmt.Sprint("k", n)); g.Lease[0] == 0 {
						t.Fatalf("%s: while the weigher hangs, another key has no grant", on)
					}
				}
				if err := a.Configure(a.settings.Load().Snapshot); err != nil { // forgets nothing of it
					t.Fatal(err)
				}
			}
			if took := time.Since(begin) - 4*cadence.UpdateInterval; took != time.Second || mine.calls.Load() != 1 {
				t.Errorf("%s: reports waited for %v, and the weigher was called %d times", on, took, mine.calls.Load())
			}
			if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "did not return within 1s") {
				t.Errorf("%s: %d lines in the log, want one: %s", on, lines, log)
			}
			time.Sleep(time.Minute)
			if n := granted(report("mine", all...)); n != 0 || mine.calls.Load() != 1 {
				t.Errorf("%s: the weigher still hangs: %d grants, %d calls", on, n, mine.calls.Load())
			}
			hangs.Store(false)
			close(returns)
			synctest.Wait()
			time.Sleep(cadence.UpdateInterval)
			if n := granted(report("mine", all...)); n != len(all) {
				t.Errorf("%s: the weigher has returned, and there are %d grants", on, n)
			}
		})
	}
}

// A weigher that divides by zero makes an infinite part. The other hosts are not granted a part of 0
// for that: they keep what they have, and the log says whose defect it is.
func TestAnInfinitePartTakesNothingFromOtherHosts(t *testing.T) {
	for name, parts := range map[string][2]float64{
		"one part is infinite": {math.Inf(1), 50},
		"the sum is infinite":  {math.MaxFloat64, math.MaxFloat64},
	} {
		for _, on := range []string{algorithm.AccountPool, algorithm.AccountAverage, algorithm.AccountClaims} {
			mine := algorithm.Pair(on, "mine")
			var log bytes.Buffer
			a := New(registryWith(t, "mine", func(_ float64, demands []algorithm.Demand, made []float64) {
				for i, d := range demands {
					made[i] = parts[0]
					if d.Host == "b" {
						made[i] = parts[1]
					}
				}
			}), snapshot(t, cadence, dynamicconfig.Rule{Key: "k", Limit: 100, Algorithm: mine, Lease: time.Minute, Learning: dynamicconfig.None}),
				WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			a.Moved(-time.Hour) // so it has nothing to learn
			for i := range 5 {
				now := time.Duration(i) * cadence.UpdateInterval
				for _, host := range []string{"a", "b"} {
					if g := step(t, a, now, host, reportOf(mine, 10, 10, time.Second, "k")); i > 0 && g.Lease[0] > 0 {
						t.Errorf("%s, %s: host %s is granted %v of the limit", on, name, host, g.Weight[0])
					}
				}
			}
			if lines := strings.Count(log.String(), "an algorithm failed"); lines != 1 {
				t.Errorf("%s, %s: %d lines in the log, want one:\n%s", on, name, lines, &log)
			}
		}
	}
}

// A weigher that sorts its demands fills in the parts of other hosts than it means. No host gets a part that is
// another one's, and the log says what to do.
func TestAWeigherThatSortsItsDemandsIsToSortACopy(t *testing.T) {
	for _, on := range algorithm.Accounts {
		mine := algorithm.Pair(on, "mine")
		var log bytes.Buffer
		a := New(registryWith(t, "mine", func(capacity float64, demands []algorithm.Demand, parts []float64) {
			slices.SortFunc(demands, func(a, b algorithm.Demand) int { return cmp.Compare(b.Wants, a.Wants) })
			parts[0] = capacity // all to the one that wants most
		}), snapshot(t, cadence, dynamicconfig.Rule{Key: "k", Limit: 100, Algorithm: mine, Lease: time.Minute, Learning: dynamicconfig.None}),
			WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		a.Moved(-time.Hour) // so it has nothing to learn
		for i := range 5 {
			now := time.Duration(i) * cadence.UpdateInterval
			for n, host := range []string{"small", "big"} {
				wants := int64(10 + 100*n)
				if g := step(t, a, now, host, reportOf(mine, 0, wants, time.Second, "k")); host == "small" && i > 0 && g.Weight[0] > 0.5 {
					t.Errorf("%s: the host that wants little is granted %v of the limit", on, g.Weight[0])
				}
			}
		}
		if !strings.Contains(log.String(), "the weigher changed its demands") {
			t.Errorf("%s: the log does not say why:\n%s", on, &log)
		}
	}
}

// Demand.Has stays in [0, 1] after the weigher has once returned parts that are NaN.
func TestAPartThatIsNoneIsNotWhatAHostHas(t *testing.T) {
	for _, on := range algorithm.Accounts {
		mine, calls := algorithm.Pair(on, "mine"), 0
		a := New(registryWith(t, "mine", func(capacity float64, demands []algorithm.Demand, parts []float64) {
			calls++
			for i, d := range demands {
				if !(d.Has >= 0 && d.Has <= 1) {
					t.Errorf("%s: %s has %v", on, d.Host, d.Has)
				}
				if parts[i] = capacity / float64(len(parts)); calls == 3 {
					parts[i] = math.NaN()
				}
			}
		}), snapshot(t, cadence, dynamicconfig.Rule{Key: "k", Limit: 100, Algorithm: mine, Lease: time.Minute, Learning: dynamicconfig.None}))
		a.Moved(-time.Hour)
		for i := range 10 {
			for _, host := range []string{"a", "b"} {
				step(t, a, time.Duration(i)*cadence.UpdateInterval, host, reportOf(mine, 10, 10, time.Second, "k"))
			}
		}
	}
}

// Of two weighers that fail all the time, the log names both.
func TestTheLogNamesEachWeigherThatFails(t *testing.T) {
	registry := algorithm.Builtin()
	for _, name := range []string{"first", "second"} {
		if err := registry.Register(name, func(float64, []algorithm.Demand, []float64) { panic("a bug in " + name) }); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	a := New(registry, snapshot(t, cadence,
		dynamicconfig.Rule{Key: "a", Limit: 100, Algorithm: "first"},
		dynamicconfig.Rule{Key: "b", Limit: 100, Algorithm: "second"},
	), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	a.Moved(-time.Hour) // so it has nothing to learn
	const minutes = 10
	for now := time.Second; now <= minutes*time.Minute; now += time.Second {
		step(t, a, now, "host", reportOf("first", 10, 10, time.Second, "a"))
		step(t, a, now, "host", reportOf("second", 10, 10, time.Second, "b"))
	}
	for _, name := range []string{"first", "second"} {
		if n := strings.Count(log.String(), "algorithm="+name); n == 0 || n > minutes+1 {
			t.Errorf("in %d minutes, %d lines name %s", minutes, n, name)
		}
	}
}
