// SPDX-License-Identifier: Apache-2.0

package rpctest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/headgatepb"
)

// ErrRefused is in the error of a call to a host that does not serve.
var ErrRefused = errors.New("rpctest: connection refused")

// Host is one host of a Network. Safe for concurrent use.
type Host struct {
	network *Network
	name    string

	mu      sync.Mutex
	decider rpc.Decider
}

// Serve has d answer the calls of the host; with nil, the host refuses calls. The Decider
// before answers the calls that are under way.
func (h *Host) Serve(d rpc.Decider) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.decider = d
}

// Peers is the network as this host sees it. Every address has a peer; those
// without a serving host refuse calls.
func (h *Host) Peers() rpc.Peers { return peers{from: h} }

func (h *Host) serving() rpc.Decider {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.decider
}

type peers struct{ from *Host }

func (p peers) Peer(address string) (rpc.Decider, error) {
	return remote{from: p.from, to: p.from.network.Host(address)}, nil
}

// remote is one host as another reaches it.
type remote struct{ from, to *Host }

// Update sends a request, and waits for the answer until ctx ends: a lost message is the
// error of ctx. Errors and panics of the Decider travel back as messages do.
func (r remote) Update(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	n := r.from.network
	if err := r.travel(ctx, r.from, r.to); err != nil {
		return nil, err
	}
	request := payload
	if n.bytes.Load() {
		message := &headgatepb.UpdateRequest{Host: host, Payload: payload}
		copied := &headgatepb.UpdateRequest{}
		if err := recode(message, copied); err != nil {
			return nil, err
		}
		host, request = copied.GetHost(), copied.GetPayload()
	}
	answer, err := r.decide(ctx, host, request)
	if n.bytes.Load() && err == nil {
		copied := &headgatepb.UpdateResponse{}
		err = recode(&headgatepb.UpdateResponse{Payload: answer}, copied)
		answer = copied.GetPayload()
	}
	if request != payload {
		clear(request.GetValue())
	}
	if late := r.travel(ctx, r.to, r.from); late != nil {
		return nil, late // and the answer is dropped
	}
	if err != nil {
		return nil, err
	}
	return answer, nil
}

func (r remote) decide(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	d := r.to.serving()
	if d == nil {
		return nil, fmt.Errorf("call %q: %w", r.to.name, ErrRefused)
	}
	headers := rpc.Headers(ctx)
	return rpc.Ask(rpc.WithReceived(ctx, func(name string) string { return headers[name] }), d, host, payload)
}

// travel waits for as long as a message is under way.
func (r remote) travel(ctx context.Context, from, to *Host) error {
	delay, lost := r.from.network.link(from.name, to.name).send()
	if lost {
		<-ctx.Done()
		return ctx.Err()
	}
	return wait(ctx, delay)
}

func recode(from, to proto.Message) error {
	raw, err := proto.Marshal(from)
	if err != nil {
		return fmt.Errorf("encode %T: %w", from, err)
	}
	if err := proto.Unmarshal(raw, to); err != nil {
		return fmt.Errorf("decode %T: %w", from, err)
	}
	return nil
}
