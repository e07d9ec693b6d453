// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// dumb is what an aggregator does, by looking at all hosts at every ask.
type dumb struct {
	properties dynamicconfig.Properties
	keys       map[string]map[string]*dumbHost // by key, then host
	trims      map[string]time.Duration        // by key: silent hosts make no room before
}

type dumbHost struct {
	average account.Rates
	last    time.Duration
}

// fade is what is left of a report of that age.
func (d *dumb) fade(age time.Duration) float64 {
	p := d.properties
	switch {
	case age >= p.GCAfter:
		return 0
	case age < p.DecayAfter:
		return 1
	}
	return math.Pow(1-p.NewDataWeight, math.Floor(float64(age)/float64(p.UpdateInterval)))
}

func (d *dumb) gc(now time.Duration) {
	for key, hosts := range d.keys {
		for name, h := range hosts {
			if now-h.last >= d.properties.GCAfter {
				delete(hosts, name)
			}
		}
		if len(hosts) == 0 {
			delete(d.keys, key)
		}
	}
}

func (d *dumb) step(now time.Duration, host, key string, rate account.Rates) (weight, used float64, ok bool) {
	hosts := d.keys[key]
	if hosts == nil {
		hosts = make(map[string]*dumbHost)
		d.keys[key], d.trims[key] = hosts, now
	}
	for name, h := range hosts {
		if now-h.last >= d.properties.GCAfter {
			delete(hosts, name)
		}
	}
	h := hosts[host]
	if h == nil && len(hosts) >= d.properties.MaxHostsPerKey && now >= d.trims[key] {
		d.trims[key] = now + d.properties.UpdateInterval/4
		for name, h := range hosts {
			if now-h.last >= d.properties.DecayAfter {
				delete(hosts, name)
			}
		}
	}
	if h == nil && len(hosts) >= d.properties.MaxHostsPerKey {
		return 0, 0, false
	}
	if rate.Total() > 0 {
		if w := d.properties.NewDataWeight; h == nil {
			hosts[host] = &dumbHost{rate, now}
		} else {
			h.average = rate.Times(w).Plus(h.average.Times(d.fade(now-h.last) * (1 - w)))
			h.last = now
		}
	}
	var own, sum account.Rates
	for name, h := range hosts {
		faded := h.average.Times(d.fade(now - h.last))
		sum = sum.Plus(faded)
		if name == host {
			own = faded
		}
	}
	if sum.Total() > 0 {
		weight = own.Total() / sum.Total()
	}
	return weight, sum.Allowed, true
}

func (d *dumb) hosts() int {
	names := make(map[string]bool)
	for _, hosts := range d.keys {
		for name := range hosts {
			names[name] = true
		}
	}
	return len(names)
}

// drawProperties draws settings, often ones whose steps do not divide evenly.
func drawProperties(t *rapid.T) dynamicconfig.Properties {
	interval := time.Duration(rapid.SampledFrom([]int{100, 1000, 3000, 777}).Draw(t, "interval")) * time.Millisecond
	decay := time.Duration(rapid.Int64Range(1, int64(6*interval)).Draw(t, "decay"))
	s, err := dynamicconfig.Config{Properties: dynamicconfig.Properties{
		UpdateInterval: interval,
		DecayAfter:     decay,
		GCAfter:        decay + time.Duration(rapid.Int64Range(0, int64(20*interval)).Draw(t, "gc")),
		NewDataWeight:  rapid.SampledFrom([]float64{0.5, 0.1, 1, 0.001}).Draw(t, "weight"),
		MaxHostsPerKey: rapid.SampledFrom([]int{100, 3}).Draw(t, "hosts"),
	}}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s.Properties()
}

// Over any history the aggregator answers as the dumb one does.
func TestLedgerIsAsExactAsLookingAtAllHosts(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := drawProperties(r)
		a, ref := weighted(t, p), &dumb{p, make(map[string]map[string]*dumbHost), make(map[string]time.Duration)}
		now := time.Duration(rapid.Int64Range(-1e18, 1e18).Draw(r, "start"))
		hosts := rapid.IntRange(1, 12).Draw(r, "hosts")
		var grants usage.Grants
		for i := range rapid.IntRange(1, 300).Draw(r, "steps") {
			switch rapid.IntRange(0, 20).Draw(r, "gap") {
			case 0: // a long silence
				now += time.Duration(rapid.Int64Range(0, int64(12*p.UpdateInterval)).Draw(r, "silence"))
			case 1:
				p = drawProperties(r)
				ref.properties = p
				if err := a.Configure(snapshot(t, p, every(algorithm.NameRequestWeighted))); err != nil {
					t.Fatal(err)
				}
			case 2:
				a.GC(now)
				ref.gc(now)
				if int(a.keys.Len()) != len(ref.keys) || a.keys.Hosts.Len() != ref.hosts() {
					r.Fatalf("step %d: %d keys and %d hosts, want %d and %d", i, a.keys.Len(), a.keys.Hosts.Len(), len(ref.keys), ref.hosts())
				}
			case 3, 4, 5: // at the same instant
			default:
				now += time.Duration(rapid.Int64Range(0, int64(p.UpdateInterval)).Draw(r, "pause"))
			}
			host := fmt.Sprint(rapid.IntRange(1, hosts).Draw(r, "host"))
			key := rapid.SampledFrom([]string{"j", "k"}).Draw(r, "key")
			count := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 1000), rapid.Just(int64(rpc.MaxCount)))
			u := reportOf(algorithm.NameRequestWeighted, count.Draw(r, "allowed"), count.Draw(r, "rejected"), 2*time.Second, key)
			if err := a.Step(now, host, u, &grants); err != nil {
				r.Fatal(err)
			}
			weight, used, ok := ref.step(now, host, key, account.Rates{Allowed: float64(u.Allowed[0]) / 2, Rejected: float64(u.Rejected[0]) / 2})
			if got := grants.Lease[0] > 0; got != ok {
				r.Fatalf("step %d: granted %v, want %v", i, got, ok)
			}
			if !near(grants.Weight[0], weight) || !near(grants.Used[0], used) {
				r.Fatalf("step %d: weight %v used %v, want %v and %v", i, grants.Weight[0], grants.Used[0], weight, used)
			}
		}
	})
}

// A report of the largest counts must not drown the small ones after it.
func TestSumsAreExactAfterAHugeReport(t *testing.T) {
	p := cadence
	p.NewDataWeight = 1
	a := weighted(t, p)
	reported(t, a, 0, "small", 1, 0)
	reported(t, a, 0, "huge", rpc.MaxCount, rpc.MaxCount)
	g := reported(t, a, time.Second, "huge", 1, 0)
	if !near(g.Used[0], 2) || !near(g.Weight[0], 0.5) {
		t.Errorf("used %v, weight %v; want 2 and 0.5", g.Used[0], g.Weight[0])
	}
}

func TestAReportAllocatesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector, which runs the short form, drops what is in pools at random")
	}
	for _, name := range []string{algorithm.NameRequestWeighted, algorithm.NameElastic} {
		a := New(algorithm.Builtin(), snapshot(t, cadence, every(name)))
		var grants usage.Grants
		u := reportOf(name, 10, 1, time.Second, "a", "b", "c")
		now := time.Duration(0)
		for range 100 { // through all stages of age
			for _, host := range []string{"x", "y"} {
				if err := a.Step(now, host, u, &grants); err != nil {
					t.Fatal(err)
				}
			}
			now += time.Second
		}
		if n := testing.AllocsPerRun(100, func() {
			now += time.Second
			if err := a.Step(now, "x", u, &grants); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations in a report of three keys", name, n)
		}
	}
}
