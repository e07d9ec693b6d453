// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/aggregator/internal/table"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/usage"
)

func TestAKeyTooManyGetsNoGrantAndCostsTheOthersNothing(t *testing.T) {
	p := cadence
	p.MaxKeys = 2
	a := weighted(t, p)
	u := reportOf(algorithm.NameRequestWeighted, 5, 0, time.Second, "1", "2", "3", "4", "1")
	for i := range 3 {
		g := step(t, a, time.Duration(i), fmt.Sprint(i), u)
		for row, want := range []bool{true, true, false, false, true} {
			if got := g.Lease[row] > 0; got != want {
				t.Errorf("report %d: key %s granted: %v", i, u.Keys[row], got)
			}
		}
	}
	if n := a.keys.Len(); n != 2 {
		t.Errorf("%d keys, want 2", n)
	}
	// There is room again when a key has lost its hosts.
	step(t, a, 9*time.Second, "0", reportOf(algorithm.NameRequestWeighted, 5, 0, time.Second, "1"))
	a.GC(11 * time.Second)
	g := step(t, a, 11*time.Second, "0", u)
	if g.Lease[0] == 0 || g.Lease[1] == 0 || g.Lease[2] != 0 {
		t.Errorf("after GC: %v", g.Lease)
	}
}

func TestNoMoreKeysThanAllowedWhenAllComeAtOnce(t *testing.T) {
	p := cadence
	p.MaxKeys = 100
	a := weighted(t, p)
	var wg sync.WaitGroup
	for h := range 8 {
		wg.Go(func() {
			var g usage.Grants
			for i := range 500 {
				u := reportOf(algorithm.NameRequestWeighted, 1, 0, time.Second, fmt.Sprint(h, "-", i))
				if err := a.Step(0, fmt.Sprint(h), u, &g); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	n := 0
	for sh := range a.keys.Table.All {
		n += len(sh.Entries())
	}
	if n != 100 || a.keys.Len() != 100 {
		t.Errorf("%d keys, counted as %d; want 100", n, a.keys.Len())
	}
}

func TestAHostTooManyGetsNoGrant(t *testing.T) {
	p := cadence
	p.MaxHostsPerKey = 2
	for _, name := range []string{algorithm.NameRequestWeighted, algorithm.NameElastic} {
		scope := tally.NewTestScope("", nil)
		a := New(algorithm.Builtin(), snapshot(t, p, every(name)), WithScope(scope))
		ask := func(now time.Duration, host, key string) bool {
			return step(t, a, now, host, reportOf(name, 5, 0, time.Second, key)).Lease[0] > 0
		}
		ask(0, "a", "k") // elastic listens first
		ask(0, "b", "k")
		ask(0, "c", "other")
		for i, tt := range []struct {
			host, key string
			want      bool
		}{
			{"a", "k", true}, {"b", "k", true}, {"c", "k", false}, {"c", "other", true}, {"a", "k", true}, {"c", "k", false},
		} {
			if got := ask(time.Second, tt.host, tt.key); got != tt.want {
				t.Errorf("%s, ask %d: host %s for key %s: %v", name, i, tt.host, tt.key, got)
			}
		}
		ask(10*time.Second, "a", "k")
		if !ask(12*time.Second, "c", "k") {
			t.Errorf("%s: b is gone, and c is still refused", name)
		}
		if n := scope.Snapshot().Counters()["aggregator.keys_without_grant+"].Value(); n != 2 {
			t.Errorf("%s: %d were counted as too many, want 2", name, n)
		}
	}
}

// A number is free again when no key knows its host any more. It does not matter
// whether the keys were reported in one go.
func TestLargeReportsCountTheirHosts(t *testing.T) {
	for _, name := range []string{algorithm.NameRequestWeighted, algorithm.NameElastic} {
		a := owner(t, name)
		texts := make([]string, 3*table.Few)
		for i := range texts {
			texts[i] = fmt.Sprint("k", i)
		}
		report := func(now time.Duration, host string) {
			step(t, a, now, host, reportOf(name, 5, 0, time.Second, texts...))
		}
		want := func(when, host string, keys int) {
			t.Helper()
			var counted int64
			for name, rows := range a.keys.Hosts.All {
				if name == host {
					counted = rows
				}
			}
			if counted != int64(keys) {
				t.Errorf("%s, %s: %d keys know %s, want %d", name, when, counted, host, keys)
			}
		}
		for now := range time.Duration(3) {
			for _, host := range []string{"a", "b"} {
				report(now*time.Second, host)
				want("at first", host, len(texts))
			}
		}
		if name == algorithm.NameElastic {
			rule := every(name)
			rule.Parameters = map[string]string{"overcommit": "1"}
			a.Core.Configure(3*time.Second, snapshot(t, cadence, rule))
			report(3*time.Second, "a")
			want("with other parameters", "a", len(texts))
			want("with other parameters", "b", len(texts)) // its pool goes on
		}
		for now := 4 * time.Second; now < 4*time.Second+20*cadence.UpdateInterval; now += time.Second {
			report(now, "a")
		}
		want("silent", "b", 0)
		want("silent", "a", len(texts))
	}
}

// A host is forgotten with its name, and a key with its last host; nothing is
// left of however many there were.
func TestGCLeavesNothing(t *testing.T) {
	for _, name := range []string{algorithm.NameRequestWeighted, algorithm.NameElastic, "mine"} {
		a, _ := custom(t, cadence, onAverage(new(counting).weigh))
		if err := a.Configure(snapshot(t, cadence, every(name))); err != nil {
			t.Fatal(err)
		}
		now := time.Duration(0)
		for wave := range 20 {
			for h := range 10 {
				step(t, a, now, fmt.Sprint("host ", wave, " ", h), reportOf(name, 5, 5, time.Second, "k", fmt.Sprint("key ", wave), fmt.Sprint(h)))
			}
			now += 4 * time.Second
			a.GC(now)
		}
		n := 0
		for range a.keys.Hosts.All {
			n++
		}
		if n > 40 {
			t.Errorf("%s: %d numbers for hosts, of which 30 are alive at most", name, n)
		}
		a.GC(now + 10*time.Second)
		if n := a.keys.Len(); n != 0 || a.keys.Hosts.Len() != 0 {
			t.Errorf("%s: %d keys and %d hosts are left", name, n, a.keys.Hosts.Len())
		}
		for host, rows := range a.keys.Hosts.All {
			if host != "" || rows != 0 {
				t.Errorf("%s: a number still stands for %q in %d rows", name, host, rows)
			}
		}
		for sh := range a.keys.Table.All {
			if n := len(sh.Entries()); n != 0 {
				t.Errorf("%s: %d keys are left in a shard", name, n)
			}
		}
	}
}

// Keys and names are cut out of whole messages, and must not keep those.
func TestWhatIsKeptIsCopied(t *testing.T) {
	a := weighted(t, cadence)
	message := strings.Repeat("k", 1000)
	for i := 1; i <= 1000; i++ {
		step(t, a, 0, message[:i], reportOf(algorithm.NameRequestWeighted, 1, 0, time.Second, message[:i]))
	}
	for sh := range a.keys.Table.All {
		for _, e := range sh.Entries() {
			if sharesMemory(e.Key.Text(), message) {
				t.Fatalf("a key of %d bytes keeps the message", len(e.Key.Text()))
			}
		}
	}
	for host := range a.keys.Hosts.All {
		if sharesMemory(host, message) {
			t.Fatalf("a host's name of %d bytes keeps the message", len(host))
		}
	}
}

// Many hosts report, the rules change and GC runs, all at once; at the end
// everything that was reported counts, in the account that the rule names.
func TestConcurrentUse(t *testing.T) {
	a, _ := custom(t, cadence, onAverage(new(counting).weigh))
	slow := cadence
	slow.NewDataWeight, slow.DecayAfter = 0.5, 3*time.Second
	rules := []dynamicconfig.Rule{every(algorithm.NameRequestWeighted)}
	fastRules, slowRules := snapshot(t, cadence, rules...), snapshot(t, slow, rules...)
	if err := a.Configure(fastRules); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var background, hosts sync.WaitGroup
	for _, f := range []func(){
		func() { a.GC(0) },
		func() {
			if a.Configure(slowRules) != nil || a.Configure(fastRules) != nil {
				t.Error("Configure")
			}
		},
	} {
		background.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f()
					runtime.Gosched()
				}
			}
		})
	}
	const n, rounds = 8, 200
	for h := range n {
		hosts.Go(func() {
			var g usage.Grants
			host := fmt.Sprint(h)
			for range rounds {
				for _, name := range []string{algorithm.NameRequestWeighted, algorithm.NameElastic, "mine"} {
					if err := a.Step(0, host, reportOf(name, 10, 0, time.Second, "k", "m", host), &g); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	hosts.Wait()
	close(stop)
	background.Wait()
	if got := used(t, a, 0); math.Abs(got-10*n) > 1e-9 {
		t.Errorf("used %v, want %d", got, 10*n)
	}
	for name, rows := range a.keys.Hosts.All {
		if want := int64(3); name != "" && name != "asks only" && rows != want {
			t.Errorf("host %q is in %d rows, want %d", name, rows, want)
		}
	}
}

// sharesMemory reports whether part is a piece of whole.
func sharesMemory(part, whole string) bool {
	p, w := uintptr(unsafe.Pointer(unsafe.StringData(part))), uintptr(unsafe.Pointer(unsafe.StringData(whole)))
	return p >= w && p < w+uintptr(len(whole))
}
