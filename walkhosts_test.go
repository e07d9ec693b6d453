// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/hosted"
	"github.com/headgate/headgate/rpc"
)

// walks are the kinds of walks of several hosts through random rules.
var walks = map[string]struct {
	algorithms []string
	quiet      bool          // no host wants more than its even part
	skewed     bool          // one host has most events
	spread     time.Duration // of the times at which hosts hear of a rule
	loses      bool          // at times, messages from one host to another are lost
	moves      bool          // a host joins, and another one leaves

	// bound is how much more than one bucket may pass, in bursts. A host knows what others took only as of its own
	// last event. So where hosts begin to decide for themselves, all but one of them may have their even part of that
	// again: 3/4 of a burst for four hosts. Most walks stay below 0.2, and the worst of some hundred had 0.69.
	bound float64
}{
	"all hosts at once":            {algorithms: []string{"exact", "even"}, bound: 0.75},
	"all hosts at once, quiet":     {algorithms: []string{"exact", "even"}, quiet: true, bound: 0.1},
	"one after the other":          {algorithms: []string{"exact", "even"}, spread: 100 * time.Millisecond, bound: 0.75},
	"one after the other, quiet":   {algorithms: []string{"exact", "even"}, spread: 100 * time.Millisecond, quiet: true, bound: 0.1},
	"answers are lost":             {algorithms: []string{"exact", "even"}, loses: true, bound: 0.75},
	"answers are lost, quiet":      {algorithms: []string{"exact", "even"}, loses: true, quiet: true, bound: 0.1},
	"hosts join and leave":         {algorithms: []string{"exact", "even"}, moves: true, bound: 0.75},
	"hosts join and leave, quiet":  {algorithms: []string{"exact", "even"}, moves: true, quiet: true, bound: 0.1},
	"auto, where hosts hold loans": {algorithms: []string{"auto", "even"}, bound: 0.75}, // docs/design/0008: of all loans

	// Each host charges the next bucket with what it has used itself.
	"remote buckets":                    {algorithms: []string{"redis", "exact", "even"}, bound: 0.75},
	"remote buckets, quiet":             {algorithms: []string{"redis", "exact", "even"}, quiet: true, bound: 0.1},
	"remote buckets, one host has most": {algorithms: []string{"redis", "exact", "even"}, skewed: true, bound: 0.25},
	"redis and auto, one host has most": {algorithms: []string{"redis", "auto"}, skewed: true, bound: 0.4},

	// One pool answers, whichever of the two a rule names, and whichever it measures. Of some hundred walks, the
	// worst had 0.25: hosts that come to exact give their loans back within a round trip, and use some of them.
	"one pool":                          {algorithms: []string{"exact", "auto"}, bound: 0.25},
	"one pool, quiet":                   {algorithms: []string{"exact", "auto"}, quiet: true, bound: 0.1},
	"one pool, one after the other":     {algorithms: []string{"exact", "auto"}, spread: 100 * time.Millisecond, bound: 0.25},
	"one pool, one after another quiet": {algorithms: []string{"exact", "auto"}, spread: 100 * time.Millisecond, quiet: true, bound: 0.1},
}

// Rules move between a bucket on each of several hosts and their owner's, through any mode of a migration. All hosts
// together let no second burst pass, and hosts that want no more than their even parts lose no event.
func TestNoWalkOfSeveralHostsGivesASecondBurst(t *testing.T) {
	for name, kind := range walks {
		t.Run(name, func(t *testing.T) {
			seeds := []uint64{6, 10, 18, 37} // in which something is found if one of the charges or caps at a change is missing
			if testing.Short() {
				seeds = seeds[:2]
			}
			if testrun.Long() {
				seeds = seeds[:0]
				for seed := range uint64(40) {
					seeds = append(seeds, seed)
				}
			}
			for _, seed := range seeds {
				synctest.Test(t, func(t *testing.T) {
					w := newWalk(t, seed, kind.algorithms)
					w.quiet, w.skewed, w.spread = kind.quiet, kind.skewed, kind.spread
					w.start(kind.moves)
					w.run(kind.loses, kind.moves)
					w.judge(kind.bound)
				})
			}
		})
	}
}

// hostsWalk is one cluster's, under rules that are drawn.
type hostsWalk struct {
	*testing.T
	chance       *rand.Rand
	seed         uint64
	algorithms   []string
	limit, burst float64
	quiet        bool
	skewed       bool
	spread       time.Duration
	network      *rpctest.Network
	members      *hosted.Members
	remote       remoteBucket
	hosts        []*walker

	mu     sync.Mutex // protects following fields
	told   string
	at     time.Time // of tokens
	tokens float64   // that one bucket would have after what has passed
	over   float64   // the deepest debt of that bucket
	beside float64   // how much of that is documented as not promised
	lost   float64   // the cost of what was refused of a quiet host
}

// remoteBucket is a Remote with the bucket of one key, as in Redis.
type remoteBucket struct {
	mu     sync.Mutex // protects following fields
	tokens float64
	at     time.Time
}

// Do implements stage.Remote.
func (b *remoteBucket) Do(_ context.Context, op stage.Operation) (stage.Outcome, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	now := time.Now()
	b.tokens, b.at = min(b.tokens+float64(op.Rule.Limit)*now.Sub(b.at).Seconds(), op.Rule.Burst), now
	switch op.Kind {
	case stage.ChargeTokens:
		b.tokens = max(b.tokens-op.N, min(b.tokens, -op.Rule.MostDebt()))
	case stage.ReturnTokens, stage.FillTokens:
		b.tokens = min(b.tokens+op.N, op.Rule.Burst)
	default:
		if op.N > b.tokens {
			return stage.Outcome{Left: b.tokens}, nil
		}
		b.tokens -= op.N
	}
	return stage.Outcome{OK: true, Left: b.tokens}, nil
}

// walker is one host.
type walker struct {
	*headgate.Node
	source *memory.Source
	rpc    *rpctest.Host
	heard  ear
	ends   chan struct{} // closed when the host begins no more events
	ended  chan struct{} // closed when its last event has ended

	passed int64 // cost
}

// wired is a headgate.Transport over an rpctest.Network.
type wired struct {
	*rpctest.Host
	rpc.Peers
}

func (w wired) Start(_ context.Context, d rpc.Decider) error { w.Serve(d); return nil }
func (w wired) Stop(context.Context) error                   { w.Serve(nil); return nil }
func (wired) Keep([]string) error                            { return nil }

// ear is a listener that checks the order of what it hears, of one key on one host.
type ear struct {
	mu     sync.Mutex // protects following fields
	alive  bool
	fallen int
	served int64 // cost
	wrong  string
}

// hear checks what a consumer relies on: a key is created and removed in turns, and no side of a migration leaves its
// fallback more often than it has entered it.
func (e *ear) hear(events []limiter.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()

	for _, v := range events {
		switch v.Kind {
		case limiter.EventCreated, limiter.EventRemoved:
			created := v.Kind == limiter.EventCreated
			if e.alive == created {
				e.wrong += fmt.Sprintf("; %v twice", v.Kind)
			}
			e.alive = created
		case limiter.EventFallbackEntered:
			e.fallen++
		case limiter.EventFallbackLeft:
			if e.fallen--; e.fallen < 0 {
				e.wrong += "; a fallback is left that was not entered"
			}
		case limiter.EventServed, limiter.EventWaited:
			e.served += v.Cost
		}
	}
}

func newWalk(t *testing.T, seed uint64, algorithms []string) *hostsWalk {
	r := rand.New(rand.NewPCG(seed, 1))
	w := &hostsWalk{T: t, chance: r, seed: seed, algorithms: algorithms, network: rpctest.New(seed)}
	w.limit, w.burst = []float64{2, 20, 100}[r.IntN(3)], []float64{40, 60, 200}[r.IntN(3)]
	w.hosts = make([]*walker, 2+r.IntN(3))
	w.remote.tokens, w.remote.at = w.burst, time.Now()
	return w
}

// rules draws a rule.
func (w *hostsWalk) rules() *dynamicconfig.Snapshot {
	r, n := w.chance, len(w.algorithms)
	how := "algorithm: " + w.algorithms[r.IntN(n)]
	if r.IntN(2) == 0 {
		i := r.IntN(n)
		how = fmt.Sprintf("migrate: {from: %s, to: %s, mode: %s}", w.algorithms[i], w.algorithms[(i+1)%n],
			[]string{"old", "old-shadow-new", "new-shadow-old", "new"}[r.IntN(4)])
	}
	w.tell("{%s}", how)
	return limits(w.T, fmt.Sprintf("defaults: {update_interval: 500ms, lease: 5s}\nlimits: [{key: k, limit: %v/s, burst: %v, %s}]", w.limit, w.burst, how))
}

func (w *hostsWalk) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told += fmt.Sprintf("\n%v ", time.Now().Format("04:05.000")) + fmt.Sprintf(format, args...)
}

// start starts all hosts, but the last one if it joins later.
func (w *hostsWalk) start(joins bool) {
	addresses := make([]ringpop.Host, len(w.hosts))
	for i := range addresses {
		addresses[i].Address = fmt.Sprintf("10.0.0.%d:7933", i+1)
	}
	for i := range addresses {
		for j := range addresses {
			w.faults(i, j, 0)
		}
	}
	first := len(addresses)
	if joins {
		first--
	}
	members, err := hosted.New(addresses[:first]...)
	if err != nil {
		w.Fatal(err)
	}
	w.members = members
	rules := w.rules()
	for i := range w.hosts {
		// No two hosts do something at the same instant, so that a seed gives the same walk each time.
		time.Sleep(time.Duration(w.chance.IntN(1e6)))
		w.hosts[i] = &walker{source: memory.New(rules), rpc: w.network.Host(addresses[i].Address), ends: make(chan struct{}), ended: make(chan struct{})}
		if i < first {
			w.startHost(i)
		}
	}
	time.Sleep(time.Second)
	w.at, w.tokens = time.Now(), w.burst
}

func (w *hostsWalk) startHost(i int) {
	h := w.hosts[i]
	n, err := headgate.New(headgate.Config{Address: address(i)}, h.source, w.members, headgate.WithTransport(wired{h.rpc, h.rpc.Peers()}),
		headgate.WithLogger(slog.New(slog.DiscardHandler)), headgate.WithLimiter(driver.WithSeed(w.seed+uint64(i)), limiter.WithListener(h.heard.hear)), headgate.WithRemote("redis", &w.remote))
	if err == nil {
		err = n.Start(w.Context())
	}
	if err != nil {
		w.Fatal(err)
	}
	h.Node = n
	w.Cleanup(func() {
		if err := n.Stop(context.Background()); err != nil {
			w.Error(err)
		}
	})
}

func address(i int) string { return fmt.Sprintf("10.0.0.%d:7933", i+1) }

// faults has drop of the messages from one host to another be lost.
func (w *hostsWalk) faults(from, to int, drop float64) {
	if from != to {
		w.network.SetFaults(address(from), address(to), rpctest.Faults{Delay: 200 * time.Microsecond, Jitter: 100 * time.Microsecond, Drop: drop})
	}
}

// run has events come and rules change, until the walk ends.
func (w *hostsWalk) run(loses, moves bool) {
	r, end := w.chance, time.Now().Add(30*time.Second)
	gap := time.Duration(float64(time.Second) * float64(len(w.hosts)) / w.limit / []float64{0.5, 2, 4}[r.IntN(3)])
	if w.quiet {
		gap = time.Duration(float64(time.Second) * float64(len(w.hosts)) / w.limit / 0.3)
	}
	burst := 1
	if r.IntN(2) == 0 {
		burst = 30
	}
	begin := func(i int) { go w.events(i, end, gap, burst) }
	for i, h := range w.hosts {
		if h.Node != nil {
			begin(i)
		}
	}
	joins, leaves := moves, moves
	for time.Now().Before(end) {
		time.Sleep(w.spread + time.Duration(1000*r.IntN(1000)) + time.Duration(r.ExpFloat64()*2.5*float64(time.Second)))
		switch what := r.IntN(6); {
		case loses && what < 2:
			w.lose()
		case joins && what == 0:
			joins = false
			i := len(w.hosts) - 1
			w.tell("host %d joins", i)
			w.move(func() { w.startHost(i) }, i, true)
			begin(i)
		case leaves && what == 1:
			leaves = false
			i := r.IntN(len(w.hosts) - 1)
			w.tell("host %d leaves", i)
			close(w.hosts[i].ends)
			<-w.hosts[i].ended
			w.move(func() {
				if err := w.hosts[i].Stop(context.Background()); err != nil {
					w.Error(err)
				}
			}, i, false)
		default:
			w.change()
		}
	}
	for _, h := range w.hosts {
		if h.Node != nil {
			<-h.ended
		}
	}
	time.Sleep(time.Second) // listeners hear of the last events
}

// events has events come to host i, whose ends are apart by gap on average, up to most at a time.
func (w *hostsWalk) events(i int, end time.Time, gap time.Duration, most int) {
	h, r := w.hosts[i], rand.New(rand.NewPCG(w.seed, uint64(i+2)))
	defer close(h.ended)
	// A remote bucket that takes over is charged with what a host took in the time in which a bucket fills: see
	// docs/config.md. So a quiet host takes no more than its even part of a burst in that time.
	if w.skewed {
		gap = time.Duration(float64(gap) * (1 + float64(i*i*i)))
	}
	deep, limit := w.burst/2/float64(len(w.hosts)), 0.45*w.limit/float64(len(w.hosts))
	part := deep
	for at := time.Now(); at.Before(end); {
		n := 1 + r.IntN(most)
		select {
		case <-h.ends:
			return
		case <-time.After(time.Duration(r.ExpFloat64() * float64(gap) * float64(n))):
		}
		part = min(part+limit*time.Since(at).Seconds(), deep)
		at = time.Now()
		for range n {
			cost := 1 + max(r.IntN(20)-15, 0)
			if w.quiet {
				if part < float64(cost)+1 {
					break
				}
				part -= float64(cost)
			}
			ok := h.For("k").AllowN(time.Now(), cost)
			if w.count(i, float64(cost), ok); ok {
				h.passed += int64(cost)
			}
		}
	}
}

// count compares an event with one bucket.
func (w *hostsWalk) count(i int, cost float64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()

	now := time.Now()
	w.tokens = min(w.tokens+w.limit*now.Sub(w.at).Seconds(), w.burst)
	w.at = now
	switch {
	case ok:
		w.tokens -= cost
		w.over = max(w.over, -w.tokens-w.beside)
	case w.quiet:
		w.lost += cost
		w.told += fmt.Sprintf("\n%v host %d refuses %v", now.Format("04:05.000"), i, cost)
	}
}

// allow says that docs allow more to pass than one bucket would.
func (w *hostsWalk) allow(tokens float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.beside += tokens
}

// change gives a rule to all hosts. Hosts that have it, and hosts that do not, both use the whole limit until all
// have it. A remote bucket may be asked before all of them have charged it: docs/design/0006, "Other hosts' charges".
func (w *hostsWalk) change() {
	rules, n := w.rules(), len(w.hosts)
	if w.spread > 0 {
		w.allow(w.limit*w.spread.Seconds() + 1)
	}
	var all sync.WaitGroup
	for i := range n {
		later := time.Duration(0)
		if w.spread > 0 {
			later = time.Duration(w.chance.Int64N(int64(w.spread)))
		}
		all.Go(func() {
			time.Sleep(later)
			w.hosts[i].source.Set(rules)
		})
	}
	all.Wait()
}

// lose loses half of the messages from one host to another, for some time. Meanwhile, and until the host asks again
// a second later, the fallback may decide beside the owner. What it lets pass is charged afterwards, into a debt of a burst.
func (w *hostsWalk) lose() {
	from, to := w.chance.IntN(len(w.hosts)), w.chance.IntN(len(w.hosts))
	d := time.Duration(w.chance.ExpFloat64() * float64(500*time.Millisecond))
	w.tell("messages from %d to %d are lost for %v", from, to, d)
	w.allow(w.limit * (d.Seconds() + 2))
	w.faults(from, to, 0.5)
	time.Sleep(d)
	w.faults(from, to, 0)
}

// move has host i join or leave. A host that joins has its even part of the burst, and what a key's owner hands over
// misses what is under way: docs/reliability.md has a burst for each change of owner.
func (w *hostsWalk) move(do func(), i int, joins bool) {
	w.allow(w.burst)
	var hosts []ringpop.Host
	for j, h := range w.hosts {
		if h.Node != nil && j != i && h.Ring().Has(address(j)) || joins && j == i {
			hosts = append(hosts, ringpop.Host{Address: address(j)})
		}
	}
	if err := w.members.Set(hosts); err != nil {
		w.Fatal(err)
	}
	do()
}

// judge holds the walk to the laws.
func (w *hostsWalk) judge(bound float64) {
	which := fmt.Sprintf("walk %d: %d hosts, %v/s, a burst of %v", w.seed, len(w.hosts), w.limit, w.burst)
	if w.over > bound*w.burst+float64(len(w.hosts)) {
		w.Errorf("%s: %.1f more than one bucket:%s", which, w.over, w.told)
	}
	if w.lost > 0 {
		w.Errorf("%s: no host wants more than its even part, and %v are refused:%s", which, w.lost, w.told)
	}
	for i, h := range w.hosts {
		h.heard.mu.Lock()
		if h.heard.wrong != "" || h.heard.served != h.passed {
			w.Errorf("%s: a listener on host %d hears of %d tokens, of %d that passed%s:%s", which, i, h.heard.served, h.passed, h.heard.wrong, w.told)
		}
		h.heard.mu.Unlock()
	}
}
