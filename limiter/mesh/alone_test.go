// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/meshusage"
)

// share lets both hosts ask for the whole limit for some seconds, in rounds, and
// returns how many tokens each got.
func (p *pair) share(seconds int) (a, b int) {
	p.t.Helper()
	for range seconds * 20 {
		p.now = p.now.Add(50 * time.Millisecond)
		for range 3 {
			if p.do(p.a, stage.TakeTokens, 1).OK {
				a++
			}
			if p.do(p.b, stage.TakeTokens, 1).OK {
				b++
			}
		}
		if p.now%stage.Instant(500*time.Millisecond) == 0 {
			p.send(p.a, p.b, "arrive")
			p.send(p.b, p.a, "arrive")
		}
	}
	return a, b
}

// A host that other hosts charge late gets its part again, even while they use the whole
// limit.
func TestAHostThatIsInDebtAloneGetsItsPartAgain(t *testing.T) {
	const limit, burst, lost, seconds = 40, 40, 3, 60
	p := newPair(t, ruled(limit, burst))
	p.do(p.b, stage.TakeTokens, 1)
	p.send(p.b, p.a, "arrive")
	before := 1
	for range lost * 20 { // b hears nothing, and is full
		p.now = p.now.Add(50 * time.Millisecond)
		for range 2 {
			if p.do(p.a, stage.TakeTokens, 1).OK {
				before++
			}
		}
		if p.now%stage.Instant(500*time.Millisecond) == 0 {
			p.send(p.a, p.b, "lost")
			p.send(p.b, p.a, "arrive")
		}
	}
	if left := p.left(p.b); left != burst {
		t.Fatalf("b has %v tokens, want all %v", left, burst)
	}
	a, b := p.share(seconds)
	if b < (a+b)/4 {
		t.Errorf("a got %d tokens and b %d, want a quarter at least", a, b)
	}
	// One burst, and what both use before they hear of each other.
	if most := limit*(lost+seconds) + burst + limit; before+a+b > most {
		t.Errorf("admitted %d, want %d at most", before+a+b, most)
	}
}

// A process that stands still before its first round ends is charged, when it goes
// on, with what others used meanwhile. Its bucket could not fill then.
func TestAPauseBeforeTheFirstRoundIsNotPaidFor(t *testing.T) {
	const limit, burst, pause = 40, 40, 2
	p := newPair(t, ruled(limit, burst))
	p.b.StartAt(p.now)
	var held [][]Message
	for range pause * 20 {
		p.now = p.now.Add(50 * time.Millisecond)
		for range 2 {
			p.do(p.a, stage.TakeTokens, 1)
		}
		if p.now%stage.Instant(500*time.Millisecond) == 0 {
			held = append(held, p.a.RoundAt(p.now))
		}
	}
	for _, messages := range held {
		for _, message := range messages {
			for _, g := range message.Gossips {
				p.receive(p.b, p.a, g)
			}
			p.a.Done(message, p.b.id)
		}
	}
	if a, b := p.share(60); b < (a+b)/4 {
		t.Errorf("a got %d tokens and b %d, want a quarter at least", a, b)
	}
}

// A process that starts where others use the whole limit learns from each of them what is left.
// Some of what they used is in that, and comes again in later messages. It pays for it once, and
// then takes part.
func TestAProcessThatStartsAmongOthersTakesPart(t *testing.T) {
	for seed := range uint64(20) {
		const hosts, rate, burst, starts = 7, 100, 100, 20
		c := newTimeline(t, seed, hosts, ruled(rate, burst), rpctest.Faults{Delay: 5 * time.Millisecond, Reorder: 0.3, HoldBack: 400 * time.Millisecond})
		var got [hosts]int // in the last minute
		for c.now < stage.Instant((starts+90)*time.Second) {
			if c.now == stage.Instant(starts*time.Second) {
				c.restart(hosts - 1)
			}
			for host := range hosts {
				n := c.take(host, c.chance.IntN(6)/5*3)
				if c.now > stage.Instant((starts+30)*time.Second) {
					got[host] += n
				}
			}
			c.until(c.now.Add(10 * time.Millisecond))
		}
		if least := rate * 60 / hosts / 4; got[hosts-1] < least {
			t.Errorf("seed %d: the hosts got %v, want %d at least of the last one", seed, got, least)
		}
	}
}

// even is share, in which both get a quarter at least, and both together not more than limit and
// the tokens.
func (p *pair) even(limit, tokens int) {
	p.t.Helper()
	const seconds = 60
	a, b := p.share(seconds)
	if min(a, b) < (a+b)/4 {
		p.t.Errorf("a got %d tokens and b %d, want a quarter at least", a, b)
	}
	if most := limit*seconds + tokens + limit; a+b > most { // what both use before they hear of each other
		p.t.Errorf("admitted %d, want %d at most", a+b, most)
	}
}

// A host lacks a little less than what is filled in between two messages. So it gets a token
// before each, and is in debt after it.
func TestAHostThatGetsATokenNowAndThenGetsItsPartAgain(t *testing.T) {
	const limit, burst, used = 40, 40, 18
	p := newPair(t, ruled(limit, burst))
	p.share(1) // both know the key
	for range 10 {
		p.now = p.now.Add(500 * time.Millisecond)
		p.send(p.a, p.b, "arrive")
		p.send(p.b, p.a, "arrive")
	}
	p.do(p.a, stage.TakeTokens, used)
	p.now = p.now.Add(500 * time.Millisecond) // b is full, and a again
	p.send(p.a, p.b, "arrive")
	if a, b := p.left(p.a), p.left(p.b); a-b != used {
		t.Fatalf("a has %v tokens and b %v, want %d less", a, b, used)
	}
	p.even(limit, burst)
}

// A process starts with a full bucket, and learns too late that there is less. It uses that. The
// others pay for it, but not for as long as it runs.
func TestAHostIsNotInDebtForGoodAfterAnotherStarted(t *testing.T) {
	const limit, burst = 50, 150
	p := newPair(t, ruled(limit, burst))
	p.do(p.a, stage.TakeTokens, 1)
	p.do(p.b, stage.TakeTokens, 1)
	for range 2 {
		p.send(p.a, p.b, "arrive")
		p.send(p.b, p.a, "arrive")
	}
	p.now = p.now.Add(time.Second)
	p.do(p.a, stage.TakeTokens, burst)
	before := p.a
	p.a = New("a", always(p.rule), Config{})
	p.a.SetPeers([]string{"a", "b"})
	p.do(p.b, stage.TakeTokens, 1)
	p.send(p.b, p.a, "arrive") // b has not heard of what a used
	p.send(before, p.b, "arrive")
	if a, b := p.left(p.a), p.left(p.b); a < burst-1 || b > 0 {
		t.Fatalf("a has %v tokens and b %v", a, b)
	}
	p.even(limit, burst)
}

// Hosts hear of another limit at different times. Their buckets differ from then on.
func TestHostsThatHearOfAnotherLimitLateTakePart(t *testing.T) {
	const before, after, burst = 10, 50, 100
	p := newPair(t, ruled(before, burst))
	p.share(30)
	p.rule = ruled(after, burst)
	p.a.rules = always(p.rule)
	p.a.Configure(p.now)
	p.now = p.now.Add(time.Second)
	p.b.rules = always(p.rule)
	p.b.Configure(p.now)
	if a, b := p.left(p.a), p.left(p.b); a-b < 20 {
		t.Fatalf("a has %v tokens and b %v, want less", a, b)
	}
	p.even(after, burst)
}

// A debt that all hosts have is paid by all.
func TestADebtOfAllHostsStays(t *testing.T) {
	const limit, burst = 10, 1000
	p := newPair(t, ruled(limit, burst))
	p.share(1) // both know the key
	for range burst {
		p.do(p.a, stage.TakeTokens, 1)
		p.do(p.b, stage.TakeTokens, 1)
	}
	p.send(p.a, p.b, "arrive")
	p.send(p.b, p.a, "arrive")
	before := p.left(p.b)
	if a, b := p.share(20); before > -burst/2 || a+b > 0 {
		t.Errorf("from a debt of %v, a got %d tokens and b %d", -before, a, b)
	}
}

// A host hears later than another of what two more used, each time that they use their bursts. In
// between, all buckets are full, so the other is in no debt that lasts, and gets nothing back.
func TestADebtThatWasPaidBackDoesNotLast(t *testing.T) {
	const limit, burst = 10, 40
	p := newPair(t, ruled(limit, burst))
	c, d := New("c", always(p.rule), Config{}), New("d", always(p.rule), Config{})
	hosts := map[string]*Mesh{"a": p.a, "b": p.b, "c": c, "d": d}
	for _, m := range hosts {
		m.SetPeers([]string{"a", "b", "c", "d"})
		p.do(m, stage.TakeTokens, 1)
	}
	round := func() {
		var late []func()
		for _, from := range []*Mesh{c, d, p.b, p.a} {
			for _, message := range from.RoundAt(p.now) {
				to := hosts[message.To]
				arrive := func() {
					for _, g := range message.Gossips {
						p.receive(to, from, g)
					}
					from.Done(message, to.id)
				}
				if to == p.b {
					late = append(late, arrive)
				} else {
					arrive()
				}
			}
		}
		for _, arrive := range late {
			arrive()
		}
	}
	for range 3 {
		for range 40 {
			p.now = p.now.Add(500 * time.Millisecond)
			round()
		}
		if left := p.left(p.a); left != burst {
			t.Fatalf("a has %v tokens, want all %v", left, burst)
		}
		p.do(c, stage.TakeTokens, burst)
		p.do(d, stage.TakeTokens, burst)
		p.do(p.b, stage.TakeTokens, 1)
		round()
		if a, b := p.left(p.a), p.left(p.b); a != b {
			t.Errorf("a has %v tokens and b %v, want the same", a, b)
		}
	}
}

// A process goes on after a pause in which its bucket did not become full. It hears first of a host
// that has more than the others, and does not get as much.
func TestAHostThatGoesOnGetsBackWhatItLost(t *testing.T) {
	const second = stage.Instant(time.Second)
	rule := ruled(10, 10)
	m := New("a", always(rule), Config{})
	m.SetPeers([]string{"a", "b", "c"})
	m.StartAt(-3 * second) // other hosts know the limits as long as it does
	m.RoundAt(-3 * second / 2)
	m.RoundAt(0)
	receive := func(now stage.Instant, from string, id, round, used uint64, left float64) {
		t.Helper()
		row := meshusage.Used{Key: "k", Born: 1, Tokens: used, Left: left}
		if err := m.ReceiveAt(now, from, &meshusage.Report{From: id, Version: round, Rows: []meshusage.Used{row}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.DoAt(0, stage.Operation{Key: "k", Rule: rule, N: 10}); err != nil {
		t.Fatal(err)
	}
	receive(second, "b", 7, 1, 1, 9)
	receive(second, "c", 8, 1, 40, -30)
	m.RoundAt(second)
	if left, _ := m.Level(second, "k"); left != -31 {
		t.Fatalf("%v left, want the debt of what all used", left)
	}
	receive(4*second, "b", 7, 2, 1, 10) // it has not heard of c
	if left, _ := m.Level(4*second, "k"); left != -1 {
		t.Errorf("%v left after a pause of 3 s, want what was filled in", left)
	}
}

// A process stands still while its limit goes back to twice as much. When it goes on, it learns of that, and gets back what
// came in by then.
func TestAHostThatGoesOnHearsOfAHigherLimit(t *testing.T) {
	const second, seconds = stage.Instant(time.Second), 30
	half, rule := ruled(10, 20), ruled(20, 20)
	now := half
	m := New("a", func(string) (*dynamicconfig.Rule, bool) { return now, true }, Config{})
	m.SetPeers([]string{"a", "b"})
	m.StartAt(0)
	used := 0.
	receive := func(at stage.Instant, round uint64, left float64) {
		t.Helper()
		row := meshusage.Used{Key: "k", Born: 1, Tokens: uint64(used), Left: left}
		if err := m.ReceiveAt(at, "b", &meshusage.Report{From: 7, Version: round, Rows: []meshusage.Used{row}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.DoAt(0, stage.Operation{Key: "k", Rule: half, N: 0}); err != nil {
		t.Fatal(err)
	}
	m.RoundAt(0)
	receive(0, 1, 20)
	now = rule
	m.Configure(seconds * second)
	for round := range uint64(seconds) { // another host used all of the higher limit
		used += 20
		receive(seconds*second, 2+round, 0)
	}
	if left, _ := m.Level(seconds*second, "k"); left != 0 {
		t.Errorf("%v left, want as many as the other host has", left)
	}
}

// When the process goes on, its limit goes up and down some times. It gets back what came in under the highest limit once,
// and not once for each time.
func TestALimitThatFlapsAfterAPauseGivesItBackOnce(t *testing.T) {
	const second, seconds, limit = stage.Instant(time.Second), 1000, 10
	for _, tt := range []struct {
		limits []int // after the pause
		rise   int   // how much higher the highest is
	}{
		{[]int{2 * limit}, limit},
		{[]int{2 * limit, limit, 2 * limit, limit, 2 * limit, limit, 2 * limit}, limit},
		{[]int{limit / 2, 2 * limit}, limit},
		{[]int{2 * limit, limit, 3 * limit}, 2 * limit},
		{[]int{limit / 2, limit}, 0},
	} {
		rule := ruled(limit, 20)
		m := New("a", func(string) (*dynamicconfig.Rule, bool) { return rule, true }, Config{})
		m.SetPeers([]string{"a", "b"})
		m.StartAt(0)
		if _, err := m.DoAt(0, stage.Operation{Key: "k", Rule: rule, N: 0}); err != nil {
			t.Fatal(err)
		}
		m.RoundAt(0)
		for i, limit := range tt.limits {
			rule = ruled(rate.Limit(limit), 20)
			m.Configure(seconds*second + stage.Instant(i))
		}
		used := 0
		for round := uint64(1); ; round++ { // another host uses more than it may, and says that it has nothing left
			used += 10
			row := meshusage.Used{Key: "k", Born: 1, Tokens: uint64(used)}
			if err := m.ReceiveAt(seconds*second, "b", &meshusage.Report{From: 7, Version: round, Rows: []meshusage.Used{row}}); err != nil {
				t.Fatal(err)
			}
			if level, _ := m.Level(seconds*second, "k"); level < 0 || used > 1e5 {
				break
			}
		}
		came, each := (limit+tt.rise)*seconds, 20+2*3*limit // each change, and the process, may bring a burst and four intervals more
		if most := came + each*(len(tt.limits)+2); used < came || used > most {
			t.Errorf("limits of %v: another host may use %d until this host is in debt, want %d to %d", tt.limits, used, came, most)
		}
	}
}

// A host has used the limit alone for a while when another process starts, which did not answer before. The first
// message charges that process with all of it.
func TestAProcessThatStartsDoesNotPayForGoodForWhatWasUsedBefore(t *testing.T) {
	const limit, burst = 40, 40
	p := newPair(t, ruled(limit, burst))
	for range 100 {
		p.now = p.now.Add(50 * time.Millisecond)
		for range 3 {
			p.do(p.a, stage.TakeTokens, 1)
		}
		if p.now%stage.Instant(500*time.Millisecond) == 0 {
			p.send(p.a, p.b, "lost")
		}
	}
	p.even(limit, burst)
}

// A process stands still for long before its first round ends. It uses its bucket as soon as it goes on, and is charged with
// what others used meanwhile, which messages say one after another.
func TestAProcessThatStandsStillAtOnceTakesPart(t *testing.T) {
	const limit, burst, pause = 40, 40, 9
	p := newPair(t, ruled(limit, burst))
	p.share(5)
	p.send(p.b, p.a, "arrive")
	p.b = New("b", always(p.rule), Config{})
	p.b.SetPeers([]string{"a", "b"})
	p.b.StartAt(p.now)
	p.do(p.a, stage.TakeTokens, 1)
	for _, m := range p.a.RoundAt(p.now) { // to the process before
		p.a.Done(m, p.b.id)
	}
	var held []Message
	for range pause * 20 {
		p.now = p.now.Add(50 * time.Millisecond)
		for range 3 {
			p.do(p.a, stage.TakeTokens, 1)
		}
		if p.now%stage.Instant(500*time.Millisecond) == 0 {
			for _, m := range p.a.RoundAt(p.now) {
				held = append(held, m)
				p.a.Done(m, 0)
			}
		}
	}
	p.send(p.b, p.a, "lost")
	p.do(p.b, stage.TakeTokens, 2)
	for _, message := range held {
		for _, g := range message.Gossips {
			p.receive(p.b, p.a, g)
		}
	}
	if a, b := p.share(60); b < (a+b)/4 {
		t.Errorf("a got %d tokens and b %d, want a quarter at least", a, b)
	}
}

// A host has another algorithm for a second longer than another one, which got its limits then or has just started with them.
// It takes no note of what that one uses.
func TestHostsThatHearOfAnotherAlgorithmLateTakePart(t *testing.T) {
	const limit, burst = 40, 120
	for _, starts := range []bool{false, true} {
		p := newPair(t, ruled(limit, burst))
		p.b.rules = always(&dynamicconfig.Rule{Key: "*", Limit: limit, Burst: burst, Algorithm: "even"})
		if starts {
			p.a.StartAt(p.now)
		} else {
			p.a.Configure(p.now)
		}
		before := 0
		for i := range 20 {
			p.now = p.now.Add(50 * time.Millisecond)
			for range 10 {
				if p.do(p.a, stage.TakeTokens, 1).OK {
					before++
				}
			}
			if i%10 == 9 {
				p.send(p.a, p.b, "arrive")
			}
		}
		p.b.rules = always(p.rule)
		p.b.Configure(p.now)
		if a, b := p.left(p.a), p.left(p.b); b-a < burst-1 {
			t.Fatalf("after %d a has %v tokens and b %v, want less", before, a, b)
		}
		p.even(limit, burst)
	}
}
