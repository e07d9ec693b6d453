// SPDX-License-Identifier: Apache-2.0

package bubble

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/static"
	"github.com/headgate/headgate/rpc"
)

// Start starts n nodes under rules, a file in YAML. They know each other, and stop when
// the test ends.
func Start(t testing.TB, n int, rules string, opts ...headgate.Option) ([]*headgate.Node, *Wire) {
	t.Helper()
	snapshot, err := dynamicconfig.Parse("limits.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	return StartWith(t, n, func(int) dynamicconfig.Source { return memory.New(snapshot) }, opts...)
}

// StartWith is Start with a source of limits for each node, by its number, which it asks for
// just before it starts the node.
func StartWith(t testing.TB, n int, source func(i int) dynamicconfig.Source, opts ...headgate.Option) ([]*headgate.Node, *Wire) {
	t.Helper()
	w := &Wire{deciders: make(map[string]rpc.Decider), calls: make(map[string]int)}
	var hosts []ringpop.Host
	for i := range n {
		hosts = append(hosts, ringpop.Host{Address: fmt.Sprintf("10.0.0.%d:7933", i+1)})
	}
	members, err := static.New(hosts...)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []*headgate.Node
	for i, h := range hosts {
		node, err := headgate.New(headgate.Config{Address: h.Address}, source(i), members, append([]headgate.Option{
			headgate.WithTransport(&transport{w, h.Address}), headgate.WithLogger(slog.New(slog.DiscardHandler)),
		}, opts...)...)
		if err == nil {
			err = node.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := node.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
		nodes = append(nodes, node)
	}
	return nodes, w
}

// Wire carries calls between nodes. It is safe for concurrent use.
type Wire struct {
	mu       sync.Mutex // protects following fields
	deciders map[string]rpc.Decider
	calls    map[string]int // by the type of the payload
}

// Calls is how many calls there were whose payload has a type.
func (w *Wire) Calls(typeURL string) int {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.calls[typeURL]
}

// Cut has the host at address hear of nobody from now on.
func (w *Wire) Cut(address string) {
	w.mu.Lock()
	defer w.mu.Unlock()

	delete(w.deciders, address)
}

// Hang makes the host at address hang: from now on, calls to it end when their callers give up.
func (w *Wire) Hang(address string) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.deciders[address] = hung{}
}

// hung is a host that does not answer until the caller has given up.
type hung struct{}

func (hung) Update(ctx context.Context, _ string, _ *anypb.Any) (*anypb.Any, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// at is the Decider at address; nil if there is none.
func (w *Wire) at(address, typeURL string) rpc.Decider {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.calls[typeURL]++
	return w.deciders[address]
}

// transport is a host's headgate.Transport.
type transport struct {
	wire    *Wire
	address string
}

func (b *transport) Start(_ context.Context, d rpc.Decider) error {
	b.wire.mu.Lock()
	defer b.wire.mu.Unlock()

	b.wire.deciders[b.address] = d
	return nil
}

func (b *transport) Keep([]string) error        { return nil }
func (b *transport) Stop(context.Context) error { return nil }

func (b *transport) Peer(address string) (rpc.Decider, error) { return &peer{b.wire, address}, nil }

// peer is a host as others see it.
type peer struct {
	wire    *Wire
	address string
}

func (p *peer) Update(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	if err := pass(ctx); err != nil {
		return nil, err
	}
	d := p.wire.at(p.address, payload.GetTypeUrl())
	if d == nil {
		return nil, errors.New("no host listens at " + p.address)
	}
	answer, err := rpc.Ask(ctx, d, host, payload)
	if err != nil {
		return nil, err
	}
	return answer, pass(ctx)
}
