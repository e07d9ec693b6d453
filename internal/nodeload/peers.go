// SPDX-License-Identifier: Apache-2.0

package nodeload

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/internal/nodeload/netcount"
	"github.com/headgate/headgate/internal/nodeload/workload"
	"github.com/headgate/headgate/ringpop/static"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/rpcyarpc"
	"github.com/headgate/headgate/rpc/usage"
)

// peers are the other hosts of the cluster. Each is a whole headgate.Node: as an owner
// it answers the node under test, and as a host it uses the keys that the node
// under test owns, and no others.
type peers struct {
	config     Config
	listeners  []net.Listener
	addresses  []string
	nodes      []*headgate.Node    // that run
	transports []*countedTransport // of nodes
	loops      sync.WaitGroup
	stop       context.CancelFunc

	counters

	mu   sync.Mutex // protects following fields
	took []time.Duration
	late []time.Duration
}

// counters count since the peers started, as the peers see it.
type counters struct {
	carried                netcount.Bytes
	rowsSent, rowsReceived atomic.Int64 // keys in reports
	calls                  atomic.Int64 // with reports, that the node under test made
	asksSent, asksReceived atomic.Int64
	failed                 atomic.Int64 // reports of the peers that failed
}

// listen takes an address for each peer. Close ends what listen and start begin.
func listen(ctx context.Context, config Config) (*peers, error) {
	p := &peers{config: config, stop: func() {}}
	for range config.Hosts - 1 {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(err, p.close(ctx))
		}
		p.listeners, p.addresses = append(p.listeners, l), append(p.addresses, l.Addr().String())
	}
	return p, nil
}

// start starts the peers of the node at address.
func (p *peers) start(ctx context.Context, address string) error {
	snapshot, err := workload.Snapshot(p.config.Keys, p.config.Interval, p.config.Algorithm)
	if err != nil {
		return err
	}
	hosts, err := static.New(workload.Members(append([]string{address}, p.addresses...))...)
	if err != nil {
		return err
	}
	for i, l := range p.listeners {
		transport := &countedTransport{
			Standalone: rpcyarpc.Standalone{Listener: p.carried.Listen(l), Client: rpcyarpc.ClientOptions{Dial: p.carried.Dial}},
			peers:      p,
		}
		node, err := headgate.New(headgate.Config{Address: p.addresses[i]}, memory.New(snapshot), hosts,
			headgate.WithTransport(transport), headgate.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			return err
		}
		if err := node.Start(ctx); err != nil {
			return err
		}
		p.nodes, p.transports = append(p.nodes, node), append(p.transports, transport)
	}
	return nil
}

// use has every peer use each of keys once an interval.
func (p *peers) use(ctx context.Context, keys []string) {
	ctx, p.stop = context.WithCancel(ctx)
	perSecond := float64(len(keys)) / p.config.Interval.Seconds()
	for i, node := range p.nodes {
		t := newTraffic(node.Group(), keys, uint64(i))
		p.loops.Go(func() { t.run(ctx, p.config.load(perSecond, callersOfPeer)) })
	}
	p.loops.Go(func() { p.watchTimers(ctx) })
}

// watchTimers notes how late timers go off here: as late as any program of this
// machine runs when it has something to do.
func (p *peers) watchTimers(ctx context.Context) {
	timer := time.NewTimer(pace)
	defer timer.Stop()
	for next := time.Now().Add(pace); ; next = time.Now().Add(pace) {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		late := time.Since(next)
		timer.Reset(pace)
		p.mu.Lock()
		p.late = append(p.late, late)
		p.mu.Unlock()
	}
}

// close ends all peers at once. None tells the others that it leaves, because there is
// no cluster left.
func (p *peers) close(ctx context.Context) error {
	p.stop()
	p.loops.Wait()
	var errs []error
	for _, l := range p.listeners[len(p.nodes):] {
		errs = append(errs, l.Close())
	}
	stopped := make([]error, len(p.nodes))
	var stopping sync.WaitGroup
	for i, n := range p.nodes {
		stopping.Go(func() {
			stopped[i] = errors.Join(p.transports[i].Stop(ctx), n.Stop(ctx))
		})
	}
	stopping.Wait()
	return errors.Join(errors.Join(errs...), errors.Join(stopped...))
}

// note takes in how a call with a report went.
func (p *peers) note(took time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if err != nil {
		p.failed.Add(1)
		return
	}
	p.took = append(p.took, took)
}

// countedTransport is a peer's. It counts the calls in both directions.
type countedTransport struct {
	rpcyarpc.Standalone

	peers *peers
}

// Start implements headgate.Transport.
func (t *countedTransport) Start(ctx context.Context, decider rpc.Decider) error {
	return t.Standalone.Start(ctx, answering{decider, t.peers})
}

// Peer implements rpc.Peers.
func (t *countedTransport) Peer(address string) (rpc.Decider, error) {
	decider, err := t.Standalone.Peer(address)
	if err != nil {
		return nil, err
	}
	return calling{decider, t.peers}, nil
}

// answering is a peer that is called.
type answering struct {
	rpc.Decider

	peers *peers
}

// Update implements rpc.Decider.
func (a answering) Update(ctx context.Context, caller string, payload *anypb.Any) (*anypb.Any, error) {
	switch payload.TypeUrl {
	case usage.ReportTypeURL:
		a.peers.calls.Add(1)
		a.peers.rowsReceived.Add(keysIn(payload))
	case usage.TakesTypeURL:
		a.peers.asksReceived.Add(rowsIn(payload))
	}
	return a.Decider.Update(ctx, caller, payload)
}

// calling is a peer that calls.
type calling struct {
	rpc.Decider

	peers *peers
}

// Update implements rpc.Decider. It measures how long the host waits for the answer.
func (c calling) Update(ctx context.Context, caller string, payload *anypb.Any) (*anypb.Any, error) {
	if payload.TypeUrl == usage.TakesTypeURL {
		c.peers.asksSent.Add(rowsIn(payload))
		return c.Decider.Update(ctx, caller, payload)
	}
	rows := keysIn(payload)
	began := time.Now()
	answer, err := c.Decider.Update(ctx, caller, payload)
	if took := time.Since(began); !errors.Is(ctx.Err(), context.Canceled) {
		c.peers.note(took, err)
		if err == nil {
			c.peers.rowsSent.Add(rows)
		}
	}
	return answer, err
}

var reportPool = sync.Pool{New: func() any { return new(usage.Report) }}

// keysIn is how many keys a report has.
func keysIn(payload *anypb.Any) int64 {
	r, _ := reportPool.Get().(*usage.Report)
	defer reportPool.Put(r)
	if err := (usage.Columnar{}).DecodeReport(payload, r); err != nil {
		return 0
	}
	return int64(r.Len())
}

// rowsIn is how many events a message asks for.
func rowsIn(payload *anypb.Any) int64 {
	var t usage.Takes
	if err := usage.DecodeTakes(payload, &t); err != nil {
		return 0
	}
	return int64(len(t.Rows))
}
