// SPDX-License-Identifier: Apache-2.0

package ringpop_test

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/dgryski/go-farm"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/ringpop"
)

// model is a ring in the plainest words: all points, sorted, walked from the
// start for each key.
type model []modelPoint

type modelPoint struct {
	hash    uint32
	address string
}

func newModel(hosts []ringpop.Host, points int) model {
	var m model
	for _, h := range hosts {
		prefix := h.Address
		if h.Identity != "" && h.Identity != h.Address {
			prefix = h.Identity + "#"
		}
		for i := range points {
			m = append(m, modelPoint{farm.Fingerprint32(fmt.Append(nil, prefix, i)), h.Address})
		}
	}
	sort.Slice(m, func(i, j int) bool {
		if m[i].hash != m[j].hash {
			return m[i].hash < m[j].hash
		}
		return m[i].address < m[j].address
	})
	return m
}

func (m model) owner(key string) string {
	hash := farm.Fingerprint32([]byte(key))
	for _, p := range m {
		if p.hash >= hash {
			return p.address
		}
	}
	if len(m) == 0 {
		return ""
	}
	return m[0].address
}

// Names whose points collide: "a1" + "1" is "a" + "11". As keys, they hash to
// the very points.
var (
	names      = rapid.StringMatching(`[ab]1{0,3}`)
	identities = rapid.OneOf(rapid.Just(""), names)
	keys       = rapid.OneOf(rapid.StringMatching(`[ab]1{0,3}#?[0-9]{1,2}`), rapid.String())
	hosts      = rapid.Custom(func(t *rapid.T) ringpop.Host {
		return ringpop.Host{Address: names.Draw(t, "address"), Identity: identities.Draw(t, "identity")}
	})
	hostLists = rapid.SliceOfNDistinct(hosts, 0, 8, func(h ringpop.Host) string { return h.Address })
)

// TestOwnersAreThoseOfTheModel changes a ring at random and compares each
// ring on the way with a model that is made from scratch.
func TestOwnersAreThoseOfTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := rapid.IntRange(1, 40).Draw(t, "points")
		want := hostLists.Draw(t, "hosts")
		ring, err := ringpop.New(want, points)
		if err != nil {
			t.Fatal(err)
		}
		compare(t, ring, want, points)
		for range rapid.IntRange(0, 5).Draw(t, "changes") {
			before, listed := ring, slices.Clone(want)
			switch rapid.IntRange(0, 2).Draw(t, "change") {
			case 0:
				more := slices.DeleteFunc(hostLists.Draw(t, "with"), func(h ringpop.Host) bool { return ring.Has(h.Address) })
				want = append(want, more...)
				ring, err = ring.With(more...)
			case 1:
				gone := rapid.SliceOf(names).Draw(t, "without")
				want = slices.DeleteFunc(slices.Clone(want), func(h ringpop.Host) bool { return slices.Contains(gone, h.Address) })
				ring = ring.Without(gone...)
			case 2:
				want = hostLists.Draw(t, "replace")
				ring, err = ring.Replace(want)
			}
			if err != nil {
				t.Fatal(err)
			}
			compare(t, ring, want, points)
			compare(t, before, listed, points) // nothing wrote into the old ring
			if same := slices.Equal(ring.Hosts(), before.Hosts()); same != (ring == before) {
				t.Fatalf("same hosts: %v, same ring: %v", same, ring == before)
			}
		}
	})
}

func compare(t *rapid.T, ring *ringpop.Ring, hosts []ringpop.Host, points int) {
	t.Helper()
	if ring.Len() != len(hosts) || ring.Points() != points {
		t.Fatalf("%d hosts of %d points, want %d of %d", ring.Len(), ring.Points(), len(hosts), points)
	}
	listed := ring.Hosts()
	if !slices.IsSortedFunc(listed, func(a, b ringpop.Host) int { return strings.Compare(a.Address, b.Address) }) {
		t.Fatalf("hosts are not sorted: %v", listed)
	}
	m := newModel(hosts, points)
	for _, key := range rapid.SliceOfN(keys, 1, 20).Draw(t, "keys") {
		if got, want := ring.Owner(key), m.owner(key); got != want {
			t.Fatalf("Owner(%q) = %q, want %q; hosts %v", key, got, want, hosts)
		}
	}
}

// TestKeysMoveOnlyToAHostThatJoins is what makes the hash consistent, also
// where points collide.
func TestKeysMoveOnlyToAHostThatJoins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.Custom(func(t *rapid.T) []ringpop.Host {
			return rapid.SliceOfNDistinct(hosts, 1, 8, func(h ringpop.Host) string { return h.Address }).Draw(t, "hosts")
		}).Draw(t, "all")
		joins := all[0]
		before, err := ringpop.New(all[1:], rapid.IntRange(1, 40).Draw(t, "points"))
		if err != nil {
			t.Fatal(err)
		}
		after, err := before.With(joins)
		if err != nil {
			t.Fatal(err)
		}
		back := after.Without(joins.Address)
		for _, key := range rapid.SliceOfN(keys, 1, 50).Draw(t, "keys") {
			was, is := before.Owner(key), after.Owner(key)
			if is != was && is != joins.Address {
				t.Fatalf("%q moved from %q to %q when %v joined", key, was, is, joins)
			}
			if again := back.Owner(key); again != was {
				t.Fatalf("%q is at %q after %v left again, was at %q", key, again, joins, was)
			}
		}
	})
}
