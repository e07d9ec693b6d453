// SPDX-License-Identifier: Apache-2.0

package parent_test

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/parent"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
)

const s = time.Second

// hosts is the account of hosts that report what they want.
type hosts struct {
	account.Account
	bands []account.Band
}

func (h *hosts) Demand(yield func(account.Band) bool) {
	for _, b := range h.bands {
		if !yield(b) {
			return
		}
	}
}

// holders is the account of hosts that hold amounts.
type holders struct {
	account.Leaser
	hosts

	leased  float64
	learned time.Duration
}

func (h *holders) Demand(yield func(account.Band) bool) { h.hosts.Demand(yield) }
func (h *holders) Leased() float64                      { return h.leased }
func (h *holders) Learned(at time.Duration)             { h.learned = at }
func (h *holders) Learns(time.Duration, bool) bool      { return h.learned == 0 }

// drawers is the account of hosts that draw on a pool.
type drawers struct {
	account.Pooled
	hosts

	reach algorithm.Reach
}

func (d *drawers) Demand(yield func(account.Band) bool) { d.hosts.Demand(yield) }
func (d *drawers) Reached() algorithm.Reach             { return d.reach }

// free is the lock of a key that no other goroutine uses.
type free struct{}

func (free) Lock(now time.Duration) time.Duration { return now }
func (free) Unlock()                              {}

// key is one below a cluster.
type key struct {
	*parent.Client
	*parent.Lease

	refused, leased int
}

// raised returns the key k with the account a, whose owner began at 0, with reports every second.
func raised(a account.Account, rule *dynamicconfig.Rule, shadow bool) *key {
	k := new(key)
	k.Client = parent.NewClient(slog.New(slog.DiscardHandler), func() time.Duration { return 0 }, func() { k.refused++ })
	k.Lease = k.Raise(0, parent.Key{Text: "k", Account: a, Lock: free{}, Leased: func(time.Duration) { k.leased++ }}, rule, shadow, s)
	return k
}

// ruled is a limit of 1,000/s below a cluster.
func ruled() *dynamicconfig.Rule {
	return &dynamicconfig.Rule{Limit: 1000, Burst: 100, Parent: true, SafeCapacity: 7}
}

// leased is an answer.
func leased(amount float64) claims.Lease {
	return claims.Lease{Amount: amount, Lasts: 60 * s, Refresh: 8 * s, Learns: 30 * s, Safe: 3}
}

// answer has k claim at now, and answers with l.
func (k *key) answer(t *testing.T, now time.Duration, l claims.Lease) claims.Claim {
	t.Helper()
	asked := k.Ask(now, "region")
	if asked == nil {
		t.Fatalf("at %v nothing is claimed", now)
	}
	k.Hear(now, asked, &claims.Leases{Rows: []claims.Lease{l}}, nil)
	return asked.Rows[0]
}

func wanting(wants float64) hosts { return hosts{bands: []account.Band{{Clients: 2, Wants: wants}}} }

// An answer comes after the key has lost its cluster above.
func TestAnEndedLeaseHearsNothing(t *testing.T) {
	a := &holders{hosts: wanting(10)}
	k := raised(a, ruled(), false)
	asked := k.Ask(0, "region")
	if l := k.Follow(nil, false); l != nil {
		t.Error("a key without a rule has a lease")
	}
	k.Hear(s, asked, &claims.Leases{Rows: []claims.Lease{leased(5)}}, nil)
	if k.leased != 0 || a.learned != 0 {
		t.Errorf("the owner is told %d times of another amount, and that others have nothing after %v", k.leased, a.learned)
	}
}

func TestAnAnswerWithAnErrorIsNone(t *testing.T) {
	failed := errors.New("away")
	for name, tt := range map[string]struct {
		rows    []claims.Lease
		errs    []error
		refused int
	}{
		"a row":            {[]claims.Lease{leased(5)}, []error{failed}, 0},
		"all":              {nil, []error{failed}, 0},
		"nothing":          {nil, nil, 0},
		"too many errors":  {[]claims.Lease{leased(5)}, []error{nil, nil}, 1},
		"too few errors":   {[]claims.Lease{leased(5)}, []error{}, 1},
		"too many answers": {[]claims.Lease{leased(5), leased(5)}, nil, 1},
	} {
		k := raised(&hosts{}, ruled(), false)
		asked := k.Ask(0, "region")
		var leases *claims.Leases
		if tt.rows != nil {
			leases = &claims.Leases{Rows: tt.rows}
		}
		k.Hear(s, asked, leases, tt.errs)
		if k.refused != tt.refused || !k.Waits() {
			t.Errorf("%s: %d refused, it waits: %v", name, k.refused, k.Waits())
		}
		if asked := k.Ask(2*s-1, "region"); asked != nil {
			t.Errorf("%s: asked again at once", name)
		}
		if asked := k.Ask(2*s, "region"); asked == nil {
			t.Errorf("%s: not asked again after a second", name)
		}
	}
}

// The account that answers claims for both, and both hear the answer.
func TestTheShadowOfAnAccountHearsWithoutAsking(t *testing.T) {
	k := raised(&hosts{}, ruled(), false)
	shadow := k.Raise(0, parent.Key{Text: "k", Account: &hosts{}, Lock: free{}, Leased: func(time.Duration) {}}, ruled(), true, s)
	other := k.Raise(0, parent.Key{Text: "other", Account: &hosts{}, Lock: free{}, Leased: func(time.Duration) {}}, ruled(), false, s)
	asked := k.Ask(5*s, "region")
	if len(asked.Rows) != 2 {
		t.Fatalf("%d claims for two keys", len(asked.Rows))
	}
	newer := k.Raise(0, parent.Key{Text: "k", Account: &hosts{}, Lock: free{}, Leased: func(time.Duration) {}}, ruled(), false, s)
	k.Hear(9*s, asked, &claims.Leases{Rows: []claims.Lease{leased(5), leased(6)}}, nil)
	for _, l := range []*parent.Lease{k.Lease, shadow} {
		if l.Part(65*s-1) != 0.005 || l.Part(65*s) == 0.005 {
			t.Error("what is leased does not count from the claim on")
		}
	}
	if shadow.Waits() || other.Part(9*s) != 0.006 {
		t.Errorf("the shadow waits: %v; another key has %v of its limit", shadow.Waits(), other.Part(9*s))
	}
	if !newer.Waits() {
		t.Error("the answer to a claim is taken in by a key that came after it")
	}
}

func TestAMessageHasNoMoreClaimsThanItMay(t *testing.T) {
	k := raised(&hosts{}, ruled(), false)
	for i := range rpc.MaxKeys {
		k.Raise(0, parent.Key{Text: fmt.Sprint(i), Account: &hosts{}, Lock: free{}}, ruled(), false, s)
	}
	if first, rest := k.Ask(0, "region"), k.Ask(0, "region"); len(first.Rows) != rpc.MaxKeys || len(rest.Rows) != 1 {
		t.Errorf("%d claims, and %d", len(first.Rows), len(rest.Rows))
	}
}

func TestWhatALeaseIsWorth(t *testing.T) {
	k := raised(&hosts{bands: []account.Band{{Clients: 2}}}, ruled(), false)
	if part := k.Part(0); part != 0.014 {
		t.Errorf("before there is an answer: %v of the limit, want what is safe for two clients", part)
	}
	k.answer(t, 0, leased(500))
	for _, tt := range []struct {
		at    time.Duration
		part  float64
		lasts time.Duration
	}{{0, 0.5, 20 * s}, {50 * s, 0.5, 10 * s}, {60*s - 1, 0.5, 1}, {60 * s, 0.003, 20 * s}} {
		if part, lasts := k.Part(tt.at), k.Lasts(tt.at, 20*s); part != tt.part || lasts != tt.lasts {
			t.Errorf("at %v: %v for %v, want %v for %v", tt.at, part, lasts, tt.part, tt.lasts)
		}
	}
	none := ruled()
	none.Limit = 0
	if part := k.Follow(none, false).Part(0); part != 0 {
		t.Errorf("of a limit of 0: %v", part)
	}
	if c := k.answer(t, 8*s, leased(5)); c.Has != 500 {
		t.Errorf("it has %v, by its claim", c.Has)
	}
	if c := k.answer(t, 68*s, leased(5)); c.Has != 0 {
		t.Errorf("when its lease ends, it has %v, by its claim", c.Has)
	}
}

func TestTheBurstIsTwoOfTheLargestEvents(t *testing.T) {
	k := raised(&hosts{}, ruled(), false)
	for _, tt := range []struct{ costs, burst float64 }{{0, 2}, {0.5, 2}, {5, 10}, {3, 10}, {101, 10}, {100, 200}} {
		if k.Costs(tt.costs); k.Burst() != tt.burst {
			t.Errorf("after an event of %v: %v, want %v", tt.costs, k.Burst(), tt.burst)
		}
	}
}

// Each level asks twice as often as the one above it.
func TestHowSoonHostsAskAgain(t *testing.T) {
	k := raised(&hosts{}, ruled(), false)
	check := func(when string, refresh, recalculate, wantRefresh, wantRecalculate time.Duration) {
		t.Helper()
		if r, c := k.Refresh(refresh), k.Recalculate(recalculate, refresh); r != wantRefresh || c != wantRecalculate {
			t.Errorf("%s: after %v and %v, want %v and %v", when, r, c, wantRefresh, wantRecalculate)
		}
	}
	check("before there is a lease", 15*s, 5*s, s, 0)
	check("before there is a lease", s/2, 5*s, s/2, 0)
	k.answer(t, 0, leased(5)) // which says 8 s
	check("with a lease", 15*s, 5*s, 4*s, 4*s)
	check("with a lease", 15*s, 3*s, 4*s, 3*s)
	check("with a lease", 2*s, 3*s, 2*s, 2*s)
	short := leased(5)
	short.Refresh = s / 1000
	k.answer(t, 8*s, short)
	check("from who says to ask all the time", 15*s, 5*s, parent.MinRefresh, parent.MinRefresh)
	if asked := k.Ask(8*s+parent.MinRefresh-1, "region"); asked != nil {
		t.Error("it asks all the time")
	}
}

// What a claim says of hosts that hold amounts, and what it may not say.
func TestAClaimIsWithinTheContract(t *testing.T) {
	a := &holders{leased: 40}
	for i := range int64(rpc.MaxBands + 2) {
		a.bands = append(a.bands, account.Band{Priority: i, Clients: 0, Wants: float64(i) * 1e300})
	}
	k := raised(a, ruled(), false)
	c := k.answer(t, 0, leased(30))
	if c.Has != 40 || !c.Keep || len(c.Bands) != rpc.MaxBands || c.Bands[0].Priority != 1 {
		t.Errorf("%d bands from %+v on; it keeps %v: %v", len(c.Bands), c.Bands[0], c.Has, c.Keep)
	}
	if a.learned != 30*s {
		t.Errorf("the account learns until %v", a.learned)
	}
	a.leased = math.MaxFloat64
	c = k.answer(t, 8*s, leased(30))
	if err := (&claims.Claims{Rows: []claims.Claim{c}}).Check(); err != nil || c.Keep {
		t.Errorf("keeps: %v, %v", c.Keep, err)
	}
	if a.leased, a.learned = 10, 1; k.answer(t, 16*s, leased(30)).Has != 30 {
		t.Error("a cluster that leases out less than it has says that it has less")
	}
	if a.learned != 1 {
		t.Errorf("the account learns until %v because of a claim that kept nothing", a.learned)
	}
}

// The first claims of a key whose hosts report ask to keep what they have.
func TestAnOwnerKeepsUntilItsHostsHaveReported(t *testing.T) {
	a := &hosts{bands: []account.Band{{Clients: 1, Wants: 10}}}
	soon := leased(5)
	soon.Refresh = parent.MinRefresh
	k := raised(a, ruled(), false)
	for _, at := range []time.Duration{0, s / 2, s} {
		if c := k.answer(t, at, soon); c.Keep != (at < s) {
			t.Errorf("at %v it keeps: %v", at, c.Keep)
		}
	}
	nothing := claims.Lease{Lasts: 60 * s, Refresh: 8 * s}
	k = raised(a, ruled(), false)
	k.answer(t, 0, nothing) // to keep
	a.bands[0].Wants = 20
	k.Stir(0)
	if c := k.answer(t, 0, leased(5)); c.Keep {
		t.Error("there is nothing to keep, and it does not claim what its hosts want")
	}
	idle := new(hosts)
	k = raised(idle, ruled(), false)
	k.answer(t, 2*s, nothing)
	if !k.Waits() {
		t.Error("nothing was wanted, and it is decided that there is nothing")
	}
	idle.bands = a.bands
	k.Stir(2 * s)
	k.answer(t, 2*s, leased(5)) // at once
	idle.bands = nil
	again := nothing
	again.Learning = true
	k.answer(t, 10*s, again)
	if k.Part(10*s) != 0.005 {
		t.Errorf("it has %v of the limit, and the cluster above does not know yet what it has", k.Part(10*s))
	}
	k.answer(t, 18*s, nothing)
	if k.Part(18*s) != 0 {
		t.Errorf("it has %v of the limit, and the cluster above leases nothing", k.Part(18*s))
	}
	learning := leased(5)
	learning.Learning = true
	k = raised(a, ruled(), false)
	if k.answer(t, 2*s, learning); k.Part(2*s) != 0.005 {
		t.Errorf("it has %v of the limit from a cluster above that learns", k.Part(2*s))
	}
	k = raised(&holders{learned: 1}, ruled(), false)
	if k.answer(t, 2*s, nothing); k.Waits() {
		t.Error("it waits for a lease, and there is nothing for hosts that hold amounts")
	}
}

// Claims come before their time if hosts want something else.
func TestWhatBringsAClaimForward(t *testing.T) {
	for name, tt := range map[string]struct {
		pool      bool
		was, want float64 // of 1,000
		early     bool
	}{
		"more":             {false, 500, 511, true},
		"hardly more":      {false, 500, 510.1, false},
		"less":             {false, 500, 480, true},
		"little, and less": {false, 9, 5, true},
		"a pool's less":    {true, 500, 480, true},
		"a pool's little":  {true, 9, 5, false},
		"a pool's none":    {true, 10, 0, false},
		"a pool's more":    {true, 9, 12, true},
	} {
		a := &drawers{hosts: wanting(tt.was)}
		k := raised(a, ruled(), false)
		if !tt.pool {
			k = raised(&a.hosts, ruled(), false)
		}
		k.answer(t, s, leased(5)) // claims again after 8 s, and no earlier than after 2 s
		a.bands[0].Wants = tt.want
		k.Stir(2 * s)
		if k.Ask(3*s-1, "region") != nil {
			t.Errorf("%s: it claims too early", name)
		}
		if asked := k.Ask(3*s, "region"); (asked != nil) != tt.early {
			t.Errorf("%s: claims early %v, want %v", name, asked != nil, tt.early)
		}
		k.Ask(100*s, "region")
		a.bands[0].Wants = 1e6
		if k.Stir(200 * s); k.Ask(200*s, "region") != nil {
			t.Errorf("%s: it claims while a claim is under way", name)
		}
	}
}

// A pool may have few events. Its claims fall slowly.
func TestTheClaimsOfAPoolFallSlowly(t *testing.T) {
	for name, tt := range map[string]struct {
		reach algorithm.Reach
		wants float64
		first float64 // claimed once nothing is wanted
		last  float64 // what is claimed before nothing is
	}{
		"asked":            {algorithm.ReachAlways, 100, 75, account.Idle},
		"never asked":      {algorithm.ReachNever, 100, 10, account.Idle},
		"never, of little": {algorithm.ReachNever, 4, 3, account.Idle},
	} {
		a := &drawers{hosts: wanting(tt.wants), reach: tt.reach}
		k, at, was := raised(a, ruled(), false), s, 0.0
		k.answer(t, at, leased(5))
		for a.bands[0].Wants = 0; at < 1000*s; was = tt.first {
			at += 8 * s
			c := k.answer(t, at, leased(5))
			if len(c.Bands) == 0 {
				break
			}
			if got := c.Bands[0].Wants; was == 0 && got != tt.first || got < tt.last {
				t.Errorf("%s: it claims %v", name, got)
			}
		}
		if at < 10*s || at >= 1000*s {
			t.Errorf("%s: nothing is claimed from %v on", name, at)
		}
	}
}
