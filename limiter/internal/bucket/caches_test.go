// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/limiter/stage"
)

// contended returns a Bucket with caches, as if processors competed for it.
func contended(limit rate.Limit, burst float64, processors int) (*Bucket, *caches) {
	b := newBucket(limit, burst)
	c := newCaches(b, processors)
	b.caches.Store(c)
	return b, c
}

// stocked is a contended Bucket of 10,000 tokens at most, of which 1001 were
// taken, and some are in its first cache.
func stocked(t *testing.T) (*Bucket, *caches) {
	t.Helper()
	b, c := contended(1, 10_000, 2)
	b.Take(stage.Request{N: 1000}, 0)
	if ok, _, _ := c.allow(0, &c.each[0]); !ok || c.tokens() == 0 {
		t.Fatal("nothing was drawn")
	}
	return b, c
}

func TestWhatAnAllowedEventTouchesIsOneCacheLine(t *testing.T) {
	const line = 64
	var b Bucket
	if end := unsafe.Offsetof(b.allowed) + unsafe.Sizeof(b.allowed); end > line {
		t.Errorf("what allows ends at byte %d", end)
	}
	if size := unsafe.Sizeof(cache{}); size != line {
		t.Errorf("a cache has %d bytes", size)
	}
}

// inParallel asks for single tokens at 200,000 instants on all processors, step
// ns apart, takes and refunds some more, and holds the sum to the limit. It
// calls meanwhile as often as it can.
func inParallel(t *testing.T, b *Bucket, step int64, meanwhile func(now stage.Instant)) {
	t.Helper()
	limit, burst := float64(b.Pace().Limit()), b.Pace().Burst()
	var clock, allowed, rejected atomic.Int64
	var all sync.WaitGroup
	end := 200_000 * step
	for range max(4, runtime.GOMAXPROCS(0)) {
		all.Go(func() {
			for i := 0; ; i++ {
				now := stage.Instant(clock.Add(step))
				if int64(now) > end {
					return
				}
				n, ok := int64(1), false
				if i%16 == 0 {
					n = 3
					v, _ := b.Take(stage.Request{Now: now, N: n}, 0)
					if ok = v.OK(); ok && i%32 == 0 {
						b.Refund(now, 1)
						n = 2
					}
				} else {
					ok, _ = b.Allow(now)
				}
				if ok {
					allowed.Add(n)
				} else {
					rejected.Add(n)
				}
			}
		})
	}
	for now := int64(0); now < end; now = clock.Load() {
		meanwhile(stage.Instant(now))
		runtime.Gosched()
	}
	all.Wait()
	if most := limit*float64(end)/1e9 + burst; float64(allowed.Load()) > most {
		t.Errorf("limit %v: allowed %v, more than limit·t + burst = %v", limit, allowed.Load(), most)
	}
	if got, want := b.Count(stage.Instant(end)), (Usage{allowed.Load(), rejected.Load()}); got != want {
		t.Errorf("limit %v: counted %+v, want %+v", limit, got, want)
	}
	b.Drop(stage.Instant(end))
	if got, want := b.Count(stage.Instant(end)), (Usage{allowed.Load(), rejected.Load()}); got != want {
		t.Errorf("limit %v: counted %+v after the caches were dropped, want %+v", limit, got, want)
	}
}

func TestConcurrentCallersGetNoMoreThanTheLimit(t *testing.T) {
	for _, limit := range []rate.Limit{1, 1000, 333_333, 7_654_321} {
		b := newBucket(limit, 50)
		// Changes of pace to the same limit must not add tokens either.
		inParallel(t, b, 997, func(now stage.Instant) { b.SetPace(now, NewPace(limit, 50)) })
	}
}

func TestConcurrentCallersGetNoMoreThanTheLimitOutOfCaches(t *testing.T) {
	for _, limit := range []rate.Limit{1000, 7_654_321, 900_000_000} {
		b := newBucket(limit, 5000)
		i := 0
		inParallel(t, b, 97, func(now stage.Instant) {
			b.caches.CompareAndSwap(nil, newCaches(b, runtime.GOMAXPROCS(0)))
			switch i++; i % 8 {
			case 0:
				b.Drop(now)
			case 1:
				b.Count(now)
			case 2:
				b.Tokens(now)
			}
		})
	}
}

// At one instant, each token is given once and each event is counted once.
func TestEachTokenIsGivenOnce(t *testing.T) {
	const burst, workers, events = 100_000, 8, 20_000
	b, _ := contended(1, burst, runtime.GOMAXPROCS(0))
	var allowed, rejected atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			n := int64(allow(b, 0, events))
			allowed.Add(n)
			rejected.Add(events - n)
		})
	}
	for done := false; !done; {
		b.contend()
		b.Count(0)
		b.SetPace(0, NewPace(1, burst))
		b.Drop(0)
		b.contend()
		b.Tokens(0)
		done = allowed.Load()+rejected.Load() == workers*events
		runtime.Gosched()
	}
	all.Wait()
	got, left := b.Count(0), b.Tokens(0)
	if got != (Usage{allowed.Load(), rejected.Load()}) || got.Allowed+int64(left) != burst {
		t.Errorf("counted %+v, want %d and %d; %v tokens are left of %d", got, allowed.Load(), rejected.Load(), left, burst)
	}
}

// Processors that compete for a bucket get caches, whatever the answers.
func TestCompetingProcessorsGetCaches(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("one processor does not compete")
	}
	for name, b := range map[string]*Bucket{"allowed": newBucket(1e9, 1e9), "rejected": newBucket(1e-9, 1)} {
		b.Allow(0)
		var stop atomic.Bool
		var asked atomic.Int64
		var all sync.WaitGroup
		for range runtime.GOMAXPROCS(0) {
			all.Go(func() {
				n := int64(0)
				for ; !stop.Load(); n++ {
					b.Allow(stage.Now())
				}
				asked.Add(n)
			})
		}
		waittest.Until(t, "caches of what is "+name, func() bool { return b.caches.Load() != nil })
		stop.Store(true)
		all.Wait()
		n := b.Count(stage.Now()).Total()
		if c := b.caches.Load().tokens(); c != 0 || n != asked.Load()+1 {
			t.Errorf("%s: %d asked for, %d counted, and %d in caches", name, asked.Load()+1, n, c)
		}
		if b.Drop(stage.Now()); b.caches.Load() != nil || b.Count(stage.Now()).Total() != n {
			t.Errorf("%s: %d counted after the caches were dropped, %d before", name, b.Count(stage.Now()).Total(), n)
		}
	}
}

// A caller that draws while the caches are dropped puts back what it drew.
func TestNothingStaysInCachesThatWereDropped(t *testing.T) {
	b, c := stocked(t)
	b.Drop(0)
	if ok, _, _ := c.allow(0, &c.each[1]); !ok || c.tokens() != 0 {
		t.Errorf("%v: %d tokens in caches that nobody looks into", ok, c.tokens())
	}
	if got := b.Tokens(0); got != 10_000-1002 || b.Count(0).Allowed != 1002 {
		t.Errorf("%v tokens left, counted %+v", got, b.Count(0))
	}
	c.reject(&c.each[1])
	if got := b.Count(0); got.Rejected != 1 {
		t.Errorf("counted %+v", got)
	}
}

func TestACapEmptiesTheCaches(t *testing.T) {
	b, c := stocked(t)
	b.Cap(0, 5)
	if got := b.Tokens(0); got != 5 || c.tokens() != 0 || b.caches.Load() != c {
		t.Errorf("%v tokens left, %d of them in caches", got, c.tokens())
	}
	if allow(b, 0, 6); b.Count(0) != (Usage{1006, 1}) {
		t.Errorf("counted %+v", b.Count(0))
	}
}

// A cap during a count hides no refusal that is over.
func TestACapMovesNoCounts(t *testing.T) {
	b := newBucket(1e-9, 1)
	b.Allow(0)
	var stop atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		for !stop.Load() {
			b.Cap(0, 0)
		}
	})
	for i := range int64(20_000) {
		b.caches.CompareAndSwap(nil, newCaches(b, 2))
		b.Allow(0)
		if got := b.Count(0).Total(); got != i+2 {
			t.Errorf("%d counted of %d", got, i+2)
			break
		}
	}
	stop.Store(true)
	all.Wait()
}

// A decision reads a word, and then half of the pace that comes two changes later.
// The second change leaves the very word that the decision has read.
func TestARefusalByATornPaceIsNotFinal(t *testing.T) {
	fast, other, slow := NewPace(1e6, 1e7), NewPace(1e5, 1e7), NewPace(1, 1e7)
	full := func(b *Bucket, p Pace) { b.Replace(second, p, func(float64) float64 { return 1e7 }) }
	b := newBucket(1, 1)
	full(b, fast)
	word, _ := b.read()
	full(b, other)
	full(b, slow)
	if w, p := b.read(); w != word || p != slow {
		t.Fatalf("the word is %d after two changes, and was %d", w, word)
	}
	for name, torn := range map[string]Pace{
		"the new token and the old depth": {slow.token, fast.depth},
		"the old token and the new depth": {fast.token, slow.depth},
		"the old pace":                    fast,
	} {
		if b.stands(word, torn) {
			t.Errorf("a refusal by %s is final", name)
		}
	}
	if !b.stands(word, slow) {
		t.Error("a refusal by the pace in force is not final")
	}
}

// A decision that reads half of a pace and half of the next starts again.
func TestAChangeOfPaceRefusesNothing(t *testing.T) {
	b := newBucket(1e9, 1e12)
	var stop atomic.Bool
	var refused atomic.Int64
	var all sync.WaitGroup
	for range max(2, runtime.GOMAXPROCS(0)) {
		all.Go(func() {
			for !stop.Load() {
				if ok, _ := b.Allow(second); !ok {
					refused.Add(1)
				}
			}
		})
	}
	// The others would take 1e7 tokens while this goroutine waits for a processor.
	const most = 1e12
	paces := []Pace{NewPace(1e9, most), NewPace(1, most), NewPace(1e5, most)} // not two: each would keep its place
	for i := range 300_000 {
		now := second + stage.Instant(i)
		b.Drop(now)
		b.Replace(now, paces[i%len(paces)], func(float64) float64 { return most })
	}
	stop.Store(true)
	all.Wait()
	if n := refused.Load(); n > 0 {
		t.Errorf("%d refused, though there always were tokens", n)
	}
}

// The owner of a bucket hears that it is low, with caches and without.
func TestADecisionSaysThatTheBucketIsLow(t *testing.T) {
	b, c := stocked(t)
	lowOf := func(n int64) bool {
		_, low := b.Take(stage.Request{N: n}, 0)
		return low
	}
	b.SetLow(5000)
	if _, low, known := c.allow(0, &c.each[1]); low || !known || lowOf(1) {
		t.Error("a bucket that has more is low")
	}
	b.SetLow(8999)
	if _, low, known := c.allow(0, &c.each[0]); low || !known {
		t.Error("an event out of a cache says so")
	}
	c.flush(0)
	if _, low, known := c.allow(0, &c.each[1]); !low || !known || !lowOf(1) {
		t.Error("a draw does not say so")
	}
	b.Cap(0, 0)
	b.SetLow(1)
	if ok, low, known := c.allow(0, &c.each[0]); ok || !low || !known || !lowOf(1) {
		t.Error("an event that is refused does not say so")
	}
	b.SetLowNever()
	if _, low := b.Allow(0); low || lowOf(1) {
		t.Error("a bucket that is never low is")
	}
	for name, b := range map[string]*Bucket{"allowed": newBucket(1, 9), "rejected": newBucket(0, 0), "unlimited": newBucket(rate.Inf, 0)} {
		b.SetLowAlways()
		_, one := b.Allow(0)
		_, some := b.Take(stage.Request{N: 2}, 0)
		if _, charge := b.Charge(0, 2, 0, 1); !one || !some || !charge || !b.LowAlways() {
			t.Errorf("%s: not always low: %v, %v, %v", name, one, some, charge)
		}
		if was, did := b.UnsetLowAlways(); !was || !did {
			t.Errorf("%s: not unset", name)
		}
		if was, _ := b.UnsetLowAlways(); was {
			t.Errorf("%s: unset twice", name)
		}
	}
}

func TestAllowAllocatesNothing(t *testing.T) {
	b, _ := contended(1e6, 10_000, 2)
	if n := testing.AllocsPerRun(100, func() { b.Allow(0) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
