// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// ErrUnknownType is wrapped by a Mux's answer to a message for which no Decider
// is registered, as when the sender is of a later release.
var ErrUnknownType = errors.New("rpc: unknown payload type")

// TypeURL is the type URL under which m travels as a payload.
func TypeURL(m proto.Message) string {
	return "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName())
}

// MessageName is the part of a type URL that counts: what follows its last slash.
func MessageName(typeURL string) string {
	return typeURL[strings.LastIndexByte(typeURL, '/')+1:]
}

// Mux is a Decider that hands each payload to the Decider which registered
// for its type. The zero value knows no type. Safe for concurrent use.
type Mux struct {
	mu       sync.RWMutex
	deciders map[string]Decider // by message name
}

var _ Decider = (*Mux)(nil)

// Register makes d answer payloads of the type that typeURL names; only what
// follows its last slash counts. It is an error if there is no name, no
// Decider, or one for that type already.
func (m *Mux) Register(typeURL string, d Decider) error {
	name := MessageName(typeURL)
	if name == "" {
		return fmt.Errorf("rpc: register a decider for %q: no message name; use rpc.TypeURL of the request", typeURL)
	}
	if d == nil {
		return fmt.Errorf("rpc: register a decider for %s: it is nil", name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, taken := m.deciders[name]; taken {
		return fmt.Errorf("rpc: register a decider for %s: there is one already; a type has one decider", name)
	}
	if m.deciders == nil {
		m.deciders = make(map[string]Decider)
	}
	m.deciders[name] = d
	return nil
}

// Update hands payload on by its type. An unknown type is an ErrUnknownType
// that names the known ones; a Decider that panics is a *PanicError.
func (m *Mux) Update(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	name := MessageName(payload.GetTypeUrl())
	m.mu.RLock()
	d := m.deciders[name]
	m.mu.RUnlock()
	if d == nil {
		return nil, fmt.Errorf("%w %.100q; this decider knows %s", ErrUnknownType, name, m.known())
	}
	return Ask(ctx, d, host, payload)
}

func (m *Mux) known() string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if len(m.deciders) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(m.deciders)), ", ")
}
