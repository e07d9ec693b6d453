// SPDX-License-Identifier: Apache-2.0

package ringpop_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/ringpop"
)

// TestOwnersAreThoseOfRingpop checks against owners that Uber's ringpop gave.
func TestOwnersAreThoseOfRingpop(t *testing.T) {
	data, err := os.ReadFile("testdata/ringpop_owners.json")
	if err != nil {
		t.Fatal(err)
	}
	var rings []struct {
		Hosts  []string          `json:"hosts"`
		Owners map[string]string `json:"owners"`
	}
	if err := json.Unmarshal(data, &rings); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, want := range rings {
		built := mustNew(t, hostsAt(want.Hosts...), 0)
		grown := &ringpop.Ring{} // the same ring, a host at a time
		for _, address := range want.Hosts {
			grown, err = grown.With(ringpop.Host{Address: address})
			if err != nil {
				t.Fatal(err)
			}
		}
		for key, owner := range want.Owners {
			if got := built.Owner(key); got != owner {
				t.Errorf("%d hosts: Owner(%q) = %q, want %q", len(want.Hosts), key, got, owner)
			}
			if got := grown.Owner(key); got != owner {
				t.Errorf("%d hosts, one by one: Owner(%q) = %q, want %q", len(want.Hosts), key, got, owner)
			}
			checked++
		}
	}
	if checked < 600 {
		t.Errorf("checked %d owners, want all 600 of the file", checked)
	}
}

func TestAnEmptyRingOwnsNothing(t *testing.T) {
	for name, ring := range map[string]*ringpop.Ring{
		"zero":    {},
		"new":     mustNew(t, nil, 7),
		"emptied": mustNew(t, hostsAt("a"), 7).Without("a"),
	} {
		if got := ring.Owner("key"); got != "" {
			t.Errorf("%s: Owner = %q, want none", name, got)
		}
		if ring.Len() != 0 || ring.Has("") || len(ring.Hosts()) != 0 {
			t.Errorf("%s: has hosts %v", name, ring.Hosts())
		}
	}
}

func TestPointsStayWhenHostsChange(t *testing.T) {
	ring := mustNew(t, nil, 7)
	ring, err := ring.With(ringpop.Host{Address: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if got := ring.Points(); got != 7 {
		t.Errorf("%d points after With, want 7", got)
	}
	if got := ring.Without("a").Points(); got != 7 {
		t.Errorf("%d points after Without, want 7", got)
	}
	if got := new(ringpop.Ring).Points(); got != ringpop.DefaultPoints {
		t.Errorf("the zero ring has %d points, want %d", got, ringpop.DefaultPoints)
	}
}

// TestTheSmallestAddressWinsACollision uses two addresses of which one's
// point 30 has the name, and so the place, of the other's point 0.
func TestTheSmallestAddressWinsACollision(t *testing.T) {
	const small, large, onThePoint = "10.0.0.1:793", "10.0.0.1:7933", "10.0.0.1:79330"
	for _, hosts := range [][]ringpop.Host{hostsAt(small, large), hostsAt(large, small)} {
		if got := mustNew(t, hosts, 0).Owner(onThePoint); got != small {
			t.Errorf("Owner = %q, want %q", got, small)
		}
	}
	late, err := mustNew(t, hostsAt(large), 0).With(ringpop.Host{Address: small})
	if err != nil {
		t.Fatal(err)
	}
	if got := late.Owner(onThePoint); got != small {
		t.Errorf("Owner = %q, want %q, though it came later", got, small)
	}
}

func TestAHostWithAnIdentityKeepsItsKeysAtANewAddress(t *testing.T) {
	hosts := func(second string) []ringpop.Host {
		return []ringpop.Host{{Address: "10.0.0.1:1"}, {Address: second, Identity: "pod-2"}, {Address: "10.0.0.3:1"}}
	}
	before := mustNew(t, hosts("10.0.0.2:1"), 0)
	after, err := before.Replace(hosts("10.9.9.9:1"))
	if err != nil {
		t.Fatal(err)
	}
	for key := range someKeys(1000) {
		was, is := before.Owner(key), after.Owner(key)
		if was == "10.0.0.2:1" {
			was = "10.9.9.9:1"
		}
		if is != was {
			t.Fatalf("%q moved from %q to %q", key, was, is)
		}
	}
}

func TestReplaceReturnsTheSameRingWhenNothingChanged(t *testing.T) {
	ring := mustNew(t, []ringpop.Host{{Address: "b", Identity: "b"}, {Address: "a", Identity: "x"}}, 0)
	again, err := ring.Replace([]ringpop.Host{{Address: "a", Identity: "x"}, {Address: "b"}})
	if err != nil || again != ring {
		t.Errorf("Replace = %p, %v; want %p", again, err, ring)
	}
	if again, err = ring.With(); err != nil || again != ring {
		t.Errorf("With() = %p, %v; want %p", again, err, ring)
	}
	if again = ring.Without("c", ""); again != ring {
		t.Errorf("Without(unknown) = %p, want %p", again, ring)
	}
	if again, err = ring.Replace(hostsAt("a", "b")); err != nil || again == ring {
		t.Errorf("a new identity gave the same ring, or error %v", err)
	}
}

func TestRingsShareNothingWithTheirCallers(t *testing.T) {
	given := hostsAt("b", "a")
	ring := mustNew(t, given, 0)
	if given[0].Address != "b" {
		t.Error("New sorted the caller's slice")
	}
	given[0].Address = "z"
	ring.Hosts()[0].Address = "z"
	if got, want := ring.Hosts(), hostsAt("a", "b"); !slices.Equal(got, want) {
		t.Errorf("hosts are %v, want %v", got, want)
	}
}

func TestBadRingsSayWhatToDo(t *testing.T) {
	ring := mustNew(t, hostsAt("a"), ringpop.MaxPoints)
	many := make([]ringpop.Host, ringpop.MaxTotalPoints/ringpop.MaxPoints)
	for i := range many {
		many[i].Address = fmt.Sprint("host-", i)
	}
	for name, c := range map[string]struct {
		make func() (*ringpop.Ring, error)
		want string
	}{
		"negative points": {func() (*ringpop.Ring, error) { return ringpop.New(nil, -1) }, "choose 1 to 10000"},
		"absurd points":   {func() (*ringpop.Ring, error) { return ringpop.New(nil, ringpop.MaxPoints+1) }, "choose 1 to 10000"},
		"no address":      {func() (*ringpop.Ring, error) { return ringpop.New([]ringpop.Host{{Identity: "x"}}, 0) }, `host 1 of 1 (identity "x") has no address`},
		"listed twice":    {func() (*ringpop.Ring, error) { return ringpop.New(hostsAt("b", "a", "b"), 0) }, `"b" is listed more than once`},
		"there already":   {func() (*ringpop.Ring, error) { return ring.With(hostsAt("a")...) }, `"a" is listed more than once`},
		"bad with":        {func() (*ringpop.Ring, error) { return ring.With(hostsAt("b", "b")...) }, `"b" is listed more than once`},
		"bad replace":     {func() (*ringpop.Ring, error) { return ring.Replace(hostsAt("")) }, "has no address"},
		"too many":        {func() (*ringpop.Ring, error) { return ring.With(many...) }, "fewer points"},
	} {
		got, err := c.make()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
		if got != nil {
			t.Errorf("%s: a ring besides the error", name)
		}
	}
}

func TestValidateNamesEachFaultOnce(t *testing.T) {
	err := ringpop.Validate(hostsAt("b", "", "a", "b", "b", "c", "", "c"))
	if err == nil {
		t.Fatal("no error")
	}
	for fault, want := range map[string]int{`"b" is`: 1, `"c" is`: 1, "host 2 of 8": 1, "host 7 of 8": 1, "\n": 3} {
		if got := strings.Count(err.Error(), fault); got != want {
			t.Errorf("%q stands %d times, want %d, in:\n%v", fault, got, want, err)
		}
	}
}

// TestKeysAreSpread states the balance that the package doc promises.
func TestKeysAreSpread(t *testing.T) {
	const keys = 100_000
	for _, c := range []struct {
		hosts int
		most  float64 // times the mean
	}{{3, 1.15}, {10, 1.2}, {100, 1.35}, {1000, 1.5}} {
		ring := mustNew(t, someHosts(c.hosts), 0)
		owned := map[string]int{}
		for key := range someKeys(keys) {
			owned[ring.Owner(key)]++
		}
		fullest := float64(slices.Max(slices.Collect(maps.Values(owned)))) * float64(c.hosts) / keys
		t.Logf("%d hosts: the fullest has %.2f times the mean", c.hosts, fullest)
		if fullest > c.most {
			t.Errorf("%d hosts: the fullest has %.2f times the mean, want at most %.2f", c.hosts, fullest, c.most)
		}
		if len(owned) != c.hosts {
			t.Errorf("%d of %d hosts own keys", len(owned), c.hosts)
		}
	}
}

// TestLookupsDoNotAllocate also takes a key beyond the 32 bytes that the
// compiler would copy to the stack.
func TestLookupsDoNotAllocate(t *testing.T) {
	ring := mustNew(t, someHosts(100), 0)
	live := ringpop.NewLive(0)
	if err := live.Set(ring.Hosts()); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"", "frontend:orders", "frontend:" + strings.Repeat("x", 1000)} {
		if n := testing.AllocsPerRun(100, func() { ring.Owner(key); live.Owner(key); ring.Has(key) }); n != 0 {
			t.Errorf("%d-byte key: %v allocations, want 0", len(key), n)
		}
	}
}

func mustNew(t testing.TB, hosts []ringpop.Host, points int) *ringpop.Ring {
	t.Helper()
	ring, err := ringpop.New(hosts, points)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func hostsAt(addresses ...string) []ringpop.Host {
	hosts := make([]ringpop.Host, len(addresses))
	for i, a := range addresses {
		hosts[i].Address = a
	}
	return hosts
}

func someHosts(n int) []ringpop.Host {
	hosts := make([]ringpop.Host, n)
	for i := range hosts {
		hosts[i].Address = fmt.Sprintf("10.0.%d.%d:7933", i/250, i%250+1)
	}
	return hosts
}

func someKeys(n int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range n {
			if !yield(fmt.Sprintf("frontend:domain-%08d", i)) {
				return
			}
		}
	}
}

func TestLabelsDoNotMoveKeys(t *testing.T) {
	plain := []ringpop.Host{{Address: "a"}, {Address: "b", Identity: "two"}, {Address: "c"}}
	ring, err := ringpop.New(plain, ringpop.DefaultPoints)
	if err != nil {
		t.Fatal(err)
	}
	labelled := slices.Clone(plain)
	labelled[1].Labels = "zone=a, version = 2,old"
	next, err := ring.Replace(labelled)
	if err != nil {
		t.Fatal(err)
	}
	if next == ring {
		t.Error("new labels make no new ring: nobody hears of them")
	}
	for i := range 1000 {
		if key := fmt.Sprint("k", i); ring.Owner(key) != next.Owner(key) {
			t.Fatalf("%s moved from %s to %s", key, ring.Owner(key), next.Owner(key))
		}
	}
	want := map[string]string{"zone": "a", "version": "2", "old": ""}
	for _, h := range next.Hosts() {
		if got := h.LabelMap(); h.Address == "b" && !maps.Equal(got, want) || h.Address != "b" && got != nil {
			t.Errorf("%s has the labels %v", h.Address, got)
		}
	}
}

func TestSharesAreThePartsOfAllKeys(t *testing.T) {
	for _, n := range []int{0, 1, 3, 10} {
		var hosts []ringpop.Host
		for i := range n {
			hosts = append(hosts, ringpop.Host{Address: fmt.Sprintf("10.0.0.%d:7933", i)})
		}
		ring, err := ringpop.New(hosts, 0)
		if err != nil {
			t.Fatal(err)
		}
		const keys = 100_000
		owned := make(map[string]float64)
		for i := range keys {
			owned[ring.Owner(fmt.Sprint("key", i))] += 1. / keys
		}
		sum := 0.
		shares := ring.Shares()
		for host, share := range shares {
			sum += share
			if math.Abs(share-owned[host]) > 0.01 {
				t.Errorf("%d hosts: %s owns %.3f of the keys, its share is %.3f", n, host, owned[host], share)
			}
		}
		if len(shares) != n || n > 0 && math.Abs(sum-1) > 1e-9 {
			t.Errorf("%d hosts: %d shares, %v together", n, len(shares), sum)
		}
	}
	one, err := ringpop.New([]ringpop.Host{{Address: "a:1"}}, 1)
	if err != nil || one.Shares()["a:1"] != 1 {
		t.Errorf("one point: %v, %v", one.Shares(), err)
	}
}
