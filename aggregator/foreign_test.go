// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/usage"
)

// custom is an Aggregator with the algorithm "mine", which has the keys that
// begin with an m; it returns what is logged too. The rest is request-weighted.
func custom(t testing.TB, p dynamicconfig.Properties, mine algorithm.Algorithm) (*Aggregator, *bytes.Buffer) {
	t.Helper()
	registry := algorithm.Builtin()
	if err := registry.Register("mine", mine); err != nil {
		t.Fatal(err)
	}
	log := new(bytes.Buffer)
	a, err := New(registry, snapshot(t, p,
		dynamicconfig.Rule{Key: "m*", Limit: 100, Algorithm: "mine"},
		every(algorithm.NameRequestWeighted),
	), WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	return a, log
}

// counting is an algorithm of equal parts that counts what it is made to do.
type counting struct{ calls, rows atomic.Int64 }

func (c *counting) Share(_ algorithm.Limit, demands []algorithm.Rates, grants []algorithm.Grant) {
	c.calls.Add(1)
	c.rows.Add(int64(len(demands)))
	for i := range grants {
		grants[i].Weight = 1 / float64(len(demands))
	}
}

func TestAllAskersShareOneRound(t *testing.T) {
	mine := new(counting)
	a, _ := custom(t, cadence, mine)
	const hosts = 50
	ask := func(now time.Duration, host int) float64 {
		return step(t, a, now, fmt.Sprint(host), reportOf("mine", 1, 0, time.Second, "m")).Weight[0]
	}
	for h := range hosts {
		if got := ask(0, h); got != 1/float64(h+1) {
			t.Fatalf("host %d of a few got %v at once", h, got)
		}
	}
	for i := range 6 { // half intervals
		mine.calls.Store(0)
		for at := range 3 {
			for h := range hosts {
				now := time.Duration(i+1)*time.Second/2 + time.Duration(at)*time.Second/6
				if got := ask(now, h); got != 1.0/hosts {
					t.Fatalf("at %v host %d got %v", now, h, got)
				}
			}
		}
		if mine.calls.Load() != 1 {
			t.Errorf("half interval %d: %d calls for %d askers", i, mine.calls.Load(), 3*hosts)
		}
	}
	mine.calls.Store(0)
	for range 10 {
		if g := step(t, a, 3300*time.Millisecond, "asks only", reportOf("mine", 0, 0, time.Second, "m")); g.Lease[0] != 0 {
			t.Fatalf("a host that the algorithm never saw has a grant: %+v", g)
		}
	}
	if mine.calls.Load() != 0 {
		t.Error("who only asks brings a round about")
	}
}

// One host leaves in the same step in which another comes: there are as many
// as before, and still the new one has a grant.
func TestARoundIsNotMistakenForAnotherOfItsSize(t *testing.T) {
	mine := new(counting)
	p := cadence
	p.UpdateInterval, p.DecayAfter, p.GCAfter = 10*time.Second, time.Second, 2*time.Second
	a, _ := custom(t, p, mine)
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
	a, _ := custom(t, cadence, mine)
	const hosts = 5000
	for h := range hosts {
		step(t, a, 0, fmt.Sprint(h), reportOf("mine", 1, 0, time.Second, "m"))
	}
	if each := float64(mine.rows.Load()) / hosts; each > 8 {
		t.Errorf("%d calls looked at %d rows, %.1f for each of %d hosts", mine.calls.Load(), mine.rows.Load(), each, hosts)
	}
	if g := step(t, a, time.Second/2, fmt.Sprint(hosts-1), reportOf("mine", 1, 0, time.Second, "m")); g.Weight[0] != 1.0/hosts {
		t.Errorf("half an interval later the last host has %+v", g)
	}
}

// failing misbehaves as its fields say. As an algorithm.Stateful it is its own
// Key.
type failing struct {
	grant algorithm.Grant
	panic string // in which method
	known map[uint32]bool
}

func (f *failing) maybe(method string) {
	if f.panic == method {
		panic("a bug in " + method)
	}
}

func (f *failing) Share(_ algorithm.Limit, _ []algorithm.Rates, grants []algorithm.Grant) {
	f.maybe("Share")
	for i := range grants {
		grants[i] = f.grant
	}
}

// stateful makes a Stateful of a failing.
type stateful struct {
	*failing
	noKey bool
}

func (s stateful) NewKey(algorithm.Cluster) algorithm.Key {
	s.maybe("NewKey")
	if s.noKey {
		return nil
	}
	return s
}

func (s stateful) Report(_ time.Duration, _ algorithm.Limit, host uint32, _ *algorithm.Report) (algorithm.Grant, bool) {
	s.known[host] = true
	s.maybe("Report")
	return s.grant, true
}

func (s stateful) Expire(_ time.Duration, gone func(uint32)) {
	s.maybe("Expire")
	if s.panic == "gone" {
		gone(12345)
	}
}

func (s stateful) Hosts() int {
	s.maybe("Hosts")
	if s.panic == "Knows" {
		return math.MaxInt32 // it is asked only when there is no room for another host
	}
	return len(s.known)
}

func (s stateful) Follow(time.Duration, time.Duration) { s.maybe("Follow") }

func (s stateful) Fetch(uint32, int32) (int32, int) { return -1, 0 }

func (s stateful) Knows(host uint32) bool    { s.maybe("Knows"); return s.known[host] }
func (f *failing) summed() summed            { return summed{f} }
func (f *failing) stateful(no bool) stateful { f.known = make(map[uint32]bool); return stateful{f, no} }

// summed makes a Summed of a failing.
type summed struct{ *failing }

func (s summed) Grant(algorithm.Limit, algorithm.Rates, algorithm.Rates) algorithm.Grant {
	s.maybe("Grant")
	return s.grant
}

func TestAnAlgorithmThatFailsCostsItsOwnKeysOnly(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	algorithms := map[string]algorithm.Algorithm{
		"Share panics":     &failing{panic: "Share"},
		"Grant panics":     (&failing{panic: "Grant"}).summed(),
		"NewKey panics":    (&failing{panic: "NewKey"}).stateful(false),
		"no Key":           (&failing{}).stateful(true),
		"Report panics":    (&failing{panic: "Report"}).stateful(false),
		"Expire panics":    (&failing{panic: "Expire"}).stateful(false),
		"Hosts panics":     (&failing{panic: "Hosts"}).stateful(false),
		"Knows panics":     (&failing{panic: "Knows"}).stateful(false),
		"a host too many":  (&failing{panic: "gone", grant: algorithm.Grant{Weight: nan}}).stateful(false),
		"NaN tokens":       (&failing{grant: algorithm.Grant{Tokens: nan}}).stateful(false),
		"NaN in one grant": (&failing{grant: algorithm.Grant{Weight: nan}}).summed(),
	}
	for name, g := range map[string]algorithm.Grant{
		"NaN weight":      {Weight: nan},
		"weight above 1":  {Weight: 1.001},
		"negative weight": {Weight: -0.001},
		"endless burst":   {Burst: inf},
		"negative burst":  {Burst: -1},
		"NaN used":        {Used: nan},
	} {
		algorithms[name] = &failing{grant: g}
	}
	for name, mine := range algorithms {
		a, log := custom(t, cadence, mine)
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

// floored has a Floor that may not exist.
type floored struct {
	algorithm.Algorithm
	floor algorithm.Floor
}

func (f floored) Floor() algorithm.Floor {
	if f.floor == 200 {
		panic("no floor")
	}
	return f.floor
}

func TestFloorsGoWithTheGrants(t *testing.T) {
	for floor, want := range map[algorithm.Floor]usage.Floor{
		algorithm.FloorNone:   usage.FloorNone,
		algorithm.FloorUnused: usage.FloorUnused,
		algorithm.FloorEven:   usage.FloorEven,
		algorithm.FloorDrop:   usage.FloorDrop,
	} {
		a, _ := custom(t, cadence, floored{new(counting), floor})
		if g := step(t, a, 0, "a", reportOf("mine", 1, 0, time.Second, "m")); g.Floor != want {
			t.Errorf("floor %v became %v", floor, g.Floor)
		}
	}
	for _, floor := range []algorithm.Floor{4, 200} {
		a, _ := custom(t, cadence, floored{new(counting), floor})
		if err := a.Step(0, "a", reportOf("mine", 1, 0, time.Second, "m"), new(usage.Grants)); err == nil {
			t.Errorf("floor %d went to a host, which would refuse the whole answer", floor)
		}
	}
}

// Tokens are for Stateful algorithms only: hosts of others keep what they have.
func TestTokensComeFromStatefulAlgorithmsOnly(t *testing.T) {
	mine := (&failing{grant: algorithm.Grant{Weight: 0.5, Tokens: 7}}).stateful(false)
	a, _ := custom(t, cadence, mine)
	g := new(usage.Grants)
	for range 2 { // with the same memory
		if err := a.Step(0, "a", reportOf("mine", 1, 0, time.Second, "m"), g); err != nil || len(g.Tokens) != 1 || g.Tokens[0] != 7 {
			t.Errorf("%v, tokens %v, want 7", err, g.Tokens)
		}
		if err := a.Step(0, "a", reportOf("request-weighted", 1, 0, time.Second, "k"), g); err != nil || g.Tokens != nil {
			t.Errorf("%v, tokens %v, want none", err, g.Tokens)
		}
	}
}
