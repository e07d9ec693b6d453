// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"time"

	"github.com/headgate/headgate/internal/rowset"
	"github.com/headgate/headgate/internal/sum"
)

// elasticKey is one key's pool and who draws on it.
type elasticKey struct {
	params   *Elastic
	interval time.Duration
	at       time.Duration // when pool was last brought up to date
	limit    float64       // the rate of it, then, events/s; below 0 before the key begins
	pool     float64       // tokens that nobody holds; negative is debt
	ideal    float64       // what one bucket would have left, by the demand
	denied   float64       // what one bucket would have refused, by the demand, since some time
	past     *past         // what hosts may still go by; nil if nothing has changed lately

	// Here a cache line ends, and the next begins.

	// Sums of all rows. Those of floats are added up anew whenever all rows are
	// looked at, so that no rounding piles up in them.
	lent  float64   // tokens granted and not reported since
	wants float64   // demands, events/s
	parts sum.Parts // of the limit, granted as rates
	users int32     // hosts with a demand
	found int32     // the row that was looked for last, or None

	// learns is until when others may hold grants of an earlier owner that
	// this one does not know of.
	learns time.Duration
	since  time.Duration // when it began
	swept  time.Duration
	silent time.Duration // before then no host has been silent for too long

	// So again here.

	rows rowset.Set[elasticRow]

	part float64 // of the limit, for the host that reports; or byDemand

	// Whole cache lines: neighbours are other processors' keys.
}

// elasticRow is what one host holds. There may be millions, so some amounts are
// rounded to float32: what is added to a sum is what will be taken off.
type elasticRow struct {
	last   time.Duration
	denied float64 // the key's, at the last report
	weight float64 // the part of the limit that it has as a rate
	lent   float32
	wants  float32
}

const (
	// silence is after how many intervals a host that does not report is
	// taken to hold nothing any more.
	silence = 1.75

	// forgotten is after how many its row goes.
	forgotten = 10

	// recent is for how many seconds back a host is charged that held
	// nothing of ours.
	recent = 0.5

	// mostWanted is how many times the limit, or one event/s if that is more, a
	// host may want. More counts as that: it would get almost all either way,
	// and what others want must not be lost beside it.
	mostWanted = 1 << 20

	// precise is up to how much denied may grow before it is counted from a
	// later time, so that small amounts are not lost beside it.
	precise = 1 << 40
)

func (k *elasticKey) Hosts() int { return k.rows.Len() }

// Wants is what all hosts want, in events/s.
func (k *elasticKey) Wants() float64 { return k.wants }

func (k *elasticKey) Knows(host uint32) bool { return k.rows.FindAt(k.found, host) != rowset.None }

// Fetch implements Key. It reads from each cache line of k, and both ends
// of the host's row.
func (k *elasticKey) Fetch(host uint32, guess int32) (number int32, read int) {
	if !k.begun() {
		return rowset.None, 0
	}
	k.found = k.rows.FindAt(guess, host)
	if k.found == rowset.None {
		return rowset.None, 0
	}
	return k.found, int(k.rows.At(k.found).wants)
}

// Follow implements Key.
func (k *elasticKey) Follow(now, interval time.Duration) {
	if interval < k.interval && k.begun() {
		k.changed().slow = now + time.Duration(silence*float64(k.interval))
		k.silent = max(k.silent, k.past.slow)
	}
	k.interval = interval
}

// begun reports whether the key has a pool.
func (k *elasticKey) begun() bool { return k.limit >= 0 }

func (k *elasticKey) Report(now time.Duration, limit Limit, host uint32, r *Report) (Grant, bool) {
	if !k.begun() {
		k.begin(now, limit)
	}
	k.advance(now, limit)
	row, saved, begins := k.receive(now, limit, host, r)
	// More debt than a burst is forgiven: paying it back would be an outage.
	k.pool = upper(lower(k.pool, k.room(limit)), -limit.Burst)
	if now < k.learns || r.Elsewhere {
		k.listen(row, r)
		return Grant{}, false
	}
	return k.grant(row, limit, begins, saved, cost(limit, r)), true
}

// receive takes in what host did and wants. Its row holds nothing then. Saved is
// what it had left, and begins says that it had no demand until now.
func (k *elasticKey) receive(now time.Duration, limit Limit, host uint32, r *Report) (row *elasticRow, saved float64, begins bool) {
	i := k.rows.FindAt(k.found, host)
	begins = r.Allowed+r.Rejected > 0 // maybe a burst
	if i != rowset.None {
		row = k.rows.At(i)
		begins = begins && row.wants < quiet
		saved = k.settle(now, limit, row, r)
	} else {
		row = k.rows.At(k.rows.Add(host))
		if r.Has > 0 {
			k.learn(now)
		}
		k.pool -= k.stray(now, r)
	}
	row.last = now
	row.wants = float32(reasonable(r.Wants, limit))
	row.denied = k.denied
	k.wants += float64(row.wants)
	if row.wants > 0 {
		k.users++
	}
	return row, saved, begins
}

// reasonable is wants, or the most that one host may want of limit.
func reasonable(wants float64, limit Limit) float64 {
	return lower(wants, mostWanted*upper(limit.Rate, 1))
}

// cost is the most that is asked for at once under limit, by r.
func cost(limit Limit, r *Report) float64 { return lower(upper(r.Cost, 1), upper(limit.Burst, 1)) }

// seconds is d in seconds, without the divisions of its method.
func seconds(d time.Duration) float64 { return float64(d) * 1e-9 }

// minPeriod keeps a rate over a very short time from being nonsense, seconds.
const minPeriod = float64(Overlap) / float64(time.Second)

// begin makes the pool of a key that is new here. It is full if the key is new
// everywhere. If hosts hold grants of an earlier owner, it is whatever that one
// has left, which nobody knows: it begins empty.
func (k *elasticKey) begin(now time.Duration, limit Limit) {
	k.since, k.at, k.swept, k.silent = now, now, now, now
	k.limit = limit.Rate
	// Half only, because later reports may show that it is not new.
	k.pool, k.ideal = limit.Burst/2, limit.Burst
	k.learns = now + min(k.params.Learn, k.interval)
}

// learn is called when a host that we do not know has a grant already: an
// earlier owner has lent what we took for free.
func (k *elasticKey) learn(now time.Duration) {
	if now < k.since+k.interval {
		k.pool = min(k.pool, 0)
	}
}

// stray is what a host that holds nothing of ours has used since its last
// report: of its even share, or of what it had before it fell silent. What it
// used under an earlier owner is not ours to charge, and what a host that was
// cut off used long ago would make all others pay.
func (k *elasticKey) stray(now time.Duration, r *Report) float64 {
	if now < k.learns || r.Has > 0 && now < k.since+k.interval {
		return 0
	}
	return r.Allowed * lower(recent/upper(seconds(r.Elapsed), minPeriod), 1)
}

// advance lets time fill the pool with what is not granted as rates.
func (k *elasticKey) advance(now time.Duration, limit Limit) {
	fill := limit.Rate - k.rates(k.limit)
	if now < k.learns {
		fill = lower(fill, 0) // the rest is with hosts that we do not know yet
	}
	passed := seconds(now - k.at)
	if limit.Rate != k.limit {
		k.changed().was(now, k.limit)
		k.limit = limit.Rate
	}
	k.pool = lower(k.pool+fill*passed, k.room(limit))
	k.flow((limit.Rate-k.wants)*passed, limit)
	k.at = now
}

// rates is what hosts hold of limit as rates, in events/s.
func (k *elasticKey) rates(limit float64) float64 { return k.parts.Value() * limit }

// flow adds to the ideal level. What would take it below zero, one bucket would
// have refused.
func (k *elasticKey) flow(amount float64, limit Limit) {
	level := k.ideal + amount
	if level < 0 {
		k.denied -= level
		level = 0
	}
	k.ideal = lower(level, limit.Burst)
}

// correct makes good that a host turns out to have wanted less by amount, or
// more if it is negative, since denied was what was refused in all. Less demand
// means first of all that less would have been refused.
func (k *elasticKey) correct(amount, denied float64, limit Limit) {
	if amount > 0 {
		spared := lower(amount, upper(k.denied-denied, 0))
		k.denied -= spared
		amount -= spared
	}
	k.flow(amount, limit)
}

// room is how much the pool can hold beside what is lent.
func (k *elasticKey) room(limit Limit) float64 { return upper(limit.Burst-k.lent, 0) }

// settle takes back what row holds and charges what its host used instead. It
// returns how much of it the host had left.
func (k *elasticKey) settle(now time.Duration, limit Limit, row *elasticRow, r *Report) (left float64) {
	since := seconds(now - row.last)
	part := 1.0
	// A report whose answer was lost comes again as a part of the next.
	if elapsed := seconds(r.Elapsed); elapsed > since+minPeriod {
		part = (since + minPeriod) / elapsed
		r.Overlaps = true
	}
	passed := k.limit * since
	if k.past != nil {
		passed = k.past.passed(row.last, now, k.limit)
	}
	left = float64(row.lent) + row.weight*passed - part*r.Allowed
	if since > silence*seconds(k.interval) && !k.past.slowAt(now) { // it was taken for dead
		left = float64(row.lent) - k.stray(now, r)
	}
	k.correct(float64(row.wants)*since-part*(r.Allowed+r.Rejected), row.denied, limit)
	k.pool += left
	k.drop(row)
	return left
}

// drop removes row from all sums.
func (k *elasticKey) drop(row *elasticRow) {
	k.lent -= float64(row.lent)
	k.parts.Sub(row.weight)
	k.wants = upper(k.wants-float64(row.wants), 0)
	if row.wants > 0 {
		k.users--
	}
	row.lent, row.weight, row.wants = 0, 0, 0
}

// listen notes what a host has while this new owner learns. The host gets no
// answer: it goes on with what it has, or with its fallback, and asks again.
func (k *elasticKey) listen(row *elasticRow, r *Report) {
	row.weight = r.Has
	k.parts.Add(row.weight)
}

func (k *elasticKey) Expire(now time.Duration, gone func(host uint32)) {
	if now-k.swept < k.interval/4 {
		return
	}
	k.swept = now
	if now < k.silent {
		return
	}
	after := time.Duration(silence * float64(k.interval))
	first, lent, wants := now, 0.0, 0.0
	for i, row := range k.rows.All {
		silent := now - row.last
		if silent >= after {
			k.drop(row)
			if silent >= forgotten*k.interval {
				host := k.rows.Host(i)
				k.rows.Remove(i)
				gone(host)
				continue
			}
		}
		lent += float64(row.lent)
		wants += float64(row.wants)
		first = min(first, row.last)
	}
	k.lent, k.wants = lent, wants
	k.silent = first + after
	k.past = k.past.since(now-after, now)
	if k.denied > precise {
		k.rebase()
	}
}

// rebase counts what was denied from the oldest of the last reports on: only
// differences matter.
func (k *elasticKey) rebase() {
	low := k.denied
	for _, row := range k.rows.All {
		low = min(low, row.denied)
	}
	k.denied -= low
	for _, row := range k.rows.All {
		row.denied -= low
	}
}
