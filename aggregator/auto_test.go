// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/usage"
)

func autoRule(limit rate.Limit, burst float64) dynamicconfig.Rule {
	r := exactRule(limit, burst)
	r.Algorithm = algorithm.NameAuto
	return r
}

func under(t testing.TB, rule dynamicconfig.Rule) *Aggregator {
	t.Helper()
	return New(algorithm.Builtin(), snapshot(t, cadence, rule))
}

// wanted is what host gets that used nothing, wants so much, and has so much of
// the limit.
func wanted(t testing.TB, a *Aggregator, now time.Duration, name, host string, wants, has float64) *usage.Grants {
	t.Helper()
	u := reportOf(name, 0, 1, time.Second, "k")
	u.Wants, u.Weight[0] = []float64{wants}, has
	return step(t, a, now, host, u)
}

// A migration from one name of the pool to another ends with a third. The account that answered goes on, and
// not the one that was compared with it.
func TestOfTwoPoolsTheOneThatAnsweredGoesOn(t *testing.T) {
	for _, mode := range []dynamicconfig.Mode{dynamicconfig.ModeOldShadowNew, dynamicconfig.ModeNewShadowOld} {
		rule := exactRule(0.001, 100)
		rule.Migration = &dynamicconfig.Migration{From: algorithm.NameElastic, To: algorithm.NameAuto, Mode: mode}
		answers, shadow := algorithm.NameElastic, algorithm.NameAuto
		if mode == dynamicconfig.ModeNewShadowOld {
			answers, shadow = shadow, answers
		}
		a := under(t, rule)
		step(t, a, time.Hour, "h", reportOf(dynamicconfig.Measured(shadow), 0, 0, s/2, "k"))
		step(t, a, time.Hour, "h", reportOf(answers, 90, 0, s/2, "k"))
		a.Core.Configure(time.Hour, snapshot(t, cadence, exactRule(0.001, 100)))
		if got := left(t, a, time.Hour+s); got > 11 {
			t.Errorf("%v: %v tokens are left of 100, of which 90 were used", mode, got)
		}
	}
}

// Ten hosts use a limit of 3/s seldom, as they say. Whatever they ask for, auto answers
// as exact does.
func TestAutoAnswersAsExactWhereTheLimitIsLow(t *testing.T) {
	exact, auto := exactRule(3, 20), autoRule(3, 20)
	for _, debt := range []time.Duration{0, 5 * time.Second} {
		exact.MaxDebt, auto.MaxDebt = debt, debt
		exact.MaxWait, auto.MaxWait = 3*time.Second, 3*time.Second
		a, b := under(t, exact), under(t, auto)
		chance := rand.New(rand.NewPCG(1, uint64(debt)))
		now := time.Duration(0)
		for i := range 5000 {
			now += time.Duration(chance.ExpFloat64() * float64(200*time.Millisecond))
			take := usage.Take{
				Key: "k", Tokens: float64(chance.IntN(8) - 1), Longest: time.Duration(chance.Int64N(int64(4 * time.Second))),
				Spent: usage.Spent(max(chance.IntN(30)-27, 0)),
			}
			if chance.IntN(20) == 0 {
				take.By, take.Told, take.Ago = 2, 20*chance.Float64()-5, time.Duration(chance.Int64N(int64(10*time.Second)))
			}
			want := took(t, a, now, take)
			take.Auto = true
			got := took(t, b, now, take)
			if got.OK != want.OK || got.Decided != want.Decided || math.Abs(got.Left-want.Left) > 1e-6 || math.Abs(got.Short-want.Short) > 1e-6 ||
				(got.Wait-want.Wait).Abs() > time.Microsecond || (got.Retry-want.Retry).Abs() > time.Microsecond {
				t.Fatalf("take %d, %+v: got %+v, want %+v", i, take, got, want)
			}
			if host := fmt.Sprint("host", i%10); now > 2*time.Second {
				if g := wanted(t, b, now, "auto", host, 0.01, 0); g.Lease[0] == 0 || g.Weight[0] > 1e-6 || g.Tokens[0] != 0 {
					t.Fatalf("after take %d, %s is granted %+v", i, host, g)
				}
			}
			if i%100 == 0 {
				a.GC(now)
				b.GC(now)
			}
		}
	}
}

// A key that migrates between two names of its pool has another bucket for the one that is only measured.
// Hosts that have not heard of the migration take from the one that answers.
func TestWhatIsMeasuredHasABucketOfItsOwn(t *testing.T) {
	for _, m := range []dynamicconfig.Migration{{From: "exact", To: "auto"}, {From: "auto", To: "exact"}} {
		r := autoRule(1, 10)
		m.Mode = dynamicconfig.ModeOldShadowNew
		r.Algorithm, r.Migration = "", &m
		a := under(t, r)
		for _, row := range []struct {
			take usage.Take
			left float64
		}{
			{usage.Take{Auto: m.To == "auto", Measured: true, Tokens: 4}, 6},
			{usage.Take{Auto: m.From == "auto", Tokens: 1}, 9},
			{usage.Take{Auto: m.To == "auto", Tokens: 1}, 8},
		} {
			if got := took(t, a, 0, row.take); got.Left != row.left {
				t.Errorf("%+v: %+v: %+v", m, row.take, got)
			}
		}
		if got := took(t, a, 0, usage.Take{Auto: m.From == "auto", Measured: true, Tokens: 1}); got.Decided {
			t.Errorf("%+v: what answers is measured: %+v", m, got)
		}
	}
}

// The last report of what was measured, which comes after the migration has ended, takes nothing from the pool that answers.
func TestALastReportOfWhatWasMeasuredCountsNowhere(t *testing.T) {
	r := autoRule(0.001, 10)
	r.Algorithm, r.Migration = "", &dynamicconfig.Migration{From: "exact", To: "auto", Mode: dynamicconfig.ModeOldShadowNew}
	a := under(t, r)
	took(t, a, 0, usage.Take{Tokens: 3})
	wanted(t, a, 0, dynamicconfig.Measured("auto"), "h", 5, 0)
	become(t, a, 0, autoRule(0.001, 10))
	last := reportOf(dynamicconfig.Measured("auto"), 4, 0, s, "k")
	last.Weight[0] = 0.1
	if g := step(t, a, s, "h", last); g.Lease[0] != 0 {
		t.Errorf("it is granted %+v", g)
	}
	if got := took(t, a, s, usage.Take{Auto: true}).Left; got < 7 {
		t.Errorf("%v are left of the 7 that there were", got)
	}
}

// Another owner gets what is measured apart from what answers.
func TestWhatIsMeasuredIsHandedOverApart(t *testing.T) {
	r := autoRule(0.001, 10)
	r.Algorithm, r.Migration = "", &dynamicconfig.Migration{From: "exact", To: "auto", Mode: dynamicconfig.ModeOldShadowNew}
	a, heir := under(t, r), under(t, r)
	took(t, a, 0, usage.Take{Tokens: 3})
	took(t, a, 0, usage.Take{Auto: true, Measured: true, Tokens: 8})
	for _, row := range a.HandoverBuckets(0) {
		took(t, heir, 0, row)
	}
	if answers, measured := left(t, heir, 0), took(t, heir, 0, usage.Take{Auto: true, Measured: true}).Left; answers != 7 || measured != 2 {
		t.Errorf("%v are left, and %v of what is measured; want 7 and 2", answers, measured)
	}
}

func TestWhatAutoHasLeftIsKeptAndHandedOver(t *testing.T) {
	a, heir := under(t, autoRule(0.1, 10)), under(t, autoRule(0.1, 10))
	took(t, a, 0, usage.Take{Auto: true, Tokens: 8})
	a.GC(20 * time.Second)
	if got := took(t, a, 20*time.Second, usage.Take{Auto: true}); got.Left != 4 {
		t.Fatalf("after 20 s: %+v", got)
	}
	rows := a.HandoverBuckets(20 * time.Second)
	if len(rows) != 1 || !rows[0].Auto || rows[0].Told != 4 {
		t.Fatalf("handed over: %+v", rows)
	}
	took(t, heir, 0, rows[0])
	if got := took(t, heir, 0, usage.Take{Auto: true, Tokens: 1}); got.Left != 3 {
		t.Errorf("the heir: %+v", got)
	}
	for now := time.Duration(0); now < 2*time.Minute; now += 10 * time.Second {
		heir.GC(now)
	}
	if n := heir.keys.Len(); n != 0 {
		t.Errorf("%d keys after the bucket was full", n)
	}
}

// A batch whose answer was lost is withdrawn from the bucket that it was from.
func TestAutoTakesAreWithdrawn(t *testing.T) {
	a := under(t, autoRule(1e-4, 100))
	send := func(batch uint64, withdrawn ...uint64) float64 {
		return math.Round(once(t, a, &usage.Takes{Caller: 1, Batch: batch, Withdrawn: withdrawn, Rows: []usage.Take{{Key: "k", Auto: true, Tokens: 10}}}))
	}
	if got := send(1); got != 90 {
		t.Fatalf("%v left", got)
	}
	if got := send(2, 1); got != 90 {
		t.Errorf("%v left, and the first 10 are withdrawn", got)
	}
}

// A new owner that is asked first, and then hears what hosts hold of an earlier
// one's grants, counts that as out.
func TestANewOwnerOfAutoLearnsWhatIsOut(t *testing.T) {
	a := under(t, autoRule(400, 400))
	took(t, a, 0, usage.Take{Auto: true, Tokens: 40})
	for i := range 4 {
		if g := wanted(t, a, time.Duration(i)*time.Millisecond, "auto", fmt.Sprint("host", i), 100, 0.25); g.Lease[0] != 0 {
			t.Errorf("while it learns, a host is granted %+v", g)
		}
	}
	if got := took(t, a, 400*time.Millisecond, usage.Take{Auto: true}); got.Left > 0 {
		t.Errorf("hosts hold all of the limit, and %v tokens are left", got.Left)
	}
	// Once it has learned, what they hold is theirs.
	sum := 0.0
	for i := range 4 {
		g := wanted(t, a, time.Second+time.Duration(i)*time.Millisecond, "auto", fmt.Sprint("host", i), 100, 0.25)
		sum += g.Weight[0]
		if g.Lease[0] == 0 {
			t.Errorf("after it has learned, a host is granted %+v", g)
		}
	}
	if sum < 0.3 || sum > 1 {
		t.Errorf("the hosts have %v of the limit", sum)
	}
	// And what others take is not theirs.
	now := 2 * time.Second
	before := took(t, a, now, usage.Take{Auto: true}).Left
	took(t, a, now, usage.Take{Auto: true, Tokens: 7, Spent: usage.SpentBeyond})
	if got := took(t, a, now, usage.Take{Auto: true}).Left; !near(got, before-7) {
		t.Errorf("%v left of %v when 7 were taken", got, before)
	}
}

// A host with few large events is not told to be as patient as one with many events.
func TestPatienceIsForManyEvents(t *testing.T) {
	a := under(t, autoRule(10, 100))
	const now, cost = time.Minute, 10
	wanted(t, a, now-time.Second, "auto", "h", 12, 0)
	left := took(t, a, now, usage.Take{Auto: true}).Left
	took(t, a, now, usage.Take{Auto: true, Tokens: left - cost + 0.1})
	want := took(t, a, now, usage.Take{Auto: true, Tokens: cost})
	if got := took(t, a, now, usage.Take{Auto: true, Tokens: cost, More: 50}); got.OK || got.Retry != want.Retry {
		t.Errorf("about one event a second is refused: %+v; %+v without a loan", got, want)
	}
}

// Events may borrow as much while hosts hold rates as under exact. Else the largest
// would never pass.
func TestRatesDoNotTakeWhatEventsBorrow(t *testing.T) {
	rule := autoRule(100, 10)
	rule.MaxDebt, rule.MaxCost = time.Second, 100
	a, now := under(t, rule), time.Minute
	for range 6 {
		now += time.Second
		for i := range 4 {
			wanted(t, a, now, "auto", fmt.Sprint("host", i), 20, 0.2)
		}
	}
	if got := took(t, a, now, usage.Take{Auto: true, Tokens: 90}); !got.OK || got.Left < -100 {
		t.Errorf("90 tokens, with a debt of at most 100: %+v", got)
	}
}
