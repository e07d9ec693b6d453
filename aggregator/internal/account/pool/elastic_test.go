// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
)

const interval = 3 * time.Second

// elasticHost is a host that keeps to its grants to the letter.
type elasticHost struct {
	tokens, rate, burst float64
	at                  time.Duration
	allowed             float64 // since the last report
	reported            time.Duration
	granted             bool
}

func (h *elasticHost) advance(now time.Duration) {
	h.tokens = math.Min(h.tokens+h.rate*(now-h.at).Seconds(), math.Max(h.burst, h.tokens))
	h.at = now
}

// use takes up to n tokens and returns how many it got.
func (h *elasticHost) use(now time.Duration, n float64) float64 {
	h.advance(now)
	n = math.Min(n, math.Max(h.tokens, 0))
	h.tokens -= n
	h.allowed += n
	return n
}

// known returns the state of a key whose owner has learned what there is.
func known(limit algorithm.Limit) account.Account {
	k := made(algorithm.NameElastic)
	k.Report(-time.Minute, limit, 1<<20, &account.Report{Elapsed: time.Second})
	k.Expire(-time.Second, func(uint32) {})
	return k
}

// report tells k that the host wants so much, and takes the grant.
func (h *elasticHost) report(k account.Account, now time.Duration, limit algorithm.Limit, id uint32, wants float64) account.Grant {
	h.advance(now)
	weight := 0.0
	if h.granted {
		weight = math.Min(h.rate/limit.Rate, 1)
	}
	g, ok := k.Report(now, limit, id, &account.Report{Allowed: h.allowed, Elapsed: max(now-h.reported, time.Millisecond), Wants: wants, Has: weight})
	h.allowed, h.reported = 0, now
	if ok {
		h.tokens, h.rate, h.burst, h.granted = g.Tokens, g.Weight*limit.Rate, g.Burst, true
	}
	return g
}

func TestElasticGivesEveryoneWhatTheyNeedWhenThereIsEnough(t *testing.T) {
	limit := algorithm.Limit{Rate: 1000, Burst: 1000}
	k := known(limit)
	hosts := make([]elasticHost, 4)
	wants := []float64{300, 100, 50, 0}
	for round := range 3 {
		now := time.Duration(round) * interval
		for i := range hosts {
			g := hosts[i].report(k, now, limit, uint32(i), wants[i])
			if rate := g.Weight * limit.Rate; !near(rate, wants[i]*headroom) {
				t.Errorf("round %d: host %d wants %v/s and gets %v/s", round, i, wants[i], rate)
			}
			if g.Tokens < 1 {
				t.Errorf("round %d: host %d has %v tokens to start with", round, i, g.Tokens)
			}
		}
	}
}

func TestElasticSharesAScarceLimitByDemand(t *testing.T) {
	limit := algorithm.Limit{Rate: 1000, Burst: 1000}
	k := known(limit)
	hosts := make([]elasticHost, 5)
	wants := []float64{1800, 50, 50, 50, 50}
	var rates []float64
	for round := range 20 {
		rates = nil
		for i := range hosts {
			now := time.Duration(round)*interval + time.Duration(i)*interval/5
			for at := now - interval; at <= now; at += 10 * time.Millisecond {
				hosts[i].use(max(at, 0), wants[i]/100)
			}
			g := hosts[i].report(k, now, limit, uint32(i), wants[i])
			rates = append(rates, g.Weight*limit.Rate)
		}
	}
	sum := 0.0
	for i, r := range rates {
		sum += r
		if want := wants[i] / 2; math.Abs(r-want) > 0.1*want {
			t.Errorf("host %d wants %v of 2000 and gets %v/s of 1000, want about %v", i, wants[i], r, want)
		}
	}
	if sum < 950 || sum > 1050 {
		t.Errorf("rates sum to %v, want the limit of 1000", sum)
	}
}

func TestElasticTakesBackWhatIsNotUsed(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 100}
	k := known(limit)
	var a, b elasticHost
	a.report(k, 0, limit, 1, 1000) // takes half of the pool
	a.report(k, time.Second/100, limit, 1, 0)
	g := b.report(k, time.Second/100, limit, 2, 1000)
	if g.Tokens < 30 {
		t.Errorf("after the other gave everything back there are %v tokens, want about half of the 50 that a new key begins with, and a starter", g.Tokens)
	}
	if g.Weight < 0.99 {
		t.Errorf("weight %v of a limit that nobody else wants", g.Weight)
	}
}

func TestElasticPaysDebtBack(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 100}
	k := known(limit)
	h := elasticHost{tokens: 180, burst: 180}
	used := h.use(0, 180) // without any grant
	now := 10 * time.Millisecond
	for range 100 {
		h.report(k, now, limit, 1, 1000)
		now += 100 * time.Millisecond
		used += h.use(now, 1000)
	}
	if most := 100*now.Seconds() + 100 + 10; used > most {
		t.Errorf("10 s after using 180 at once: %v in all, more than %v", used, most)
	}
	if least := 100 * now.Seconds(); used < least {
		t.Errorf("%v in all, less than the limit of %v", used, least)
	}
}

func TestElasticNewOwnerListensBeforeItDecides(t *testing.T) {
	limit := algorithm.Limit{Rate: 1000, Burst: 1000}
	k := made(algorithm.NameElastic)
	hosts := []elasticHost{{rate: 700, burst: 700, granted: true}, {rate: 300, burst: 300, granted: true}}
	for i := range hosts {
		hosts[i].report(k, time.Duration(i)*learning/4, limit, uint32(i), 2000)
		if want := []float64{700, 300}[i]; hosts[i].rate != want {
			t.Errorf("host %d had %v/s and has %v/s while the new owner learns", i, want, hosts[i].rate)
		}
	}
	if g := hosts[1].report(k, 2*learning, limit, 1, 2000); g.Weight > 0.35 {
		t.Errorf("after learning, while the other holds 0.7: %+v", g)
	}
	newcomer := elasticHost{}
	if g := newcomer.report(k, 2*learning, limit, 2, 2000); g.Weight > 0.1 {
		t.Errorf("a newcomer gets %+v while the others hold everything", g)
	}
}

func TestElasticForgetsSilentHosts(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 100}
	k := known(limit)
	var dead, alive elasticHost
	dead.report(k, 0, limit, 1, 1000)
	if g := alive.report(k, time.Second, limit, 2, 1000); g.Weight > 0.25 {
		t.Errorf("weight %v while another has all", g.Weight)
	}
	var gone []uint32
	for now := time.Second; now < 12*interval; now += time.Second {
		k.Expire(now, func(host uint32) { gone = append(gone, host) })
		alive.use(now, 1000)
		alive.report(k, now, limit, 2, 1000)
	}
	if len(gone) != 1 || gone[0] != 1 || k.Hosts() != 1 || k.Knows(1) || !k.Knows(2) {
		t.Errorf("gone: %v, %d known", gone, k.Hosts())
	}
	if alive.rate < 90 {
		t.Errorf("the one that is left gets %v/s of 100", alive.rate)
	}
}

// The tokens of a host are free as soon as it has been silent for long enough,
// whoever else reports meanwhile.
func TestElasticFreesWhatSilentHostsHold(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 100}
	k := known(limit)
	var alive elasticHost
	const hosts = 10
	for i := range uint32(hosts) { // silent one by one
		var dead elasticHost
		dead.report(k, time.Duration(i)*interval/5, limit, 10+i, 50)
	}
	after := time.Duration(algorithm.Silence * float64(interval))
	for now := (hosts - 1) * interval / 5; now < 4*interval+after; now += interval / 10 {
		alive.use(now, 10)
		alive.report(k, now, limit, 2, 10)
		k.Expire(now, func(uint32) {})
		e := k.(*Account)
		for i := range e.rows.All {
			row := e.rows.At(i)
			if now-row.last > after+interval/4+interval/10 && float64(row.lent)+row.weight != 0 {
				t.Fatalf("at %v host %d, silent for %v, holds %v of the limit", now, e.rows.Host(i), now-row.last, row.weight)
			}
		}
	}
}

// A lost answer makes the host report the same usage again; it is charged once.
func TestElasticChargesUsageOnce(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 100}
	k := known(limit)
	var h elasticHost
	h.report(k, 0, limit, 1, 50)
	at := 3 * time.Second
	k.Report(at, limit, 1, &account.Report{Allowed: 150, Elapsed: at, Wants: 50}) // the answer is lost
	g, _ := k.Report(at+time.Second, limit, 1, &account.Report{Allowed: 200, Elapsed: at + time.Second, Wants: 50})
	if g.Tokens < 10 || g.Weight < 0.5 {
		t.Errorf("%+v: charged twice", g)
	}
}

func TestElasticFollowsItsLimit(t *testing.T) {
	limit := algorithm.Limit{Rate: 1000, Burst: 1000}
	k := known(limit)
	hosts := make([]elasticHost, 5)
	for at := time.Duration(0); at < 9*time.Second; at += 100 * time.Millisecond {
		i := int(at/(100*time.Millisecond)) % len(hosts)
		hosts[i].use(at, 1e6)
		hosts[i].report(k, at, limit, uint32(i), 400)
	}
	for _, rate := range []float64{200, 3000, 0, 500} {
		before := limit
		limit = algorithm.Limit{Rate: rate, Burst: rate}
		sum := 0.0
		for i := range hosts { // they know of the new limit at once
			h := &hosts[i]
			h.advance(9 * time.Second)
			h.rate, h.burst, h.tokens = account.Ratio(h.rate, before.Rate)*rate, rate, 0
			sum += hosts[i].report(k, 9*time.Second, limit, uint32(i), 4000).Weight
		}
		if sum > 1.05 || rate > 0 && before.Rate > 0 && sum < 0.9 {
			t.Errorf("the limit goes from %v to %v: weights sum to %v, want about 1", before.Rate, rate, sum)
		}
	}
}

func TestElasticIsSane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1e15), rapid.Float64Range(0, 1))
		k := made(algorithm.NameElastic)
		now := time.Duration(0)
		for range 100 {
			limit := algorithm.Limit{Rate: amount.Draw(t, "rate"), Burst: amount.Draw(t, "burst")}
			now += time.Duration(rapid.Int64Range(0, int64(5*time.Second)).Draw(t, "pause"))
			k.Expire(now, func(uint32) {})
			g, ok := k.Report(now, limit, uint32(rapid.IntRange(0, 5).Draw(t, "host")), &account.Report{
				Allowed: amount.Draw(t, "allowed"), Rejected: amount.Draw(t, "rejected"),
				Elapsed: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "elapsed")),
				Wants:   amount.Draw(t, "wants"), Has: rapid.Float64Range(0, 1).Draw(t, "has"),
			})
			if ok && !(g.Weight >= 0 && g.Weight <= 1 && g.Burst >= 0 && g.Burst <= math.MaxFloat64 && g.Tokens >= 0 && g.Tokens <= math.Max(limit.Burst, 1) && g.Used >= 0 && g.Used <= math.MaxFloat64) {
				t.Fatalf("limit %+v: %+v", limit, g)
			}
		}
	})
}

// A host comes back after it was cut off for long, having used its fallback
// all the time. The others must not pay for it with an outage.
func TestElasticForgivesWhatWasUsedLongAgo(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 100}
	k := known(limit)
	var cut, alive elasticHost
	cut.report(k, 0, limit, 1, 50)
	now := time.Duration(0)
	for ; now < 20*time.Second; now += time.Second {
		alive.use(now, 100)
		alive.report(k, now, limit, 2, 100)
		k.Expire(now, func(uint32) {})
	}
	cut.allowed = 5000
	cut.report(k, now, limit, 1, 50)
	if g := alive.report(k, now, limit, 2, 100); g.Weight < 0.3 {
		t.Errorf("after another came back: %+v", g)
	}
}
