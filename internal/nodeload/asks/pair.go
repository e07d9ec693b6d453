// SPDX-License-Identifier: Apache-2.0

package asks

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/internal/nodeload/workload"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/static"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/rpcyarpc"
	"github.com/headgate/headgate/rpc/usage"
)

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
	hosts := workload.Members([]string{listeners[0].Addr().String(), listeners[1].Addr().String()})
	if p.host, err = startNode(ctx, listeners[0], snapshot, hosts); err != nil {
		return nil, err
	}
	if p.owner, err = startNode(ctx, p.gate, snapshot, hosts); err != nil {
		return nil, err
	}
	for _, key := range workload.Keys(4 * askKeys) {
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
			for time.Since(began) < d && workload.Pause(ctx, time.Duration(random.ExpFloat64()*float64(askGap))) == nil {
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
