// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"testing"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/rpc/usage"
)

// newcomer is the pool of a key under auto that came here at 0, empty.
func newcomer(t *testing.T, limit algorithm.Limit) *asked {
	c := reaching(algorithm.NameAuto)
	c.Rule.Burst = limit.Burst
	k, ok := New(0, 0, c).(*asked)
	if !ok {
		t.Fatal("hosts do not ask for it")
	}
	return k
}

// While an owner learns, its pool fills by what it knows that hosts do not hold: nothing, if an earlier owner may
// have granted it, and what is neither handed over nor reported as rates else.
func TestAPoolFillsByWhatIsNotWithHosts(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 100}
	const at = 400 * time.Millisecond
	for name, tt := range map[string]struct {
		before func(k *asked)
		fills  float64
	}{
		"a new key": {func(*asked) {}, 40},
		"a host that asks has a grant": {func(k *asked) {
			k.Take(0, limit, &usage.Take{Auto: true, More: 1}, 7, 1)
		}, 0},
		"rates are handed over": {func(k *asked) {
			k.Take(0, limit, &usage.Take{Auto: true, Told: 50, By: 3, Handed: true, Rates: .25}, 7, 1)
		}, 30},
		"hosts report more than that": {func(k *asked) {
			k.Take(0, limit, &usage.Take{Auto: true, Told: 50, By: 3, Handed: true, Rates: .25}, 7, 1)
			k.Report(0, limit, 1, &account.Report{Elapsed: time.Second, Has: .5})
		}, 20},
	} {
		k := newcomer(t, limit)
		k.Take(0, limit, &usage.Take{Auto: true, Tokens: 90}, 7, 2)
		tt.before(k)
		from := k.pool
		if k.Take(at, limit, &usage.Take{Auto: true}, 7, 2); !near(k.pool-from, tt.fills) {
			t.Errorf("%s: in %v the pool fills from %v to %v", name, at, from, k.pool)
		}
	}
}

// What an owner that hands a key over has left is without what it granted. So the next owner takes off nothing for a host
// that says that it has a grant of the earlier one.
func TestWhatIsHandedOverIsWithoutGrants(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 100}
	for name, tt := range map[string]struct {
		handed bool
		rates  float64
		left   float64
	}{
		"handed over": {true, .5, 50},
		"lost":        {false, 0, 0}, // nobody knows what was left
		"by a host that did not know of the grants": {true, 0, 50}, // it had just begun
	} {
		k := newcomer(t, limit)
		if tt.handed {
			k.Take(0, limit, &usage.Take{Auto: true, Told: 50, By: 3, Handed: true, Rates: tt.rates}, 7, 1)
		}
		for host := range uint32(3) {
			k.Report(0, limit, host, &account.Report{Elapsed: time.Second, Wants: 10, Has: .1})
		}
		if !near(k.pool, tt.left) {
			t.Errorf("%s: the pool has %v, and should have %v", name, k.pool, tt.left)
		}
	}
}

// An owner whose pool began a moment ago knows all that it gave: what the key's present owner gave before that
// does not come off what the sender has.
func TestAHandOverTakesWhatItsOwnerGave(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 100}
	from := newcomer(t, limit) // a host that has just begun, and believed for a moment to own the key
	from.Take(s, limit, &usage.Take{Auto: true, Tokens: 80}, 3, 1)
	const at = s + s/10
	row, _ := from.Left(at, limit)
	if !near(row.Told, 30) || !near(row.Kept, 20) {
		t.Fatalf("after 80 of 100 were taken, and 10 came in, %v are left and %v kept", row.Told, row.Kept)
	}
	row.By = 3
	for name, tt := range map[string]struct {
		before, kept, left float64
	}{
		"the owner has given an event":                      {1, row.Kept, 29},
		"it had given all, before the sender began":         {100, row.Kept, 20},
		"the same, and the sender is of an earlier release": {100, 0, -70},
	} {
		k := newcomer(t, limit)
		k.Take(0, limit, &usage.Take{Auto: true, Tokens: tt.before}, 7, 2)
		handed := row
		handed.Kept = tt.kept
		k.Take(at, limit, &handed, 7, 2)
		if !near(k.pool, tt.left) {
			t.Errorf("%s: %v are left, want %v", name, k.pool, tt.left)
		}
	}
}

// What an owner says is left is without what it has just lent.
func TestWhatIsLeftIsWithoutTheLoan(t *testing.T) {
	limit := algorithm.Limit{Rate: 10, Burst: 100}
	k := askedOf(limit)
	(&askingHost{id: 1}).report(k, 0, limit, 20)
	took := k.Take(0, limit, &usage.Take{Auto: true, Tokens: 1, More: 20, Wants: 20}, 7, 1)
	if took.Lent == 0 || took.Left != k.pool {
		t.Errorf("%v are lent and %v left; the pool has %v", took.Lent, took.Left, k.pool)
	}
}

// A host that was taken for dead, and has no grant, is charged its starter, and not what it used by its fallback.
func TestAHostWithoutAGrantIsChargedItsStarter(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 100}
	k := known(limit)
	plain(k).terms.Limit = 100
	(&elasticHost{}).report(k, 0, limit, 1, 10)
	starter := float64(plain(k).rows.At(plain(k).rows.Find(1)).starter())
	const now = 5 * interval
	k.Expire(now, func(uint32) {})
	k.Report(now, limit, 2, &account.Report{Elapsed: time.Second})
	has := func() float64 { return plain(k).pool + plain(k).lent }
	before := has()
	if k.Report(now, limit, 1, &account.Report{Allowed: 600, Elapsed: now}); !near(before-has(), starter) {
		t.Errorf("it is charged %v, and its starter was %v", before-has(), starter)
	}
}

// The past of a key is kept for no longer than hosts may go by it.
func TestAKeyHasNoPastForGood(t *testing.T) {
	for _, name := range []string{algorithm.NameElastic, algorithm.NameAuto} {
		k := made(name)
		for i, rate := range []float64{100, 50, 50, 50} {
			now := time.Duration(i) * interval
			k.Expire(now, func(uint32) {})
			k.Report(now, algorithm.Limit{Rate: rate, Burst: 100}, 1, &account.Report{Elapsed: interval, Wants: 1})
		}
		k.Expire(5*interval, func(uint32) {})
		if plain(k).past != nil {
			t.Errorf("%s: what was four intervals ago is known for good", name)
		}
	}
}

// A key goes to another owner, and comes back while hosts hold grants of both. The owner between took in what they
// held of here before: they have nothing to give back.
func TestAPoolThatComesBackGainsNothing(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 100}
	k := askedOf(limit)
	if g, ok := k.Report(0, limit, 1, &account.Report{Elapsed: s, Wants: 60, Cost: 1}); !ok || g.Weight == 0 {
		t.Fatalf("a host is granted %+v", g)
	}
	k.Leave(s)
	k.Take(2*s, limit, &usage.Take{Auto: true, Told: 0, By: 3, Handed: true}, 7, 2)
	before := k.pool
	k.Report(2*s, limit, 1, &account.Report{Allowed: 10, Elapsed: s, Wants: 60, Cost: 1, Has: .3})
	if got := k.pool + k.lent; got > before {
		t.Errorf("with the report of a host, the pool has %v in place of %v", got, before)
	}
}

// A host without a grant uses its fallback while the owner learns. What it used beyond
// that was charged by callers, and nobody else knows of it.
func TestAnOwnerThatLearnsKeepsDebts(t *testing.T) {
	limit := algorithm.Limit{Rate: 10, Burst: 20}
	for _, tt := range []struct {
		report account.Report
		pool   float64
	}{
		{account.Report{Allowed: 16}, 10},
		{account.Report{Allowed: 26}, 0},
		{account.Report{Allowed: 60}, -34},
		{account.Report{Allowed: 60, Has: .5}, 0}, // an earlier owner may have granted it
	} {
		k := New(0, 0, reaching(algorithm.NameElastic))
		plain(k).terms.Limit, plain(k).terms.Burst = 10, 20
		tt.report.Elapsed = 600 * time.Millisecond
		if k.Report(0, limit, 1, &tt.report); !near(plain(k).pool, tt.pool) {
			t.Errorf("%+v: the pool has %v: it should have %v", tt.report, plain(k).pool, tt.pool)
		}
	}
}
