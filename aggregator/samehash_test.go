// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"testing"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/internal/account/average"
	"github.com/headgate/headgate/aggregator/internal/owned"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/rpc/usage"
)

// Look finds by hash, which another key may have: the text decides.
func TestAKeyOfTheSameHashIsNotMistaken(t *testing.T) {
	a := weighted(t, cadence)
	text := reportOf(algorithm.NameRequestWeighted, 60, 0, time.Second, "k")
	step(t, a, 0, "a", text)
	k := known(a, algorithm.NameRequestWeighted, "k")
	b := a.keys.Table.Shard(7).Map(text.Algorithm)
	c, err := k.Settings.Config(k.Rule, text.Algorithm)
	if err != nil {
		t.Fatal(err)
	}
	other := owned.New(0, "other", k.Settings, c, average.New(0, 0, c))
	b.Add(7, other)
	b.Add(7, k)
	id := a.keys.Hosts.Acquire("b")
	other.Account.Report(0, algorithm.Limit{}, id, &account.Report{Rates: account.Rates{Allowed: 1}, Elapsed: s}) // the row that has host a in k
	var g usage.Grants
	resize(&g, 1, false)
	u := update{core: &a.Core, settings: a.settings.Load(), usage: text, algorithm: text.Algorithm, host: id, grants: &g}
	likely := b.Look(7)
	u.fetch([]int32{0}, []*owned.Key{likely})
	if likely != other || u.found[0] == none {
		t.Fatal("the test is about a key that look mistakes")
	}
	if err := u.row(likely, u.found[0], 0, 7); err != nil {
		t.Fatal(err)
	}
	if k.Account.Hosts() != 2 || other.Account.Hosts() != 1 || !near(g.Weight[0], 0.5) {
		t.Errorf("k has %d hosts, the other key %d; the grant is %v", k.Account.Hosts(), other.Account.Hosts(), g.Weight[0])
	}
}
