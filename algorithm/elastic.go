// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"math"
	"time"
)

// Elastic shares a limit as if all hosts drew on one bucket. The decider keeps
// that bucket, the pool, and hands it out in two ways:
//
//   - a rate that runs until the host's next report, in proportion to its
//     demand, for what it uses all the time;
//   - tokens, for what it may need at once.
//
// Both are taken out of the pool when they are granted, and what a host turns
// out not to have used flows back with its next report. What was used beyond
// it is debt, which is paid back out of everybody's rates. So over any time
// the hosts use what one bucket would have given them, but for what is lent
// twice.
//
// # How much can be too much
//
// Say a key's hosts all hold grants, and report every interval T. For each
// host, what it used since its last report is at most
//
//	starter + lent + rate·(time since)
//
// because its bucket had no more. The pool is, by what Report does with it,
//
//	pool = B + L·t - spilt - reported usage - Σ(lent + rate·(time since))
//
// so up to any time t all hosts together used at most
//
//	reported + Σ(starter + lent + rate·(time since)) ≤ B + L·t - pool + Σ starter
//
// That is one bucket's worth, B + L·t, plus the debt (-pool, if it is
// negative) plus the starters. Within a window that begins later, hosts may
// also spend what they have saved of their rates, at most Horizon's worth.
//
//   - Σ starter is at most Starter·B, or a token for each host if that is more.
//   - Debt grows by starters that were spent, once per report and paid back
//     like all debt, and while rates exceed the limit: by at most
//     Crowding·L until all who hold too much have reported, 1.75·T.
//   - Saved rates are at most (1+Crowding)·L·Horizon.
//
// Overshoot adds these up. A host without a grant (new, or cut off for a whole
// lease) may use its even share once on top of it, until its first report.
//
// It works with hosts that report early when they run dry or when their demand
// changes, as package limiter's do.
//
// The zero value of a field means its default.
type Elastic struct {
	// Headroom is the rate that a host gets in relation to its demand when
	// there is enough; ≥ 1, default 1.1. More rides out noise without asking;
	// less leaves more in the pool for bursts elsewhere.
	Headroom float64

	// Horizon is for how long the tokens that a host gets last it; default
	// 200ms. Longer means fewer early reports, and more tokens that are stranded
	// where a burst has ended.
	Horizon time.Duration

	// Part is the largest part of the pool that one host gets at once, in
	// (0, 1], default 0.5. Less divides a nearly empty pool more finely, for
	// more reports.
	Part float64

	// Starter is the part of the burst that is lent twice: all hosts
	// together hold it to begin a burst with, until their first early report
	// is answered; in [0, 1], default 0.25. It bounds the overshoot.
	Starter float64

	// Repay is how long it takes to pay a debt back; default 3s. Shorter
	// keeps shorter windows exact; longer cuts rates less.
	Repay time.Duration

	// Crowding is how far the rates together may exceed the limit for
	// lack of reports from those who hold too much; ≥ 0, default 0.01.
	// More gives a host whose demand has just grown its part sooner.
	Crowding float64
}

// Defaults of Elastic.
const (
	defaultHeadroom = 1.1
	defaultHorizon  = 200 * time.Millisecond
	defaultPart     = 0.5
	defaultStarter  = 0.25
	defaultRepay    = 3 * time.Second
	defaultCrowding = 0.01
)

var _ Stateful = Elastic{}

// Overshoot is how many tokens more than limit.Rate·t + limit.Burst so many
// hosts, all of which hold grants and report every interval, can use in any
// time t. The type's documentation derives it.
func (e Elastic) Overshoot(limit Limit, hosts int, interval time.Duration) float64 {
	e = e.withDefaults()
	starters := math.Max(e.Starter*limit.Burst, float64(hosts))
	crowding := e.Crowding * limit.Rate * silence * interval.Seconds()
	saved := (1 + e.Crowding) * limit.Rate * e.Horizon.Seconds()
	return 2*starters + crowding + saved
}

// withDefaults fills in zero fields.
func (e Elastic) withDefaults() Elastic {
	set := func(field *float64, value float64) {
		if *field == 0 {
			*field = value
		}
	}
	set(&e.Headroom, defaultHeadroom)
	set(&e.Part, defaultPart)
	set(&e.Starter, defaultStarter)
	set(&e.Crowding, defaultCrowding)
	if e.Horizon == 0 {
		e.Horizon = defaultHorizon
	}
	if e.Repay == 0 {
		e.Repay = defaultRepay
	}
	return e
}

// Share implements Algorithm, by demand alone: rates in proportion, bursts
// likewise.
func (Elastic) Share(limit Limit, demands []Demand, grants []Grant) {
	RequestWeighted{}.Share(limit, demands, grants)
}

// NewKey implements Stateful.
func (e Elastic) NewKey(interval time.Duration) Key {
	return &elasticKey{params: e.withDefaults(), interval: interval, index: make(map[uint32]int32), empty: none}
}

// elasticKey is one key's pool and who draws on it.
type elasticKey struct {
	params   Elastic
	interval time.Duration

	at     time.Duration // when pool was last brought up to date
	limit  float64       // the rate of it, then, events/s
	pool   float64       // tokens that nobody holds; negative is debt
	ideal  float64       // what one bucket would have left, by the demand
	denied float64       // what one bucket would have refused, ever, by the demand
	lent   float64       // sum of tokens granted and not reported since
	rates  float64       // sum of rates granted, events/s
	wants  float64       // sum of demands, events/s
	used   float64       // sum of what hosts lately used, events/s

	// learns is until when others may hold grants of an earlier owner that
	// this one does not know of.
	learns time.Duration
	begun  bool
	since  time.Duration // when it began
	swept  time.Duration

	rows  []elasticRow
	index map[uint32]int32
	empty int32
}

// elasticRow is what one host holds.
type elasticRow struct {
	host        uint32
	next        int32 // among free rows
	last        time.Duration
	rate, lent  float64
	wants, used float64
	denied      float64 // the key's, at the last report
	before      float64 // what its rate gave since then, beyond what it gives now
}

const none = -1

const (
	// silence is after how many intervals a host that does not report is
	// taken to hold nothing any more.
	silence = 1.75

	// forgotten is after how many its row goes.
	forgotten = 10

	// recent is for how many seconds back a host is charged that held
	// nothing of ours.
	recent = 0.5

	// learning is how long a new owner listens before it decides. Hosts that
	// see the ring change report within a part of it.
	learning = 500 * time.Millisecond
)

func (k *elasticKey) Hosts() int { return len(k.index) }

func (k *elasticKey) Knows(host uint32) bool {
	_, ok := k.index[host]
	return ok
}

func (k *elasticKey) Report(now time.Duration, limit Limit, host uint32, r Report) (Grant, bool) {
	if !k.begun {
		k.begin(now, limit, r)
	}
	k.advance(now, limit)
	i, known := k.index[host]
	saved, begins := 0.0, r.Allowed+r.Rejected > 0 // maybe a burst
	if known {
		begins = begins && k.rows[i].wants < quiet
		saved = k.settle(now, limit, &k.rows[i], r)
	} else {
		i = k.take(host)
		if r.Has > 0 {
			k.learn(now)
		}
		k.pool -= k.stray(now, r)
	}
	row := &k.rows[i]
	row.last = now
	row.wants = r.Wants
	row.denied = k.denied
	row.used = r.Allowed / max(r.Elapsed.Seconds(), minPeriod)
	k.wants += row.wants
	k.used += row.used
	// More debt than a burst is forgiven: paying it back would be an outage.
	k.pool = math.Max(math.Min(k.pool, k.room(limit)), -limit.Burst)
	if now < k.learns {
		k.listen(row, limit, r)
		return Grant{}, false
	}
	return k.grant(row, limit, begins, saved, math.Min(math.Max(r.Cost, 1), math.Max(limit.Burst, 1))), true
}

// minPeriod keeps a rate over a very short time from being nonsense, seconds.
const minPeriod = 0.05

// begin makes the pool of a key that is new here. It is full if the key is new
// everywhere. If hosts hold grants of an earlier owner, it is whatever that one
// has left, which nobody knows: it begins empty.
func (k *elasticKey) begin(now time.Duration, limit Limit, r Report) {
	k.begun, k.since, k.at, k.swept = true, now, now, now
	k.limit = limit.Rate
	// Half only, because later reports may show that it is not new.
	k.pool, k.ideal = limit.Burst/2, limit.Burst
	k.learns = now + min(learning, k.interval)
}

// learn is called when a host that we do not know has a grant already: an
// earlier owner has lent what we took for free.
func (k *elasticKey) learn(now time.Duration) {
	if now < k.since+k.interval {
		k.pool = math.Min(k.pool, 0)
	}
}

// stray is what a host that holds nothing of ours has used since its last
// report: of its even share, or of what it had before it fell silent. What it
// used under an earlier owner is not ours to charge, and what a host that was
// cut off used long ago would make all others pay.
func (k *elasticKey) stray(now time.Duration, r Report) float64 {
	if now < k.learns || r.Has > 0 && now < k.since+k.interval {
		return 0
	}
	return r.Allowed * math.Min(recent/math.Max(r.Elapsed.Seconds(), minPeriod), 1)
}

// advance lets time fill the pool with what is not granted as rates.
func (k *elasticKey) advance(now time.Duration, limit Limit) {
	fill := limit.Rate - k.rates
	if now < k.learns {
		fill = math.Min(fill, 0) // the rest is with hosts that we do not know yet
	}
	passed := (now - k.at).Seconds()
	if limit.Rate != k.limit {
		k.rescale(now, limit.Rate)
	}
	k.pool = math.Min(k.pool+fill*passed, k.room(limit))
	k.flow((limit.Rate-k.wants)*passed, limit)
	k.at = now
}

// rescale follows a limit that has changed: hosts hold parts of it, which are
// worth more or less from now on.
func (k *elasticKey) rescale(now time.Duration, limit float64) {
	by := 0.0
	if k.limit > 0 {
		by = limit / k.limit
	}
	k.rates = 0
	for i := range k.rows {
		row := &k.rows[i]
		row.before += (1 - by) * row.rate * (now - row.last).Seconds()
		row.rate *= by
		k.rates += row.rate
	}
	k.limit = limit
}

// flow adds to the ideal level. What would take it below zero, one bucket would
// have refused.
func (k *elasticKey) flow(amount float64, limit Limit) {
	level := k.ideal + amount
	k.denied += math.Max(-level, 0)
	k.ideal = math.Min(math.Max(level, 0), limit.Burst)
}

// correct makes good that a host turns out to have wanted less by amount, or
// more if it is negative, since denied was what was refused in all. Less demand
// means first of all that less would have been refused.
func (k *elasticKey) correct(amount, denied float64, limit Limit) {
	if amount > 0 {
		spared := math.Min(amount, math.Max(k.denied-denied, 0))
		k.denied -= spared
		amount -= spared
	}
	k.flow(amount, limit)
}

// chance is how many tokens one bucket holds on average when demand is at the
// limit or above it, because events do not come evenly: the mean of a random walk
// that is drawn to an end. What is between reports cannot be seen otherwise.
func (k *elasticKey) chance(limit Limit, cost float64) float64 {
	spread := k.wants * cost // variance of demand, per second
	most := math.Sqrt(spread * k.interval.Seconds())
	mean := math.Min(spread/(2*math.Max(k.wants-limit.Rate, 1e-9)), most)
	if mean < keep*cost {
		return 0 // too little to hand out
	}
	return mean
}

// room is how much the pool can hold beside what is lent.
func (k *elasticKey) room(limit Limit) float64 { return math.Max(limit.Burst-k.lent, 0) }

// settle takes back what row holds and charges what its host used instead. It
// returns how much of it the host had left.
func (k *elasticKey) settle(now time.Duration, limit Limit, row *elasticRow, r Report) (left float64) {
	since := (now - row.last).Seconds()
	part := 1.0
	// A report whose answer was lost comes again as a part of the next.
	if elapsed := r.Elapsed.Seconds(); elapsed > since+minPeriod {
		part = (since + minPeriod) / elapsed
	}
	left = row.lent + row.before + row.rate*since - part*r.Allowed
	if since > silence*k.interval.Seconds() { // it was taken for dead
		left = row.lent - k.stray(now, r)
	}
	k.correct(row.wants*since-part*(r.Allowed+r.Rejected), row.denied, limit)
	k.pool += left
	k.drop(row)
	return left
}

// drop removes row from all sums.
func (k *elasticKey) drop(row *elasticRow) {
	k.lent -= row.lent
	k.rates -= row.rate
	k.wants -= row.wants
	k.used -= row.used
	row.lent, row.rate, row.before, row.wants, row.used = 0, 0, 0, 0, 0
	if len(k.index) <= 1 { // rounding must not pile up
		k.lent, k.rates, k.wants, k.used = 0, 0, 0, 0
	}
}

// listen notes what a host has while this new owner learns. The host gets no
// answer: it goes on with what it has, or with its fallback, and asks again.
func (k *elasticKey) listen(row *elasticRow, limit Limit, r Report) {
	row.rate = r.Has * limit.Rate
	k.rates += row.rate
}

// grant decides what row's host may do. All sums are without its grant. Begins says
// that it had no demand until now, saved what it has left of what it had, and cost
// what its largest events cost.
func (k *elasticKey) grant(row *elasticRow, limit Limit, begins bool, saved, cost float64) Grant {
	p := k.params
	// Debt is paid back by all; what is too much in the pool of a key that
	// is short is handed out.
	rate := math.Max(limit.Rate+math.Min(k.pool, 0)/p.Repay.Seconds(), 0)
	// What one bucket would not have left any more was missed while rates
	// followed the demand. It is made up for slowly, and over no less time
	// than a rate may run.
	if missed := k.pool - k.ideal; missed > 0 && k.wants > limit.Rate {
		most := catchUp + 5*math.Max(missed/math.Max(limit.Burst, 1)-0.9, 0)
		rate += math.Min(missed/(silence*k.interval.Seconds()), most*limit.Rate)
	}
	fair := 0.0
	if row.wants > 0 {
		fair = row.wants * math.Min(rate/k.wants, p.Headroom)
	}
	room := math.Max(rate*(1+p.Crowding)-k.rates, 0)
	row.rate = math.Min(math.Min(fair, room), limit.Rate)
	k.rates += row.rate

	level := math.Min(math.Max(k.ideal, k.chance(limit, cost)), limit.Burst)
	free := math.Max(math.Min(k.pool, level), 0)
	// Tokens are for what the rate does not cover, and for chance.
	need := math.Max(row.wants-row.rate, 0)*p.Horizon.Seconds() + math.Sqrt(row.wants*p.Horizon.Seconds()*cost)
	if row.wants > 0 {
		need += 2 * (cost - 1) // a cost is paid at once
	}
	if begins && k.lent < chunks*limit.Burst {
		need = math.Max(need, chunk*free)
	}
	row.lent = math.Min(need, free*p.Part)
	if free < keep*cost && row.wants > 0 {
		// A host with few events saves its rate up until it is worth one.
		row.lent = math.Max(row.lent, math.Min(saved, keep*cost))
	}
	k.lent += row.lent
	k.pool -= row.lent

	// All hosts together hold the starter, unless there is nothing to start.
	starter := p.Starter * limit.Burst / float64(len(k.index))
	starter = math.Min(math.Max(starter, 2*cost), free)
	tokens := row.lent + starter
	return Grant{
		Weight: ratio(row.rate, limit.Rate),
		Burst:  math.Min(math.Max(tokens+row.rate*p.Horizon.Seconds(), keep*cost), math.Max(limit.Burst, 1)),
		Used:   math.Max(k.used, 0),
		Tokens: math.Min(tokens, limit.Burst),
	}
}

const (
	// catchUp is the part of the limit that making up for what was missed
	// adds to it; more if the pool is all but full all the same, as
	// when many hosts have too few events to use their parts.
	catchUp = 0.025

	// chunk is the part of the pool that a host gets with its first events,
	// as long as no more than chunks of the burst is lent.
	chunk  = 0.02
	chunks = 0.3

	// quiet is less demand than any to speak of, events/s.
	quiet = 0.5

	// keep is how many events' worth of its rate a host may save up.
	keep = 2
)

// ratio is part of whole, in [0, 1].
func ratio(part, whole float64) float64 {
	if !(whole > 0) {
		return 0
	}
	return math.Min(math.Max(part/whole, 0), 1)
}

func (k *elasticKey) Expire(now time.Duration, gone func(host uint32)) {
	after := time.Duration(silence * float64(k.interval))
	if now-k.swept < k.interval/4 {
		return
	}
	k.swept = now
	for i := range k.rows {
		row := &k.rows[i]
		if at, ok := k.index[row.host]; !ok || at != int32(i) || now-row.last < after {
			continue
		}
		if now-row.last < forgotten*k.interval {
			k.drop(row)
			continue
		}
		host := row.host
		k.drop(row)
		delete(k.index, host)
		*row = elasticRow{next: k.empty}
		k.empty = int32(i)
		gone(host)
	}
}

// take returns a row for host.
func (k *elasticKey) take(host uint32) int32 {
	i := k.empty
	if i != none {
		k.empty = k.rows[i].next
	} else {
		i = int32(len(k.rows))
		k.rows = append(k.rows, elasticRow{})
	}
	k.rows[i] = elasticRow{host: host}
	k.index[host] = i
	return i
}
