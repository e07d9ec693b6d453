// SPDX-License-Identifier: Apache-2.0

package nodeload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/dynamicconfig/rule"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/static"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/rpcyarpc"
	"github.com/headgate/headgate/rpc/usage"
)

// AskConfig says how long Asks measures. The zero value is what docs/scale.md shows.
type AskConfig struct {
	// Answered is for how long the owner answers; default 10s.
	Answered time.Duration
	// Gone is for how long the owner does not; default 5s.
	Gone time.Duration
}

// AskCost is how long decisions wait for the owner of their key.
type AskCost struct {
	// TimeoutMs is the ask_timeout.
	TimeoutMs float64 `json:"ask_timeout_ms"`
	// Decisions are all, while the owner answered, and Asks those that it paid.
	Decisions int `json:"decisions"`
	Asks      int `json:"asks"`

	AskP50Ms float64 `json:"ask_p50_ms"`
	AskP99Ms float64 `json:"ask_p99_ms"`
	// Call is a call of the same size over the same transport between them, to a
	// server that sends back what it gets.
	CallP50Ms float64 `json:"call_p50_ms"`
	CallP99Ms float64 `json:"call_p99_ms"`

	Hung    GoneCost `json:"hung"`
	Stopped GoneCost `json:"stopped"`
}

// GoneCost is how long decisions take without the owner of their key.
type GoneCost struct {
	Decisions int `json:"decisions"`
	// Waited are decisions that took more than half of the ask_timeout, and LongestMs
	// is the longest of all.
	Waited    int     `json:"waited"`
	LongestMs float64 `json:"longest_ms"`
	// LaterP99Ms is of the decisions after the first second.
	LaterP99Ms float64 `json:"later_p99_ms"`
}

const (
	askKeys    = 300
	askCallers = 4
	askGap     = 4 * time.Millisecond // of each caller, on average
	takesSize  = 60                   // bytes of a message that asks for one event
	byOwner    = "owner"              // the By of a Decision that the owner made
)

// Asks measures decisions of one node about keys of another, over loopback, under
// auto and at one to two events/s for each key: with so few, a host asks often.
func Asks(ctx context.Context, config AskConfig) (c AskCost, err error) {
	config.Answered = cmp.Or(config.Answered, 10*time.Second)
	config.Gone = cmp.Or(config.Gone, 5*time.Second)
	for _, row := range []struct {
		into *GoneCost
		gone func(p *pair) error
	}{
		{&c.Hung, func(p *pair) error { p.gate.shut(); return nil }},
		{&c.Stopped, func(p *pair) error { return p.owner.Stop(ctx) }},
	} {
		if err := c.measure(ctx, config, row.into, row.gone); err != nil {
			return c, fmt.Errorf("asks: %w", err)
		}
	}
	return c, nil
}

// measure fills in c's figures and those of gone, by a pair of its own.
func (c *AskCost) measure(ctx context.Context, config AskConfig, into *GoneCost, gone func(p *pair) error) (err error) {
	p, err := newPair(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close(context.WithoutCancel(ctx))) }()
	answered := p.use(ctx, config.Answered, true)
	if err := gone(p); err != nil {
		return err
	}
	without := p.use(ctx, config.Gone, false)

	c.TimeoutMs = ms(rule.DefaultAskTimeout)
	c.Decisions, c.Asks = len(answered.all), len(answered.asked)
	c.AskP50Ms, c.AskP99Ms = ms(quantile(answered.asked, 0.5)), ms(quantile(answered.asked, 0.99))
	c.CallP50Ms, c.CallP99Ms = ms(quantile(answered.calls, 0.5)), ms(quantile(answered.calls, 0.99))
	*into = GoneCost{
		Decisions: len(without.all), LongestMs: ms(quantile(without.all, 1)),
		LaterP99Ms: ms(quantile(without.later, 0.99)),
	}
	for _, took := range without.all {
		if took > rule.DefaultAskTimeout/2 {
			into.Waited++
		}
	}
	return nil
}

// pair is a host and the owner of all its keys.
type pair struct {
	host, owner *headgate.Node
	gate        *gate
	keys        []string
	echo        *rpcyarpc.Server
	client      *rpcyarpc.Client
	call        rpc.Decider
}

func newPair(ctx context.Context) (p *pair, err error) {
	snapshot, err := dynamicconfig.Config{
		Name:  "asks",
		Rules: []dynamicconfig.Rule{{Key: "load:*", Limit: 10, Burst: 10, Algorithm: algorithm.NameAuto}},
	}.Snapshot()
	if err != nil {
		return nil, err
	}
	var listeners [3]net.Listener // of host, owner and echo
	for i := range listeners {
		if listeners[i], err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
			return nil, err
		}
	}
	p = &pair{gate: &gate{Listener: listeners[1], closed: make(chan struct{}), over: make(chan struct{})}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close(context.WithoutCancel(ctx)))
		}
	}()
	hosts := members([]string{listeners[0].Addr().String(), listeners[1].Addr().String()})
	if p.host, err = startNode(ctx, listeners[0], snapshot, hosts); err != nil {
		return nil, err
	}
	if p.owner, err = startNode(ctx, p.gate, snapshot, hosts); err != nil {
		return nil, err
	}
	for _, key := range keys(4 * askKeys) {
		if p.host.Ring().Owner(key) == p.owner.Address() && len(p.keys) < askKeys {
			p.keys = append(p.keys, key)
		}
	}
	p.echo = rpcyarpc.NewServer(listeners[2], echo{}, rpcyarpc.ServerOptions{})
	if err := p.echo.Start(); err != nil {
		return nil, err
	}
	if p.client, err = rpcyarpc.NewClient(rpcyarpc.ClientOptions{}); err != nil {
		return nil, err
	}
	p.call, err = p.client.Peer(listeners[2].Addr().String())
	return p, err
}

func startNode(ctx context.Context, l net.Listener, snapshot *dynamicconfig.Snapshot, hosts []ringpop.Host) (*headgate.Node, error) {
	list, err := static.New(hosts...)
	if err != nil {
		return nil, err
	}
	node, err := headgate.New(headgate.Config{Address: l.Addr().String()}, memory.New(snapshot), list,
		headgate.WithListen(l), headgate.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	return node, node.Start(ctx)
}

func (p *pair) close(ctx context.Context) error {
	var errs []error
	p.gate.end()
	if p.client != nil {
		errs = append(errs, p.client.Close())
	}
	if p.echo != nil {
		errs = append(errs, p.echo.Stop(ctx))
	}
	for _, n := range []*headgate.Node{p.host, p.owner} {
		if n != nil {
			errs = append(errs, n.Stop(ctx))
		}
	}
	return errors.Join(errs...)
}

// waits are how long things took, sorted.
type waits struct {
	all   []time.Duration // decisions
	asked []time.Duration // of these, those that the owner paid
	later []time.Duration // of all, those after the first second
	calls []time.Duration // of calls to echo
}

// use decides about the keys for d, from several callers. With calls, each caller makes
// a call to echo between two decisions.
func (p *pair) use(ctx context.Context, d time.Duration, calls bool) waits {
	var running sync.WaitGroup
	each := make([]waits, askCallers)
	began := time.Now()
	for c := range each {
		running.Go(func() {
			w, random := &each[c], rand.New(rand.NewPCG(3, uint64(c)))
			for time.Since(began) < d && pass(ctx, time.Duration(random.ExpFloat64()*float64(askGap))) == nil {
				from := time.Now()
				decision := p.host.For(p.keys[random.IntN(len(p.keys))]).Decide(ctx, 1, 0)
				took := time.Since(from)
				w.all = append(w.all, took)
				if decision.OK && decision.By == byOwner {
					w.asked = append(w.asked, took)
				}
				if from.Sub(began) > time.Second {
					w.later = append(w.later, took)
				}
				if calls {
					if took, err := p.callEcho(ctx); err == nil {
						w.calls = append(w.calls, took)
					}
				}
			}
		})
	}
	running.Wait()
	var sum waits
	for _, w := range each {
		sum.all, sum.asked = append(sum.all, w.all...), append(sum.asked, w.asked...)
		sum.later, sum.calls = append(sum.later, w.later...), append(sum.calls, w.calls...)
	}
	for _, times := range [][]time.Duration{sum.all, sum.asked, sum.later, sum.calls} {
		slices.Sort(times)
	}
	return sum
}

// callEcho returns how long a call to echo took.
func (p *pair) callEcho(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	began := time.Now()
	_, err := p.call.Update(ctx, "host", echoed)
	return time.Since(began), err
}

// echo sends back what it gets.
type echo struct{}

var echoed = &anypb.Any{TypeUrl: usage.TakesTypeURL, Value: make([]byte, takesSize)}

// Update implements rpc.Decider.
func (echo) Update(_ context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
	return payload, nil
}

// gate is a listener whose connections can hang: nothing that was sent arrives any more.
type gate struct {
	net.Listener

	shutting, ending sync.Once
	closed, over     chan struct{}
}

func (g *gate) shut() { g.shutting.Do(func() { close(g.closed) }) }

// end has the connections deliver again.
func (g *gate) end() { g.ending.Do(func() { close(g.over) }) }

// Accept waits for the next connection.
func (g *gate) Accept() (net.Conn, error) {
	c, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return gatedConn{c, g}, nil
}

type gatedConn struct {
	net.Conn

	gate *gate
}

// Read reads, and waits if the gate is shut.
func (c gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	select {
	case <-c.gate.closed:
		<-c.gate.over
	default:
	}
	return n, err
}

// AskTable is how long decisions that ask wait, as Markdown.
func (c AskCost) AskTable() string {
	var b strings.Builder
	header(&b, []string{"", "median", "p99"})
	fmt.Fprintf(&b, "| a decision that the owner paid, one of %s | **%.2f ms** | **%.2f ms** |\n", thousands(c.Asks), c.AskP50Ms, c.AskP99Ms)
	fmt.Fprintf(&b, "| a call that says nothing, of the same size, in between | %.2f ms | %.2f ms |\n", c.CallP50Ms, c.CallP99Ms)
	fmt.Fprintf(&b, "| the first ÷ the second | %.2f | %.2f |\n", c.AskP50Ms/c.CallP50Ms, c.AskP99Ms/c.CallP99Ms)
	return b.String()
}

// GoneTable is how long decisions take without the owner, as Markdown.
func (c AskCost) GoneTable() string {
	var b strings.Builder
	header(&b, []string{fmt.Sprintf("`ask_timeout: %gms`", c.TimeoutMs), "decisions", "waited for more than half of it", "longest", "p99 after the first second"})
	row := func(name string, g GoneCost) {
		fmt.Fprintf(&b, "| %s | %s | %d | %.1f ms | %.3f ms |\n", name, thousands(g.Decisions), g.Waited, g.LongestMs, g.LaterP99Ms)
	}
	row("the owner hangs", c.Hung)
	row("the owner has stopped", c.Stopped)
	return b.String()
}
