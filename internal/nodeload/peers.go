// SPDX-License-Identifier: Apache-2.0

package nodeload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/rpcyarpc"
	"github.com/headgate/headgate/rpc/usage"
)

// peers are the other hosts of the cluster: as owners they answer the node
// under test, and as hosts they report what they use of its keys.
type peers struct {
	config    Config
	addresses []string
	servers   []*rpcyarpc.Server
	clients   []*rpcyarpc.Client
	loops     sync.WaitGroup
	stop      context.CancelFunc

	// Since the peers started. Sent and received are as the peers see it.
	sent, received         atomic.Int64 // bytes
	rowsSent, rowsReceived atomic.Int64
	calls                  atomic.Int64 // that the node under test made
	failed                 atomic.Int64 // that the peers made in vain

	mu   sync.Mutex // protects following fields
	took []time.Duration
	late []time.Duration
	err  error
}

// listen makes peers that answer. Close ends them.
func listen(ctx context.Context, config Config) (*peers, error) {
	p := &peers{config: config, stop: func() {}}
	for range config.Hosts - 1 {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(err, p.close(ctx))
		}
		s := rpcyarpc.NewServer(countedListener{l, p}, owner{p}, rpcyarpc.ServerOptions{})
		p.servers, p.addresses = append(p.servers, s), append(p.addresses, l.Addr().String())
		if err := s.Start(); err != nil {
			return nil, errors.Join(err, p.close(ctx))
		}
	}
	return p, nil
}

// report makes every peer report what it uses of keys to the owner at address,
// once an interval, at a time of its own.
func (p *peers) report(ctx context.Context, address string, keys []string) error {
	ctx, p.stop = context.WithCancel(ctx)
	random := rand.New(rand.NewPCG(2, 2))
	for i := range p.addresses {
		client, err := rpcyarpc.NewClient(rpcyarpc.ClientOptions{Dial: p.dial})
		if err != nil {
			return err
		}
		p.clients = append(p.clients, client)
		decider, err := client.Peer(address)
		if err != nil {
			return err
		}
		h := newHost(p, p.addresses[i], decider, keys)
		wait := time.Duration(random.Int64N(int64(p.config.Interval)))
		p.loops.Go(func() { h.run(ctx, wait) })
	}
	return nil
}

// close ends all peers.
func (p *peers) close(ctx context.Context) error {
	p.stop()
	p.loops.Wait()
	var errs []error
	for _, c := range p.clients {
		errs = append(errs, c.Close())
	}
	var stopping sync.WaitGroup
	stopped := make([]error, len(p.servers))
	for i, s := range p.servers {
		stopping.Go(func() { stopped[i] = s.Stop(ctx) })
	}
	stopping.Wait()
	return errors.Join(errors.Join(errs...), errors.Join(stopped...))
}

// note takes in how a call went, and how late it began: as late as a host of
// this machine runs when it has something to do.
func (p *peers) note(took, late time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if err == nil {
		p.took, p.late = append(p.took, took), append(p.late, late)
		return
	}
	p.failed.Add(1)
	if p.err == nil {
		p.err = err
	}
}

// host is a peer's half that reports.
type host struct {
	peers   *peers
	address string
	owner   rpc.Decider
	usage   usage.Report
}

func newHost(p *peers, address string, decider rpc.Decider, keys []string) *host {
	return &host{peers: p, address: address, owner: decider, usage: usageOf(p.config, keys)}
}

// usageOf is what a host has to say that used each of keys once.
func usageOf(c Config, keys []string) usage.Report {
	n := len(keys)
	return usage.Report{
		Algorithm: algorithmOf(c),
		Keys:      keys,
		Allowed:   fill(n, int64(1)),
		Rejected:  make([]int64, n),
		Elapsed:   fill(n, c.Interval),
		Weight:    make([]float64, n),
		Wants:     fill(n, 1/c.Interval.Seconds()),
	}
}

// algorithmOf is what reports say.
func algorithmOf(c Config) string {
	if c.Algorithm == "" {
		return algorithm.NameElastic
	}
	return c.Algorithm
}

func (h *host) run(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	next := time.Now().Add(wait)
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		late := time.Since(next)
		if took, err := h.report(ctx); ctx.Err() == nil {
			h.peers.note(took, late, err)
		}
		next = next.Add(h.peers.config.Interval)
		timer.Reset(time.Until(next))
	}
}

// patience is how long a peer waits for an answer: longer than a host does,
// for slow answers to be measured and not cut off.
const patience = 10 * time.Second

// report is one update: what is timed is what a host waits for.
func (h *host) report(ctx context.Context) (took time.Duration, err error) {
	payload, err := usage.Columnar{}.EncodeReport(&h.usage)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	answer, err := h.owner.Update(ctx, h.address, payload)
	took = time.Since(began)
	if err != nil {
		return took, err
	}
	grants, err := usage.Columnar{}.DecodeGrants(answer, &h.usage)
	if err != nil {
		return took, err
	}
	h.usage.Weight = grants.Weight
	h.peers.rowsSent.Add(int64(h.usage.Len()))
	return took, nil
}

// owner is a peer's half that decides: all get as much.
type owner struct{ peers *peers }

var usages = sync.Pool{New: func() any { return new(usage.Report) }}

// Update implements rpc.Decider.
func (o owner) Update(_ context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
	u, _ := usages.Get().(*usage.Report)
	defer usages.Put(u)
	if err := (usage.Columnar{}).DecodeReport(payload, u); err != nil {
		return nil, err
	}
	n := u.Len()
	o.peers.calls.Add(1)
	o.peers.rowsReceived.Add(int64(n))
	return evenGrants(n, o.peers.config.Hosts)
}

// evenGrants gives a host the even share of n keys that so many hosts use.
func evenGrants(n, hosts int) (*anypb.Any, error) {
	share := 1 / float64(hosts)
	g := usage.Grants{
		Weight: fill(n, share), Burst: fill(n, burst*share), Used: make([]float64, n), Tokens: fill(n, burst*share),
		Lease: fill(n, 10*interval),
	}
	return usage.Columnar{}.EncodeGrants(&g, n)
}

func fill[T any](n int, v T) []T {
	column := make([]T, n)
	for i := range column {
		column[i] = v
	}
	return column
}

// countedListener counts what its connections carry.
type countedListener struct {
	net.Listener

	peers *peers
}

// Accept waits for the next connection.
func (l countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countedConn{c, l.peers}, nil
}

func (p *peers) dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("a peer: %w", err)
	}
	return countedConn{c, p}, nil
}

type countedConn struct {
	net.Conn

	peers *peers
}

// Read counts what it reads.
func (c countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.peers.received.Add(int64(n))
	return n, err
}

// Write counts what it writes.
func (c countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.peers.sent.Add(int64(n))
	return n, err
}
