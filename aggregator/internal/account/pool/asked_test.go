// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/exactbucket"
	"github.com/headgate/headgate/rpc/usage"
)

// askingHost uses what it holds, and asks for what it does not hold.
type askingHost struct {
	elasticHost
	id   uint32
	asks int
}

func bucketOf(limit algorithm.Limit) exactbucket.Rule {
	return exactbucket.Rule{Rate: limit.Rate, Burst: limit.Burst}
}

// take takes n tokens at once, in full or not at all.
func (h *askingHost) take(k *asked, now time.Duration, limit algorithm.Limit, n, wants float64) bool {
	h.advance(now)
	if h.granted && h.tokens >= n {
		h.use(now, n)
		return true
	}
	h.asks++
	t := usage.Take{Auto: true, Tokens: n, Wants: wants}
	if h.granted {
		t.More = math.Max(limit.Burst-h.tokens, 0)
	}
	took := k.Take(now, limit, &t, 0, h.id)
	h.tokens += took.Lent
	h.burst = math.Max(h.burst, h.tokens)
	return took.OK
}

// drain takes all that there is, one event after the other.
func (h *askingHost) drain(k *asked, now time.Duration, limit algorithm.Limit, most int, wants float64) (got float64) {
	for range most {
		if !h.take(k, now, limit, 1, wants) {
			break
		}
		got++
	}
	return got
}

// A key far below its limit is used by many hosts, by each now and then. They hold what
// they need until their next reports, and ask for few events.
func TestHostsOfAKeyFarFromItsLimitAskSeldom(t *testing.T) {
	limit := algorithm.Limit{Rate: 1000, Burst: 1000}
	for name, every := range map[string]time.Duration{"an event in 3 s": 3 * time.Second, "in 20 s": 20 * time.Second} {
		k := askedOf(limit)
		hosts := make([]askingHost, 50)
		wants := 1 / every.Seconds()
		for i := range hosts {
			hosts[i].id = uint32(i)
			hosts[i].report(k, 0, limit, wants)
		}
		chance := rand.New(rand.NewPCG(1, 1))
		now, events := time.Duration(0), 0
		for now < 2*time.Minute {
			now += time.Duration(chance.ExpFloat64() / (wants * float64(len(hosts))) * 1e9)
			h := &hosts[chance.IntN(len(hosts))]
			for i := range hosts {
				if now-hosts[i].reported >= 3*time.Second {
					hosts[i].report(k, now, limit, wants)
				}
			}
			if events++; !h.take(k, now, limit, 1, wants) {
				t.Fatalf("%s: event %d is refused", name, events)
			}
		}
		asks := 0
		for i := range hosts {
			asks += hosts[i].asks
		}
		t.Logf("%s: %d asks for %d events", name, asks, events)
		if asks > events/200 {
			t.Errorf("%s: %d asks for %d events", name, asks, events)
		}
	}
}

func (h *askingHost) report(k *asked, now time.Duration, limit algorithm.Limit, wants float64) account.Grant {
	return h.elasticHost.report(k, now, limit, h.id, wants)
}

// uses are what was used when, in order.
type uses []struct {
	at time.Duration
	n  float64
}

func (u *uses) add(at time.Duration, n float64) {
	*u = append(*u, struct {
		at time.Duration
		n  float64
	}{at, n})
}

// beyond is how many more than rate·t were used in any window, and a constant, which
// is the result if it is negative.
func (u uses) beyond(rate float64) (most float64) {
	sum := 0.0 // of a window that ends now, at its worst
	for i, one := range u {
		if i > 0 {
			sum = math.Max(sum-rate*(one.at-u[i-1].at).Seconds(), 0)
		}
		sum += one.n
		most = math.Max(most, sum)
	}
	return most
}

// askedOf is a key whose owner has learned what there is.
func askedOf(limit algorithm.Limit) *asked {
	k, _ := made(algorithm.NameAuto).(*asked)
	k.terms.Burst = limit.Burst
	k.Report(-time.Minute, limit, 1<<20, &account.Report{Elapsed: time.Second})
	k.Expire(-time.Second, func(uint32) {})
	return k
}

// lends is what host, which holds so many tokens and wants so much by now, is lent with an ask for an
// event of this cost.
func (k *asked) lends(now time.Duration, host uint32, most, holds, wants, cost float64) float64 {
	row, rise := k.observeAsk(now, host, &usage.Take{More: 1, Wants: wants})
	if row == nil {
		return 0
	}
	return k.lend(row, rise, most, holds, cost)
}

// Hosts that use a few events each hold nothing: the owner decides each, as one bucket
// does.
func TestFewEventsPerHostAreDecidedByTheOwner(t *testing.T) {
	limit := algorithm.Limit{Rate: 5, Burst: 5}
	k, one := askedOf(limit), exactbucket.New(0, bucketOf(limit))
	hosts := make([]askingHost, 20)
	for i := range hosts {
		hosts[i].id = uint32(i)
		if g := hosts[i].report(k, 0, limit, 0.1); g.Tokens != 0 || g.Weight == 0 || g.Weight > 1e-9 {
			t.Errorf("host %d is granted %+v", i, g)
		}
	}
	now := time.Duration(0)
	for i := range 2000 {
		now += 97 * time.Millisecond
		h := &hosts[i*7%len(hosts)]
		if i%30 == 0 {
			h.report(k, now, limit, 0.1)
		}
		if got, want := h.take(k, now, limit, 1, 0), one.Take(now, 1, 0).OK; got != want {
			t.Fatalf("event %d at %v: %v, and one bucket says %v", i, now, got, want)
		}
	}
}

// A host that asks for few events keeps no tokens that other hosts may need: unless there
// is plenty, it is lent some with a grant once it has several events per second, and with an
// ask once it has spent these, or has many.
func TestAHostIsLentWhatItUsesSoon(t *testing.T) {
	limit := algorithm.Limit{Rate: 1000, Burst: 10_000}
	for _, host := range []struct {
		wants, byNow, cost float64
		reported, asking   bool
	}{
		{1, 1, 1, false, false},
		{busy - 0.1, busy - 0.1, 1, false, false},
		{busy, busy, 1, true, true},
		{busy, busy, 2, false, false},
		{2 * busy, 2 * busy, 2, true, true},
		{1, few - 0.1, 1, false, false},
		{1, few, 1, false, true},
		{1, few, 2, false, false},
		{1, 2 * few, 2, false, true},
	} {
		k := askedOf(limit)
		k.open(0, bucketOf(limit)).Take(0, 0.6*limit.Burst, 0)
		k.close(0)
		k.Report(0, limit, 2, &account.Report{Elapsed: interval, Wants: 0.6 * limit.Rate, Cost: host.cost}) // so the key is short
		g, _ := k.Report(0, limit, 1, &account.Report{Elapsed: interval, Wants: host.wants, Cost: host.cost})
		k.open(0, bucketOf(limit)).Take(0, host.cost, 0)
		k.close(0)
		lent := k.lends(0, 1, limit.Burst, 0, host.byNow, host.cost)
		if g.Tokens > 0 != host.reported || lent > 0 != host.asking {
			t.Errorf("%+v: %v lent with the grant, %v with an ask", host, g.Tokens, lent)
		}
		if lent > 0.5*host.byNow {
			t.Errorf("%+v: %v lent with an ask, for more than half a second", host, lent)
		}
	}
}

// While there is plenty, a host that wants little is lent the first few events of a burst,
// with an ask and with a grant, and all hosts together a tenth of what there is.
func TestTheFirstEventsOfABurstAreLent(t *testing.T) {
	for name, test := range map[string]struct {
		burst, cost, used float64
		hosts             uint32
		want              float64
	}{
		"a few events":             {burst: 1000, cost: 1, hosts: 1, want: beginning},
		"that cost more":           {burst: 1000, cost: 2, hosts: 1, want: 2 * beginning},
		"a hundredth of the burst": {burst: 300, cost: 1, hosts: 1, want: 3},
		"a tenth for all":          {burst: 1000, cost: 1, hosts: 40, want: 2.5},
		"not of a small burst":     {burst: 190, cost: 1, hosts: 1},
		"nor among so many":        {burst: 1000, cost: 1, hosts: 60},
		"nor when half is used":    {burst: 1000, cost: 1, used: 600, hosts: 1},
	} {
		limit := algorithm.Limit{Rate: 10, Burst: test.burst} // short of what others want
		k := askedOf(limit)
		k.open(0, bucketOf(limit)).Take(0, test.used, 0)
		k.close(0)
		for host := range test.hosts {
			k.Report(0, limit, 1+host, &account.Report{Elapsed: interval, Wants: 12 * test.cost, Cost: test.cost})
		}
		g, _ := k.Report(0, limit, 1, &account.Report{Elapsed: interval, Cost: test.cost})
		lent := k.lends(0, 1, limit.Burst, g.Tokens, 0, test.cost)
		if math.Abs(g.Tokens-test.want) > 0.01 || math.Abs(lent-test.want) > 0.01 {
			t.Errorf("%s: %v lent with the grant, %v with an ask; want %v", name, g.Tokens, lent, test.want)
		}
	}
}

// A host gets its events in batches, of which no average of its demand shows anything. Its loans
// double from ask to ask, so that it asks less often than a host may.
func TestABatchOfEventsTakesFewAsks(t *testing.T) {
	limit := algorithm.Limit{Rate: 200, Burst: 200}
	for batch, most := range map[int]int{60: 6, 120: 9} {
		k := askedOf(limit)
		hosts := make([]askingHost, 3)
		for i := range hosts {
			hosts[i].id = uint32(i)
			hosts[i].report(k, 0, limit, 1)
		}
		if got := hosts[0].drain(k, 0, limit, batch, 2); got != float64(batch) || hosts[0].asks > most {
			t.Errorf("of a batch of %d, %v are taken with %d asks, want at most %d", batch, got, hosts[0].asks, most)
		}
	}
}

// Where hosts have few events, a grant brings nothing: what eight hosts held of it, unused,
// was missing each time the pool ran empty.
func TestHostsWithFewEventsAreLentTheFirstOnesWithAnAskAlone(t *testing.T) {
	limit := algorithm.Limit{Rate: 20, Burst: 200}
	k := askedOf(limit)
	hosts := make([]askingHost, 8)
	for i := range hosts {
		hosts[i].id = uint32(i)
		hosts[i].report(k, 0, limit, 2)
	}
	for i := range hosts {
		if g := hosts[i].report(k, interval, limit, 2); g.Tokens != 0 {
			t.Errorf("host %d is lent %v with its grant", i, g.Tokens)
		}
	}
	if hosts[0].take(k, interval, limit, 1, 0); hosts[0].tokens < 2 {
		t.Errorf("a host that asks is lent %v", hosts[0].tokens)
	}
}

// Hosts whose bursts begin together ask one after the other, and the owner knows nothing of
// those that did not ask yet. The first ones must not be lent what the others need.
func TestHostsThatAskAtOnceLeaveMostOfThePool(t *testing.T) {
	limit := algorithm.Limit{Rate: 10, Burst: 60}
	for _, n := range []int{2, 5, 10, 50} {
		k := askedOf(limit)
		hosts := make([]askingHost, n)
		for i := range hosts {
			hosts[i].id = uint32(i)
			hosts[i].report(k, 0, limit, 0.5)
		}
		free, lent := k.pool, 0.0
		for i := range hosts {
			lent += k.lends(0, hosts[i].id, limit.Burst, 0, 80, 1)
		}
		if lent > portion*free+1e-6 {
			t.Errorf("%d hosts are lent %v of %v together", n, lent, free)
		}
		if again := k.lends(0, hosts[0].id, limit.Burst, 0, 80, 1); n == 2 && again < 5 {
			t.Errorf("the first of them is lent %v when it asks again", again)
		}
	}
}

// A host with many events gets a rate for what it is sure to use, and the pool keeps
// the rest for asks.
func TestRatesAreForWhatIsSureToBeUsed(t *testing.T) {
	limit := algorithm.Limit{Rate: 1000, Burst: 1000}
	k := askedOf(limit)
	hosts := make([]askingHost, 4)
	for round := range 4 {
		for i := range hosts {
			h := &hosts[i]
			h.id = uint32(i)
			h.allowed = 0
			g := h.report(k, time.Duration(round)*interval, limit, 500)
			if rate, most := g.Weight*limit.Rate, 250-3*math.Sqrt(250/3.); round == 3 && math.Abs(rate-most) > 0.05*most {
				t.Errorf("a quarter of 1000/s is granted as %v/s", rate)
			}
		}
	}
	if rates := k.rates(limit.Rate); rates > 0.95*limit.Rate {
		t.Errorf("%v/s of %v/s are granted", rates, limit.Rate)
	}
}

// Hosts that ask seven times a second could not use up their parts of a limit by asks alone. So a host
// with many events gets a rate also where it reports five times a second.
func TestRatesDoNotNeedLongIntervals(t *testing.T) {
	limit := algorithm.Limit{Rate: 400, Burst: 100}
	for _, interval := range []time.Duration{200 * time.Millisecond, time.Second, 3 * time.Second, time.Minute} {
		k := askedOf(limit)
		k.interval = interval
		for now := time.Duration(0); now < 4*interval; now += interval {
			for host := range uint32(4) {
				g, _ := k.Report(now, limit, host, &account.Report{Elapsed: interval, Wants: 400, Cost: 1, Has: slightest})
				if rate := g.Weight * limit.Rate; now == 3*interval && rate < 25 {
					t.Errorf("at an interval of %v, a quarter of 400/s is granted as %v/s", interval, rate)
				}
			}
		}
	}
}

// A loan leaves the pool with the ask, and flows back with the next report if
// it is not used.
func TestALoanFlowsBack(t *testing.T) {
	limit := algorithm.Limit{Rate: 1, Burst: 100}
	k, h := askedOf(limit), askingHost{id: 1}
	h.report(k, 0, limit, 0)
	before := k.pool
	if !h.take(k, 0, limit, 1, few) || h.tokens < 5 {
		t.Fatalf("it has %v tokens", h.tokens)
	}
	if got := k.pool + h.tokens; !near(got, before-1) {
		t.Errorf("%v in the pool and at the host, of %v, after one event", got, before)
	}
	lent := h.tokens
	h.use(0, 2)
	h.report(k, 0, limit, 0)
	if got := k.pool + h.tokens; !near(got, before-3) {
		t.Errorf("%v in the pool and at the host, of %v, after three events; %v were lent", got, before, lent)
	}
}

// An ask says that what was lent before is spent, so that the pool may fill up.
func TestASpentLoanTakesNoRoomInThePool(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 100}
	k, h := askedOf(limit), askingHost{id: 1}
	h.report(k, 0, limit, 50)
	now := time.Duration(0)
	used := h.drain(k, now, limit, 60, 50)
	now += interval - 1 // the pool is full by now, but for what the host holds
	h.advance(now)
	used += h.drain(k, now, limit, 1000, 50)
	if most := limit.Burst + limit.Rate*now.Seconds(); used > most || h.asks < 3 {
		t.Errorf("%v used of %v with %d asks", used, most, h.asks)
	}
	if used < 60+limit.Burst-1 {
		t.Errorf("%v used: a full bucket gives 100 after 60", used)
	}
}

// A host that was taken for dead, and asks, is lent something again, which its next
// report settles in full.
func TestAHostThatComesBackIsLentAgain(t *testing.T) {
	limit := algorithm.Limit{Rate: 10, Burst: 100}
	k, h := askedOf(limit), askingHost{id: 1}
	h.report(k, 0, limit, 20)
	now := 3 * interval
	k.Expire(now, func(uint32) {})
	h.advance(now)
	h.tokens = 0 // it used them since
	h.take(k, now, limit, 1, 20)
	if h.tokens < 5 {
		t.Fatalf("it was lent %v", h.tokens)
	}
	before, lent := k.pool, h.tokens
	h.use(now, lent)
	h.allowed = lent // and reported the rest long ago
	h.report(k, now+time.Second, limit, 0)
	if got := k.pool + h.tokens; got > before+limit.Rate*1+1e-6 {
		t.Errorf("%v tokens in the pool and at the host, of %v before: a loan of %v that was used came back", got, before, lent)
	}
}

// cameBack returns a pool and a host that was taken for dead, and that came back and asked at now. Its limit
// does not fill, so that each token shows.
func cameBack() (k *asked, h askingHost, limit algorithm.Limit, now time.Duration) {
	limit = algorithm.Limit{Rate: 0, Burst: 100}
	k, h, now = askedOf(limit), askingHost{id: 1}, 3*interval
	h.report(k, 0, limit, 20)
	k.Expire(now, func(uint32) {})
	h.advance(now)
	h.tokens = 0
	h.take(k, now, limit, 1, 20)
	return k, h, limit, now
}

// A host that was taken for dead comes back, asks, and is lent tokens. A sweep soon after does not take
// the loan back: the host has it until it reports.
func TestALoanToAHostThatComesBackOutlivesASweep(t *testing.T) {
	k, h, limit, now := cameBack()
	all := k.pool + h.tokens
	k.Expire(now+interval, func(uint32) {})
	h.report(k, now+interval, limit, 0)
	if got := k.pool + h.tokens; !near(got, all) {
		t.Errorf("%v in the pool and at the host, of %v, though nothing was used", got, all)
	}
}

// A host had nothing to report for more than an interval. Then it asks, and uses what it is lent. A sweep does not take it
// for dead before its next report: its loan would be lost, and its use of the loan charged beside that.
func TestALoanToAHostThatWasQuietIsPaidForOnce(t *testing.T) {
	limit := algorithm.Limit{Rate: 0, Burst: 100}
	for _, wants := range []float64{0, 20} {
		k, h, now := askedOf(limit), askingHost{id: 1}, interval*3/2
		h.report(k, 0, limit, wants)
		h.advance(now)
		before := k.pool + h.tokens
		used := h.drain(k, now, limit, 30, 20)
		k.Expire(now+interval/2, func(uint32) {})
		h.report(k, now+interval/2, limit, 20)
		if got := k.pool + h.tokens + used; !near(got, before) {
			t.Errorf("a host that wants %v: %v in the pool, at the host and used, of %v", wants, got, before)
		}
	}
}

// A host that came back, and has reported since, is charged once if an answer is lost: it says
// again what it used, as a part of its next report.
func TestAHostThatCameBackIsChargedOnce(t *testing.T) {
	k, h, limit, now := cameBack()
	h.report(k, now+interval, limit, 0)
	all := k.pool + h.tokens
	said := account.Report{Allowed: h.use(now+interval, 1), Elapsed: interval, Cost: 1}
	k.Report(now+2*interval, limit, 1, &said) // its answer is lost
	said.Elapsed *= 2
	g, _ := k.Report(now+3*interval, limit, 1, &said)
	if got := k.pool + g.Tokens; !said.Overlaps || got < all-1-0.6 {
		t.Errorf("%v in the pool and at the host, of %v, and one was used and reported twice", got, all)
	}
}

// A host that asks, and says that it has more than it was lent, has no more than that.
func TestAHostThatLiesAboutWhatItHolds(t *testing.T) {
	limit := algorithm.Limit{Rate: 10, Burst: 100}
	k, h := askedOf(limit), askingHost{id: 1}
	h.report(k, 0, limit, 20)
	lent := k.lent
	k.Take(0, limit, &usage.Take{Auto: true, Tokens: 1, More: 1, Wants: 20}, 0, h.id)
	if k.starters != 0 || k.lent > lent+1 {
		t.Errorf("hosts hold %v, and %v beside the pool; %v were lent before, and 1 at most since", k.lent, k.starters, lent)
	}
}

// A busy host that is refused waits, and one with few events does not. Nor does one that can be lent nothing, unless
// it has a rate: so many asks may be on their way while one for a loan is.
func TestBusyHostsArePatient(t *testing.T) {
	limit := algorithm.Limit{Rate: 1e6, Burst: 1000} // which fills in a moment
	for _, test := range []struct {
		wants, cost, more float64
		rate, patient     bool
	}{
		{few - 0.1, 1, 1, false, false},
		{few, 1, 1, false, true},
		{200, 1, 1, true, true},
		{200, 100, 1, true, false},
		{200, 1, 1. / 1024, true, true},
		{200, 1, 1. / 1024, false, false},
	} {
		k := askedOf(limit)
		host := askingHost{id: 1}
		host.report(k, 0, limit, test.wants)
		if k.pool = -900; !test.rate {
			k.rows.At(0).weight = slightest
		}
		ask := usage.Take{Auto: true, Tokens: test.cost, More: test.more}
		if took := k.Take(0, limit, &ask, 0, 1); took.OK || took.Retry >= time.Second/pace != test.patient {
			t.Errorf("a host with %v/s, a rate %t and room for %v that is refused an event of %v is told %+v", test.wants, test.rate, test.more, test.cost, took)
		}
		ask.Tokens, ask.Here = test.cost, true // half as patient
		if took := k.Take(0, limit, &ask, 0, 1); took.OK || test.patient && took.Retry != time.Second/pace/2 {
			t.Errorf("the owner's own host with %v/s is told %+v", test.wants, took)
		}
	}
}

// A host that goes on asking is alive, and the owner counts its demand, though none of its reports arrives and
// whether the owner pays its events or refuses them. The owner takes a host that neither asks nor reports for dead.
func TestAHostThatAsksIsThere(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 100}
	for _, refused := range []bool{false, true} {
		k := askedOf(limit)
		asks, silent := askingHost{id: 1}, askingHost{id: 2}
		asks.report(k, 0, limit, 5)
		silent.report(k, 0, limit, 7)
		for now := time.Second; now < time.Minute; now += time.Second {
			if refused {
				k.pool = -2 * limit.Burst
			}
			ask := usage.Take{Auto: true, Tokens: 1, More: 1. / 1024, Wants: 6}
			if took := k.Take(now, limit, &ask, 0, asks.id); took.OK == refused {
				t.Fatalf("%v: %+v", now, took)
			}
			k.Expire(now, func(host uint32) {
				if host == asks.id {
					t.Errorf("%v: it is forgotten", now)
				}
			})
		}
		if k.wants != 6 || k.rates(limit.Rate) > 1e-6 {
			t.Errorf("hosts want %v/s and hold %v/s", k.wants, k.rates(limit.Rate))
		}
		// Its next report is about all of the time, and says what it has used.
		k.pool = 0
		k.Report(time.Minute, limit, asks.id, &account.Report{Elapsed: time.Minute, Allowed: 3, Wants: 6, Has: slightest})
		if want := limit.Burst - 3; math.Abs(k.pool-want) > 1e-3 {
			t.Errorf("%v in the pool, want %v", k.pool, want)
		}
	}
}

// A new key has its whole burst at once. A key that had another owner has half, less
// what came in since.
func TestANewKeyHasItsBurst(t *testing.T) {
	limit := algorithm.Limit{Rate: 10, Burst: 100}
	left := func(k *asked, now time.Duration) float64 {
		defer k.close(now)
		return k.open(now, bucketOf(limit)).Level(now)
	}
	k, _ := made(algorithm.NameAuto).(*asked)
	if got := left(k, 0); got != 100 {
		t.Errorf("%v of a burst of 100", got)
	}
	k.expectLoans(0)
	if got := left(k, 0); got != 50 {
		t.Errorf("%v of a burst of 100 that another owner may have lent", got)
	}
	k, _ = made(algorithm.NameAuto).(*asked)
	left(k, 0)
	k.Report(100*time.Millisecond, limit, 1, &account.Report{Elapsed: time.Second, Has: 0.5})
	if got := left(k, 100*time.Millisecond); got > 50 {
		t.Errorf("%v of a burst of 100, and a host has a half of the limit", got)
	}
	k.expectLoans(time.Hour)
	if got := left(k, time.Hour); got != 100 {
		t.Errorf("%v of a burst of 100 after an hour", got)
	}
}

// A host with a grant of another owner says so with its first ask, also while it can borrow
// nothing: it is paid out of half of the burst, and lent nothing.
func TestANewOwnerLearnsFromAnAskThatAnotherHasLent(t *testing.T) {
	limit := algorithm.Limit{Rate: 10, Burst: 100}
	for _, more := range []float64{1. / 1024, 20} {
		k, _ := made(algorithm.NameAuto).(*asked)
		k.terms = &dynamicconfig.Rule{Limit: 10, Burst: 100}
		paid := 0
		for range 100 {
			took := k.Take(0, limit, &usage.Take{Tokens: 1, More: more}, 7, 1)
			if took.OK {
				paid++
			}
			if took.Lent > 0 {
				t.Errorf("a host that is new here is lent %v", took.Lent)
			}
		}
		if paid != 50 {
			t.Errorf("a host that can hold %v more is paid %d of a burst of 100", more, paid)
		}
	}
	k := askedOf(limit)
	k.terms = &dynamicconfig.Rule{Limit: 10, Burst: 100}
	(&askingHost{id: 1}).report(k, 0, limit, 20)
	if took := k.Take(0, limit, &usage.Take{Tokens: 1, More: 1. / 1024}, 7, 1); !took.OK || took.Lent > 0 {
		t.Errorf("a host that can hold no token: %+v", took)
	}
}

// Hosts whose demand the owner hears of one after the other may use no more than the limit
// together while the owner does not answer, but for what rates leave out of fair parts.
func TestHostsThatAreAloneKeepTheLimit(t *testing.T) {
	limit := algorithm.Limit{Rate: 300, Burst: 60}
	k := askedOf(limit)
	alone := make([]float64, 8)
	now := time.Duration(0)
	report := func(i int) {
		g := (&askingHost{id: uint32(i)}).report(k, now, limit, 400)
		if alone[i] = g.Used; g.Used < g.Weight*limit.Rate-1e-9 {
			t.Errorf("host %d may use %v while it cannot ask, and has a rate of %v", i, g.Used, g.Weight*limit.Rate)
		}
		now += time.Millisecond
	}
	sum := func() (of float64) {
		for _, a := range alone {
			of += a
		}
		return of
	}
	for i := range alone {
		report(i)
		if sum() > 1.2*limit.Rate {
			t.Errorf("after the report of host %d, hosts may use %v", i, alone)
		}
	}
	for range 3 {
		for i := range alone {
			report(i)
		}
	}
	if got := sum(); got > limit.Rate+1 || got < 0.9*limit.Rate {
		t.Errorf("hosts may use %v, together %v of %v/s", alone, got, limit.Rate)
	}
	for range 4 { // half of them are silent
		now += interval
		for i := range alone[:4] {
			report(i)
		}
		k.Expire(now, func(uint32) {})
	}
	clear(alone[4:])
	if got := sum(); got > limit.Rate+1 || got < 0.9*limit.Rate {
		t.Errorf("the hosts that are left may use %v, together %v of %v/s", alone, got, limit.Rate)
	}
	now += 3 * interval
	k.Expire(now, func(uint32) {}) // all are silent
	if report(0); alone[0] < 0.9*limit.Rate {
		t.Errorf("the only host may use %v of %v/s", alone[0], limit.Rate)
	}
}

// Tokens that hosts were lent count for an event at hand, as they would if no host held them.
// So a large event passes though the pool has too little for it.
func TestALargeEventIsPaidBesideLoans(t *testing.T) {
	limit := algorithm.Limit{Rate: 1, Burst: 100}
	k := askedOf(limit)
	host := askingHost{id: 1}
	host.report(k, 0, limit, 20)
	if k.lent < 5 || k.lent > 25 {
		t.Fatalf("%v is lent, want 5 to 25", k.lent)
	}
	large := usage.Take{Auto: true, Tokens: 101 - k.lent}
	if took := k.Take(0, limit, &large, 0, 2); !took.OK {
		t.Fatalf("an event of %v is refused, of %v and what is lent, %v: %+v", 101-k.lent, limit.Burst-k.lent, k.lent, took)
	}
	rest := usage.Take{Auto: true, Tokens: limit.Burst - large.Tokens + 0.1}
	if took := k.Take(0, limit, &rest, 0, 2); took.OK {
		t.Fatal("events take more than the burst together")
	}
}

// A key whose hosts ask for each event owes nothing: they report no more how much they have left of
// the loans from before, and one bucket is what exact promises.
func TestAKeyThatHasBecomeExactOwesNothing(t *testing.T) {
	limit := algorithm.Limit{Rate: 1, Burst: 100}
	k := askedOf(limit)
	(&askingHost{id: 1}).report(k, 0, limit, 20)
	exact := reaching(algorithm.NameExact)
	exact.Rule.Burst = limit.Burst
	k.Configure(0, exact)
	if k.lent < 5 {
		t.Fatalf("%v is lent, want 5 or more", k.lent)
	}
	event := usage.Take{Tokens: limit.Burst - k.lent + 1}
	if k.Take(0, limit, &event, 0, 2).OK {
		t.Errorf("an event of %v passes beside loans of %v", limit.Burst-k.lent+1, k.lent)
	}
}

// Hosts have spent what they were lent, and the owner does not know. Then events are paid that are
// too much: a few small ones, or a large one, but no more than the pool may owe.
func TestThePoolOwesAFewEvents(t *testing.T) {
	limit := algorithm.Limit{Rate: 1000, Burst: 1000}
	for cost, most := range map[float64]float64{1: owed, 20: 20 * owed, 200: mostOwed * limit.Burst} {
		k := askedOf(limit)
		hosts := make([]askingHost, 40)
		used := 0.0
		for i := range hosts {
			hosts[i].id = uint32(i)
			hosts[i].report(k, 0, limit, 100)
			used += hosts[i].use(0, limit.Burst)
		}
		lent := k.lent
		for {
			event := usage.Take{Auto: true, Tokens: cost}
			if !k.Take(0, limit, &event, 0, 1000).OK {
				break
			}
			used += cost
		}
		if over := used - limit.Burst; lent < mostOwed*limit.Burst || over > most || over <= most-cost {
			t.Errorf("events of %v: %v too much, want %v less a part of one, while %v is lent", cost, over, most, lent)
		}
	}
}

// Hosts come and go, use all that they can get at times of their choice, and report when
// they like. In no window do they use more than one bucket gives
// and what they may have saved.
func TestAskingHostsKeepTheLimit(t *testing.T) {
	lent := 0
	rapid.Check(t, func(t *rapid.T) {
		limit := algorithm.Limit{
			Rate:  rapid.SampledFrom([]float64{1, 10, 100, 1000}).Draw(t, "rate"),
			Burst: rapid.SampledFrom([]float64{1, 10, 100, 1000}).Draw(t, "burst"),
		}
		n := rapid.IntRange(1, 8).Draw(t, "hosts")
		k := askedOf(limit)
		hosts := make([]askingHost, n)
		for i := range hosts {
			hosts[i].id = uint32(i)
		}
		wants := rapid.SampledFrom([]float64{0, 0.5, 5, 50, 5000})
		var all uses
		now := time.Duration(0)
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			now += time.Duration(rapid.Int64Range(0, int64(interval)/3).Draw(t, "pause"))
			h := &hosts[rapid.IntRange(0, n-1).Draw(t, "host")]
			if rapid.IntRange(0, 2).Draw(t, "do") > 0 {
				all.add(now, h.drain(k, now, limit, rapid.SampledFrom([]int{1, 10, 5000}).Draw(t, "most"), wants.Draw(t, "by now")))
			} else {
				h.report(k, now, limit, wants.Draw(t, "wants"))
			}
			for i := range hosts {
				if h := &hosts[i]; now-h.reported >= interval {
					h.report(k, now, limit, wants.Draw(t, "wants"))
				}
			}
			if k.lent > 0 {
				lent++
			}
		}
		if got, most := all.beyond(limit.Rate), limit.Burst+overshoot(limit, interval); got > most+1e-6 {
			t.Fatalf("%v more than the limit, of at most %v", got, most)
		}
	})
	if lent == 0 {
		t.Error("nothing was lent in any run")
	}
}

// overshoot is what asked's documentation derives.
func overshoot(limit algorithm.Limit, interval time.Duration) float64 {
	t := interval.Seconds()
	saved := usual.Horizon.Seconds()*limit.Rate + algorithm.Keep*limit.Rate*t/fewest
	return mostLent*limit.Burst + math.Min(saved, algorithm.Silence*t*limit.Rate) + algorithm.Keep
}

func TestAskedIsSane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1e15), rapid.Float64Range(0, 1), rapid.Float64Range(0, 100))
		k, _ := made(algorithm.NameAuto).(*asked)
		now := time.Duration(0)
		for range 100 {
			limit := algorithm.Limit{Rate: amount.Draw(t, "rate"), Burst: amount.Draw(t, "burst")}
			now += time.Duration(rapid.Int64Range(-int64(time.Second), int64(5*time.Second)).Draw(t, "pause"))
			host := uint32(rapid.IntRange(0, 5).Draw(t, "host"))
			k.Expire(now, func(uint32) {})
			if rapid.Bool().Draw(t, "takes") {
				rule := bucketOf(limit)
				rule.MaxDebt = time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "debt"))
				k.open(now, rule).Take(now, amount.Draw(t, "n"), -1)
				k.close(now)
				most := amount.Draw(t, "most")
				if lent := k.lends(now, host, most, amount.Draw(t, "holds"), amount.Draw(t, "by now"), amount.Draw(t, "cost")); !(lent >= 0 && lent <= most) {
					t.Fatalf("%v is lent, of at most %v", lent, most)
				}
			} else {
				g, ok := k.Report(now, limit, host, &account.Report{
					Allowed: amount.Draw(t, "allowed"), Rejected: amount.Draw(t, "rejected"),
					Elapsed: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "elapsed")),
					Wants:   amount.Draw(t, "wants"), Has: rapid.Float64Range(0, 1).Draw(t, "has"),
				})
				if ok && !(g.Weight > 0 && g.Weight <= 1 && g.Burst >= 0 && g.Burst <= math.MaxFloat64 && g.Tokens >= 0 && g.Tokens <= math.Max(limit.Burst, 1)) {
					t.Fatalf("limit %+v: %+v", limit, g)
				}
			}
			if level := k.pool; math.IsNaN(level) || level > limit.Burst+1e-3 {
				t.Fatalf("%v tokens of a burst of %v", level, limit.Burst)
			}
			users := 0
			for i := range k.rows.All {
				if k.rows.At(i).wants > 0 {
					users++
				}
			}
			if users != int(k.users) {
				t.Fatalf("%d hosts are counted, and %d have a demand", k.users, users)
			}
		}
	})
}
