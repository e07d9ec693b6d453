// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"math"
	"time"
)

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
	k.learns = now + min(k.params.Learn, k.interval)
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
	k.rates = 0
	for i := range k.rows {
		row := &k.rows[i]
		rate := ratio(row.rate, k.limit) * limit
		row.before += (row.rate - rate) * (now - row.last).Seconds()
		row.rate = rate
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
	k.wants = math.Max(k.wants-row.wants, 0)
	k.used = math.Max(k.used-row.used, 0)
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
