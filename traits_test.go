// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/mesh"
)

// Rules are checked, and hosts report, by what dynamicconfig says of each
// algorithm. The algorithms themselves must agree.
func TestTraitsAreThoseOfTheAlgorithms(t *testing.T) {
	r := algorithm.Builtin()
	for _, name := range r.Names() {
		traits, ok := dynamicconfig.TraitsOf(name)
		if !ok {
			t.Errorf("%s: dynamicconfig does not know it", name)
			continue
		}
		a, err := r.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		want, ok := dynamicconfig.TraitsOf(algorithm.Pair(a.Account, name))
		switch a.Reach {
		case algorithm.ReachWhenOut:
			want.Asks, want.Slots = true, false
		case algorithm.ReachAlways: // hosts report nothing
			want = dynamicconfig.Traits{Rates: true, Asks: true}
		}
		want.Pooled = a.Reach != algorithm.ReachNever || name == algorithm.NameElastic
		if !ok || traits != want {
			t.Errorf("%s: %+v, and those of its account are %+v", name, traits, want)
		}
		if traits.Local || !traits.Rates {
			t.Errorf("%s: %+v of an algorithm that an owner runs", name, traits)
		}
	}
	for _, account := range algorithm.Accounts {
		for _, weigher := range r.Weighers(account) {
			pair := algorithm.Pair(account, weigher)
			got, _ := dynamicconfig.TraitsOf(pair)
			if want, ok := dynamicconfig.TraitsOf(r.Canonical(pair)); !ok || got != want {
				t.Errorf("%s: %+v, and by its other name, %s, %+v", pair, got, r.Canonical(pair), want)
			}
		}
	}
	elsewhere := map[string]dynamicconfig.Traits{
		limiter.Even: {Rates: true, Slots: true, Local: true},
		mesh.Name:    {Rates: true},
		"redis":      {Rates: true},
	}
	for name, want := range elsewhere {
		if got, ok := dynamicconfig.TraitsOf(name); !ok || got != want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, ok, want)
		}
	}
	// A Node has them all, and hosts ask for those that say so.
	l := listen(t)
	defer l.Close()
	text := "limits:\n"
	for name := range elsewhere {
		text += "  - {key: " + name + ", limit: 1/s, algorithm: " + name + "}\n"
	}
	for _, name := range r.Names() {
		text += "  - {key: " + name + ", limit: 1/s, algorithm: " + name + "}\n"
	}
	if _, err := headgate.New(headgate.Config{Address: "127.0.0.1:1"}, memory.New(limits(t, text)), membersAt(t, l),
		headgate.WithRemote("redis", new(willing))); err != nil {
		t.Error(err)
	}
}
