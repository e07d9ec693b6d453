// SPDX-License-Identifier: Apache-2.0

package growth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/internal/nodeload/netcount"
	"github.com/headgate/headgate/internal/nodeload/workload"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/rpcyarpc"
)

// CallCost is what calls take of their own, whatever the payload says. Each is
// of both sides: in a cluster, every host makes calls and answers as many.
type CallCost struct {
	// Us is CPU to make and to answer a call about one key.
	Us float64 `json:"us"`
	// KeyNs is what each further key adds: its bytes are copied and sent.
	KeyNs float64 `json:"key_ns"`
	// Bytes is what a call and its answer have on the wire but the payloads.
	Bytes float64 `json:"bytes"`
	// ConnectionBytes is memory for a connection to another host and one
	// from it, without the kernel's.
	ConnectionBytes float64 `json:"connection_bytes"`
}

// calls over each connection, after the first.
const calls = 20

// callCost calls a server over so many connections.
func callCost(ctx context.Context, connections int) (c CallCost, err error) {
	var carrying netcount.Bytes
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return c, err
	}
	one, err := newCaller(1)
	if err != nil {
		return c, err
	}
	many, err := newCaller(perCall)
	if err != nil {
		return c, err
	}
	s := rpcyarpc.NewServer(l, ready{one, many}, rpcyarpc.ServerOptions{})
	defer func() { err = errors.Join(err, s.Stop(context.WithoutCancel(ctx))) }()
	if err := s.Start(); err != nil {
		return c, err
	}
	before := held()
	// All addresses lead to the one server, each by a connection of its own.
	client, err := rpcyarpc.NewClient(rpcyarpc.ClientOptions{Dial: func(ctx context.Context, _ string) (net.Conn, error) {
		return carrying.Dial(ctx, l.Addr().String())
	}})
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	to := make([]rpc.Decider, connections)
	for i := range to {
		if to[i], err = client.Peer(fmt.Sprintf("10.0.%d.%d:7933", i>>8, i&0xff)); err != nil {
			return c, err
		}
	}
	if err := one.call(ctx, to); err != nil {
		return c, err
	}
	c.ConnectionBytes = (held() - before) / float64(connections)
	n := calls * connections
	carried := carrying.Sent.Load() + carrying.Received.Load()
	var small, large stopwatch
	for range calls {
		small.time(func() { err = errors.Join(err, one.call(ctx, to)) })
	}
	carried = carrying.Sent.Load() + carrying.Received.Load() - carried
	for range calls {
		large.time(func() { err = errors.Join(err, many.call(ctx, to)) })
	}
	c.Us = small.per(n) / 1e3
	c.KeyNs = (large.per(n) - small.per(n)) / (perCall - 1)
	c.Bytes = float64(carried)/float64(n) - float64(len(one.usage.Value)+len(one.grants.Value))
	return c, errors.Join(err, small.err, large.err)
}

// caller makes calls that are all alike.
type caller struct {
	usage, grants *anypb.Any
}

func newCaller(n int) (caller, error) {
	usage, err := reports(workload.Keys(n))
	if err != nil {
		return caller{}, err
	}
	grants, err := evenGrants(n, owners)
	return caller{usage[0], grants}, err
}

// atOnce is how many calls are under way.
const atOnce = 8

// call calls each of to once.
func (c caller) call(ctx context.Context, to []rpc.Decider) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var running sync.WaitGroup
	errs := make([]error, atOnce)
	for w := range errs {
		running.Go(func() {
			for i := w; i < len(to); i += atOnce {
				_, err := to[i].Update(ctx, "host-0", c.usage)
				errs[w] = errors.Join(errs[w], err)
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// ready has its answers ready.
type ready struct{ one, many caller }

// Update implements rpc.Decider.
func (r ready) Update(_ context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
	if len(payload.Value) == len(r.one.usage.Value) {
		return r.one.grants, nil
	}
	return r.many.grants, nil
}
