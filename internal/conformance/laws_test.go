// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"
)

// law is what an algorithm keeps through a door.
type law struct {
	name string

	// about reports whether programs behind the door can ask for what the law is about.
	about func(d *door) bool

	// bounds: the law is about algorithms that bound what passes.
	bounds bool

	// rules are the fields of the rule, each for a cluster of its own.
	rules []string

	// cold: also in a cluster whose hosts have no grants; hosts that ask an owner for
	// each event are then not told anything else meanwhile.
	cold bool

	check func(t *testing.T, a *algorithm, c *cluster, d *door)
}

var laws = []law{
	{name: "limit", about: takes, bounds: true, rules: []string{""}, check: limitsHold},
	{name: "charge", about: charges, bounds: true, rules: []string{""}, check: chargesAreOwed},
	{name: "close", about: charges, rules: []string{"", "max_wait: 3s,", "max_debt: 2s, max_cost: 80,"}, check: noChargeClosesForLong},
	{name: "wait", about: takes, rules: []string{"", "max_wait: 300ms,", "max_debt: 2s,"}, check: waitsAreBounded},
	{name: "deadline", about: func(d *door) bool { return d.waits != nil }, rules: []string{""}, check: deadlinesBoundWaits},
	{name: "refund", about: func(d *door) bool { return d.hold != nil }, rules: []string{""}, cold: true, check: refundsAreExactAndOnce},
	{name: "left", about: takes, rules: []string{""}, cold: true, check: answersAreTrue},
}

func charges(d *door) bool { return d.charge != nil }

func takes(d *door) bool { return d.take != nil }

// arrive waits until what an answer did not wait for is done.
func arrive(a *algorithm) {
	if a.remote {
		time.Sleep(2 * time.Millisecond)
	}
}

// limitsHold: at most limit·t + burst + over passes in t, and not much less, whether callers wait or not.
func limitsHold(t *testing.T, a *algorithm, c *cluster, d *door) {
	passes(t, a, c, d, 0)
	if d.waits != nil {
		waitersPass(t, a, c, d)
	}
}

// waitersPass has many callers of the program at d, and one of another host, wait again and again.
func waitersPass(t *testing.T, a *algorithm, c *cluster, d *door) {
	const callers, lasts = 120, 10 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	other := c.nodes[1].Group().For(key)
	began, passed := time.Now(), make(chan int)
	for i := range callers + 1 {
		wait := d.waits
		if i == callers {
			wait = func(ctx context.Context) bool { return other.Wait(ctx) == nil }
		}
		go func() {
			n := 0
			for ctx.Err() == nil {
				if wait(ctx) {
					n++
				} else {
					time.Sleep(20 * time.Millisecond)
				}
			}
			passed <- n
		}()
	}
	all := 0
	for range callers + 1 {
		all += <-passed
	}
	took := time.Since(began)
	if most := limit*took.Seconds() + burst + a.over(took) + 1; float64(all) > most {
		t.Errorf("%d callers that wait pass %d times in %v: at most %.1f", callers, all, took, most)
	}
	if least := 0.8 * limit * took.Seconds(); float64(all) < least {
		t.Errorf("%d callers that wait pass %d times in %v: at least %.1f should", callers, all, took, least)
	}
}

// chargesAreOwed: after a charge of n, at most limit·t + burst − n + over passes, and not
// much less.
func chargesAreOwed(t *testing.T, a *algorithm, c *cluster, d *door) { passes(t, a, c, d, 90) }

// passes charges n, and has the program at d and another host take all that they get.
// Where hosts have parts of the limit, that of one host owes the charge: what the part has
// not had yet is still owed at t, and does not lower what others may use.
func passes(t *testing.T, a *algorithm, c *cluster, d *door, n float64) {
	began := time.Now()
	if n > 0 && !d.charge(int64(n)).ok {
		t.Fatal("a charge is refused")
	}
	arrive(a)
	passed, all, owed := 0, 0.0, 0.0
	for time.Since(began) < 5*time.Second {
		for range 10 * burst {
			if !d.take(1, 0).ok {
				break
			}
			passed++
		}
		passed += drain(c.nodes[1].Group())
		time.Sleep(20 * time.Millisecond)
		all = limit*time.Since(began).Seconds() + burst
		owed = min(all, n)
		if a.parts {
			owed = min(all/hosts, n)
		}
		if most := all - owed + a.over(time.Since(began)) + 1; float64(passed) > most { // parts are not whole
			t.Fatalf("%d passed in %v after a charge of %v: at most %.1f may", passed, time.Since(began), n, most)
		}
	}
	if least := 0.8*all - owed; float64(passed) < least {
		t.Errorf("%d passed in %v after a charge of %v: at least %.1f should", passed, time.Since(began), n, least)
	}
}

// noChargeClosesForLong: no charge closes a key for longer than a bucket takes to come
// back from −(burst + limit·max(max_debt, max_wait) + max_cost).
func noChargeClosesForLong(t *testing.T, a *algorithm, c *cluster, d *door) {
	rule := d.group.For(key).Rule()
	owes := rule.MostDebt()
	if a.parts { // a part of the limit pays a debt that is less only by a part of the burst and of what is borrowed
		owes += (hosts - 1) * rule.Costliest()
	}
	for _, n := range []int64{1e12, math.MaxInt64} {
		began := time.Now()
		for range 3 {
			if !d.charge(n).ok {
				t.Fatal("a charge is refused")
			}
		}
		time.Sleep(2 * interval) // until all have heard of it
		most := time.Duration((owes+1)/limit*float64(time.Second)) + 2*interval
		for _, g := range c.groups(d) {
			for !g.For(key).Allow() {
				if time.Since(began) > most {
					t.Fatalf("%d closes the key for more than %v", n, most)
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
		t.Logf("closed for %v of %v", time.Since(began), most)
		time.Sleep(most)
	}
}

// waitsAreBounded: an event waits no longer than the rule, the request and the default of
// other programs allow.
func waitsAreBounded(t *testing.T, a *algorithm, c *cluster, d *door) {
	const cost, takers = 5, 60
	rule, asked := d.group.For(key).Rule(), time.Duration(0)
	if d.queues { // what it takes to ask is in its wait
		asked = rule.AskTimeout
	}
	for _, longest := range []time.Duration{0, 100 * time.Millisecond, asksForAll} {
		most := min(longest, rule.LongestWait())
		if d.unbounded && rule.MaxWait == 0 {
			most = longest
		}
		began, granted := time.Now(), 0
		answers := make(chan answer)
		for range takers {
			go func() { answers <- d.take(cost, longest) }()
		}
		for range takers {
			switch got := <-answers; {
			case got.ok && got.wait > most+asked:
				t.Errorf("a take that would wait for %v waits for %v: at most %v", longest, got.wait, most)
			case got.ok:
				granted += cost
			}
		}
		owed := max(most, rule.MaxDebt) + time.Since(began)
		if few := limit*owed.Seconds() + burst + a.over(owed) + 1; most < asksForAll && float64(granted) > few {
			t.Errorf("%d tokens are granted to takes that would wait for %v: at most %.1f may", granted, longest, few)
		}
		if longest < asksForAll {
			time.Sleep(2*owed + 4*interval)
		}
	}
}

// deadlinesBoundWaits: who cannot have a token before the deadline hears so at once, or at
// the deadline at the latest, and takes none. Neither does who leaves then.
func deadlinesBoundWaits(t *testing.T, a *algorithm, c *cluster, d *door) {
	const deadline = 3 * time.Millisecond // a token takes at least 10
	drain(d.group)
	for i := range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		if i%2 == 0 { // it does not say when it leaves
			ctx, cancel = context.WithCancel(t.Context())
			time.AfterFunc(deadline, cancel)
		}
		began := time.Now()
		ok := d.waits(ctx)
		cancel()
		if spent := time.Since(began); spent > deadline {
			t.Fatalf("a wait with %v to go ends after %v", deadline, spent)
		}
		if ok {
			drain(d.group)
		}
	}
	// Had they taken tokens, the key would be in debt for 200 ms and more.
	began := time.Now()
	if ctx, cancel := context.WithTimeout(t.Context(), 4*interval); !d.waits(ctx) {
		t.Error("a wait that may last is refused")
		cancel()
	} else {
		cancel()
	}
	if waited := time.Since(began); waited > 100*time.Millisecond {
		t.Errorf("the next one waits for %v", waited)
	}
}

// refundsAreExactAndOnce: what is settled for less comes back, once; for more is taken.
func refundsAreExactAndOnce(t *testing.T, a *algorithm, c *cluster, d *door) {
	if got := d.take(2, 0); !got.ok { // so that the bucket has room
		t.Fatal("a take is refused")
	}
	if d.cancels { // so that the time of what is held is not now
		drain(d.group)
	}
	before, began := c.left(d), time.Now()
	used := 0.0
	look := func(what string) {
		t.Helper()
		arrive(a)
		if left, least := c.left(d), before-used; left < least-0.01 || left > least+limit*time.Since(began).Seconds()+0.01 {
			t.Errorf("%s: %v left after %v, want %v", what, left, time.Since(began), least)
		}
	}
	for _, tc := range []struct{ hold, cost int64 }{{4, 1}, {4, 0}, {4, 4}, {3, 5}} {
		if d.cancels && tc.cost > 0 {
			continue
		}
		got, settle := d.hold(tc.hold)
		if !got.ok {
			t.Fatal("a hold is refused")
		}
		used += float64(tc.hold)
		look(fmt.Sprintf("a hold of %d", tc.hold))
		settle(tc.cost)
		used += float64(tc.cost - tc.hold)
		look(fmt.Sprintf("a hold of %d that costs %d", tc.hold, tc.cost))
		settle(0)
		look("settled again")
	}
}

// answersAreTrue: what an answer says is left, is.
func answersAreTrue(t *testing.T, a *algorithm, c *cluster, d *door) {
	check := func(what string, got answer) {
		t.Helper()
		began := time.Now()
		arrive(a)
		left := c.left(d)
		least := left - limit*(time.Since(began)+time.Millisecond).Seconds() // which came since then
		if d.rounds {
			least = math.Floor(least)
		}
		if got.tells && (got.left > left+0.01 || got.left < least) {
			t.Errorf("%s says that %v are left, and there are %v", what, got.left, left)
		}
	}
	for range 5 {
		got := d.take(1, 0)
		if !got.ok {
			t.Fatal("a take is refused")
		}
		check("a take", got)
	}
	// As many as are left pass.
	for range int(min(c.left(d), burst)) {
		if !d.take(1, 0).ok {
			t.Errorf("a take is refused, with %v left", c.left(d))
		}
	}
	if d.charge != nil {
		check("a charge", d.charge(20))
		check("a charge of all", d.charge(math.MaxInt64))
	}
	check("a refusal", d.take(1, 0))
}

// left is what the bucket has that decides for the program at d.
func (c *cluster) left(d *door) float64 {
	return d.group.For(key).Decide(c.t.Context(), 0, 0).Left
}
