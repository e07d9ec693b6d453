// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// keep is how long a host has a key that it does not use.
const keep = 2 * time.Second

// maxKeys bounds the keys that a host keeps as their owner: their names come from
// whoever sends messages. Nobody has one more.
const maxKeys = 10_000

// payload is "first come, first served": the first host that uses a key has all
// of its limit, until it has not used the key for some time. A request says what
// each key cost, and a response which host has it.
func payload(host string) headgate.Payload {
	return headgate.Payload{
		Codec:   codec{host},
		TypeURL: rpc.TypeURL(&structpb.Struct{}),
		Owner:   &owner{holders: make(map[string]holder)},
	}
}

// owner keeps who has the keys that this host owns.
type owner struct {
	aggregator.NoLifecycle
	mu      sync.Mutex // protects holders
	holders map[string]holder
}

// holder is the host that has a key, and when it used the key last.
type holder struct {
	host string
	used time.Time
}

// Update answers one request.
func (o *owner) Update(_ context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	var request structpb.Struct
	if err := payload.UnmarshalTo(&request); err != nil {
		return nil, fmt.Errorf("%w: %w", rpc.ErrPayload, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()

	response := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	for key, cost := range request.GetFields() {
		h := o.holders[key]
		if cost.GetNumberValue() > 0 && (h.host == host || h.host == "" && len(o.holders) < maxKeys) {
			h = holder{host, time.Now()}
			o.holders[key] = h
		}
		response.Fields[key] = structpb.NewStringValue(h.host)
	}
	return anypb.New(response)
}

// Sweep takes keys away from hosts that do not use them.
func (o *owner) Sweep(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()

	maps.DeleteFunc(o.holders, func(_ string, h holder) bool { return now.Sub(h.used) > keep })
}

// RingMoved forgets keys that another host owns from now on.
func (o *owner) RingMoved(c aggregator.Cluster) {
	o.mu.Lock()
	defer o.mu.Unlock()

	maps.DeleteFunc(o.holders, func(key string, _ holder) bool { return !c.Owns(key) })
}

// codec speaks for one host.
type codec struct{ host string }

// EncodeReport makes a request of what the host used.
func (codec) EncodeReport(u *usage.Report) (*anypb.Any, error) {
	request := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	for i, key := range u.Keys {
		request.Fields[key] = structpb.NewNumberValue(float64(u.Allowed[i] + u.Rejected[i]))
	}
	return anypb.New(request)
}

// DecodeGrants makes grants of the response: all of the limit, or nothing.
func (c codec) DecodeGrants(payload *anypb.Any, u *usage.Report) (*usage.Grants, error) {
	var response structpb.Struct
	if err := payload.UnmarshalTo(&response); err != nil {
		return nil, fmt.Errorf("%w: %w", rpc.ErrPayload, err)
	}
	g := new(usage.Grants)
	for _, key := range u.Keys {
		weight, burst := 0.0, 0.0
		if response.GetFields()[key].GetStringValue() == c.host {
			weight, burst = 1, 10
		}
		g.Weight, g.Burst = append(g.Weight, weight), append(g.Burst, burst)
		g.Used, g.Lease = append(g.Used, 0), append(g.Lease, 2*time.Second)
	}
	return g, nil
}
