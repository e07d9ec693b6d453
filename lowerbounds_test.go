// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
)

// Callers use a key on one or all of one to four hosts in any way, while hosts join and leave and the rule changes. Beside it is
// a perfect bucket (autoCluster.admit), which sees what was let through and charged. Enough passes:
//   - A key is closed, while that bucket has a token, for no longer than slack says.
//   - While callers ask all the time, at most slack tokens fewer pass than that bucket would let through. So it is after any walk,
//     and once the burst has filled in.
func TestEnoughPasses(t *testing.T) {
	for _, algorithm := range []string{"exact", "auto", "elastic", "even", "redis"} {
		t.Run(algorithm, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				rapid.SyncTest(rt, func(rt *rapid.T) { lowerWalkOf(rt, algorithm) })
			})
		})
	}
}

// lowerWalk is one cluster's.
type lowerWalk struct {
	*rapid.T
	*autoCluster
	algorithm string
	interval  time.Duration
	maxDebt   time.Duration
	idle      string
	all       bool // hosts are used, and not the last one alone
	redis     tokensOf
	spent     time.Time // what the owner may not have heard of yet
	cut       time.Time // when a charge came to less, because the debt was the rule's deepest
}

// slack is how much later, and how many tokens less than from a perfect bucket, callers get. Each term is the least that holds;
// those of elastic are rounded up.
func (w *lowerWalk) slack(rate float64) (closed time.Duration, tokens float64) {
	hosts := float64(len(w.hosts))
	switch w.algorithm {
	case "auto":
		// A host that was refused asks again after 1.25 s at most. It may lack a token that another host was lent. Meanwhile
		// callers ask, and a pool may be full.
		return 1250*time.Millisecond + time.Duration(1e9/w.limit), 1.25*rate + 5
	case "elastic":
		// A host that has too few tokens waits for its report, and an owner that has too few for the next one. It saves up for an
		// event what its part of the limit brings. Half of a burst may be lent to hosts that do not need it. A host that falls
		// silent, or forgets the key, loses its loan, and the limit fills that in again (0002, "A silent host"). If such a host then
		// uses the burst, as its fallback lets it, the owner's pool is in debt by the loan, and nothing passes until that is paid.
		// The owner lends three quarters of a burst at most (mostLent of package pool).
		closed = 2*w.interval + 2*time.Second + time.Duration(2*hosts/w.limit*1e9)
		return closed + time.Duration(0.75*w.burst/w.limit*1e9), rate*closed.Seconds() + w.burst/2
	default:
		return 0, 1 // an event's ask is under way
	}
}

func lowerWalkOf(rt *rapid.T, algorithm string) {
	time.Sleep(max(-aggregator.Now(), stage.Now().Sub(0).Abs(), 0) + time.Hour) // else a pool may be taken for one of another owner
	w := &lowerWalk{T: rt, algorithm: algorithm, interval: pick(rt, "interval", 500*time.Millisecond, 3*time.Second)}
	hosts := rapid.IntRange(1, 3).Draw(rt, "hosts")
	if algorithm == "even" {
		hosts = 1
	}
	w.all, w.idle = rapid.Bool().Draw(rt, "all"), pick(rt, "idle", "", ", idle_after: 1h")
	limit, burst := w.drawLimit()
	w.redis.left, w.redis.at = burst, time.Now()
	w.autoCluster = &autoCluster{limit: limit, burst: burst}
	w.autoCluster = autoClusterOf(rt, hosts, limit, w.rule(), w.options()...)
	w.limit, w.burst, w.level = limit, burst, burst
	defer w.close()
	for range rapid.IntRange(1, 10).Draw(rt, "steps") {
		w.step()
	}
	w.admit(0)
	time.Sleep(time.Duration((w.burst-w.level)/w.limit*1e9) + time.Second + 2*w.interval)
	got, whole := w.useAtOnce(int(w.burst)), algorithm != "auto" && algorithm != "elastic" // these bound their asks and loans
	if whole && got < int(w.burst)-len(w.hosts) {
		w.Errorf("%d pass of a burst of %v that has filled in", got, w.burst)
	}
	closed, _ := w.slack(0)
	w.ask(closed+10*time.Second, 2)
}

func pick[E any](rt *rapid.T, name string, of ...E) E { return rapid.SampledFrom(of).Draw(rt, name) }

// drawLimit draws a limit and a burst of a second of it at least: with less, what fills in between two asks is lost.
func (w *lowerWalk) drawLimit() (limit, burst float64) {
	limit = pick(w.T, "limit", 1., 5, 40)
	return limit, max(pick(w.T, "burst", 12., 40, 100), limit)
}

func (w *lowerWalk) options() []limiter.Option {
	return []limiter.Option{limiter.WithRemote("redis", &w.redis), driver.WithSeed(1)}
}

func (w *lowerWalk) rule() *dynamicconfig.Snapshot {
	s, err := dynamicconfig.Parse("limits.yaml", fmt.Appendf(nil, "defaults: {update_interval: %v}\nlimits: [{key: k, limit: %v/s, burst: %v, algorithm: %s, max_debt: %v%s}]",
		w.interval, w.limit, w.burst, w.algorithm, w.maxDebt, w.idle))
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// key is the i-th caller's.
func (w *lowerWalk) key(i int) *limiter.Limiter {
	if !w.all {
		i = len(w.hosts) - 1
	}
	return w.hosts[i%len(w.hosts)].group.For("k")
}

// passes counts n tokens of an event that was let through, if it was.
func (w *lowerWalk) passes(ok bool, n int) bool {
	if ok {
		w.admit(float64(n))
	}
	if w.algorithm == "elastic" { // hosts report all that they use later
		w.spent = time.Now()
	}
	return ok
}

// charges counts n tokens that were charged after the fact, into the deepest debt at most. Where hosts report a charge later, what
// fills in meanwhile may have no room.
func (w *lowerWalk) charges(n int) {
	w.admit(0)
	lost := 0.0
	if w.algorithm == "auto" || w.algorithm == "elastic" {
		lost = min(max(w.level+w.limit*(w.interval+time.Second).Seconds()-w.burst, 0), float64(n))
	}
	most := max(w.level+2*w.burst+w.limit*w.maxDebt.Seconds(), 0)
	w.admit(min(float64(n), most) + lost)
	if w.spent = time.Now(); float64(n) > most {
		w.cut = w.spent
	}
}

func (w *lowerWalk) useAtOnce(n int) (passed int) {
	for i := range n {
		if w.passes(w.key(i).Allow(), 1) {
			passed++
		}
	}
	return passed
}

// step does one thing at random.
func (w *lowerWalk) step() {
	k, most := w.key(rapid.IntRange(0, 2).Draw(w.T, "host")), int(w.burst)
	if w.algorithm == "elastic" {
		most = 2 // a host that falls silent keeps tokens for two of its largest events
	}
	// Of a range, rapid draws small numbers as a rule.
	n, ms := pick(w.T, "n", 1, 2, (most+3)/4, (most+1)/2, most), pick[time.Duration](w.T, "ms", 0, 1, 100, 300, 600, 1000, 2000, 3000)*time.Millisecond
	switch pick(w.T, "step", "allow", "take", "reserve", "charge", "wait", "pause", "burst", "host", "change", "ask", "ask") {
	case "allow":
		w.passes(k.AllowN(time.Now(), n), n)
	case "take":
		actual := pick(w.T, "actual", 0, n/2, n, 2*most)
		if e := k.Take(w.Context(), n, 0); w.passes(e.OK(), n) {
			time.Sleep(ms)
			if e.Settle(actual); actual > n {
				w.charges(actual - n)
			} else {
				w.admit(float64(actual - n))
			}
		}
	case "reserve":
		at := time.Now()
		if r := k.ReserveN(at, n); w.passes(r.OK(), n) && rapid.Bool().Draw(w.T, "cancels") {
			if r.Delay() > ms && ms > 0 {
				time.Sleep(ms)
				at = time.Now()
			}
			r.CancelAt(at)
			w.admit(-float64(n))
		}
	case "charge":
		k.Charge(n)
		w.charges(n)
	case "wait":
		ctx, cancel := context.WithTimeout(w.Context(), ms)
		w.passes(k.WaitN(ctx, n) == nil, n)
		cancel()
	case "pause":
		time.Sleep(7 * ms)
	case "burst":
		w.useAtOnce(int(w.burst) * pick(w.T, "quarters", 1, 2, 3, 4) / 4)
	case "host":
		w.moveHost()
	case "change":
		w.change()
	case "ask":
		w.ask(500*time.Millisecond+6*ms, pick(w.T, "times", 1.5, 2, 4))
	}
}

// moveHost has a host join, or the last one leave.
func (w *lowerWalk) moveHost() {
	last := len(w.hosts) - 1
	switch leaves := rapid.Bool().Draw(w.T, "leaves"); {
	case w.algorithm == "even" || leaves && last == 0 || !leaves && last == 3:
		return
	case leaves:
		h := w.hosts[last]
		h.stop()
		h.group.Leave(w.Context(), h.fanout)
		h.taker.Close()
		w.names, w.hosts = w.names[:last], w.hosts[:last]
	default:
		w.start(w.T, last+2, w.rule(), w.options()...)
	}
	for _, h := range w.hosts {
		h.group.SetHosts(len(w.hosts))
		h.group.Introduce()
	}
}

// change has all hosts follow another rule. A bucket in Redis learns of it only with its next operation.
func (w *lowerWalk) change() {
	limit, burst := w.drawLimit()
	if w.algorithm == "redis" {
		return
	}
	if burst < w.burst { // what the owner hears of later comes off the smaller burst
		time.Sleep(time.Until(w.spent.Add(w.interval + time.Second)))
	}
	time.Sleep(time.Until(w.cut.Add(w.interval + time.Second))) // the next rule may allow a deeper debt, and would cut less of the charge
	w.admit(0)
	w.maxDebt = pick(w.T, "max_debt", 0, 2*time.Second, 10*time.Second)
	slower, smaller := min(limit, w.limit), min(burst, w.burst)
	w.limit, w.burst = limit, burst
	w.configure(w.T, w.rule())
	w.limit, w.burst = slower, smaller // until the owner looks at the key, after an interval at the latest
	time.Sleep(w.interval + time.Second)
	w.admit(0)
	w.limit, w.burst = limit, burst
}

// ask asks for times the limit for d, and holds that to the laws.
func (w *lowerWalk) ask(d time.Duration, times float64) {
	w.admit(0)
	gap := time.Duration(1e9 / max(times*w.limit, 4))
	closed, short := w.slack(float64(time.Second) / float64(gap))
	perfect, could, passed := w.level, 0, 0
	began, at, open := time.Now(), time.Now(), time.Time{} // since when w has had a token
	for i := 0; time.Since(began) < d; i++ {
		now := time.Now()
		if perfect, at = min(perfect+w.limit*now.Sub(at).Seconds(), w.burst), now; perfect >= 1 {
			perfect, could = perfect-1, could+1
		}
		if w.admit(0); w.level >= 1 && open.IsZero() {
			open = now
		}
		ok := w.passes(w.key(i).Allow(), 1)
		switch {
		case ok:
			passed, open = passed+1, time.Time{}
		case !open.IsZero() && now.Sub(open) > closed+gap:
			w.Fatalf("%v/s, burst %v: closed for %v with %.1f tokens; %d of %d passed in %v", w.limit, w.burst, now.Sub(open), w.level, passed, could, time.Since(began))
		}
		if float64(could-passed) > short {
			w.Fatalf("%v/s, burst %v: %d of %d passed in %v", w.limit, w.burst, passed, could, time.Since(began))
		}
		time.Sleep(gap - time.Since(now))
	}
}
