// SPDX-License-Identifier: Apache-2.0

// Package keyed makes a payload of a service's own out of three functions: what a host
// asks about a key, what the key's owner answers, and what the answer lets the host do.
// The messages are JSON.
//
//	p := keyed.Payload[request, response, state]{Type: "example.com/mine", Ask: ask, Decide: decide, Grant: grant}
//	headgate.WithPayload("mine", headgate.Payload{TypeURL: p.Type, Codec: p.Codec(), Owner: p.Owner()})
//
// The owner keeps a state for each key, which begins as its zero value: when a key is new,
// when it moves to another owner, and after Keep. A payload whose owners hand states over,
// or whose answers depend on several keys, implements usage.Codec and aggregator.Owner
// itself.
//
// The package does not know what the three functions decide. One lock guards the states of all
// keys, and an owner holds it while it calls Decide.
package keyed

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// Payload is the functions of one algorithm. Its fields do not change once it is in
// use. Request, Response and State are anything; the first two must survive
// encoding/json. A Response that is null there, such as a nil map, gives the host no grant.
// Messages have up to rpc.KeysPerCall rows. Requests of more than 3 MiB go in several messages. An
// answer is one message of at most MaxAnswer bytes: so a Response should have 300 bytes at most as JSON.
//
// A Request or a Response that is no JSON, because of a number such as NaN, and a Grant that is against
// its contract cost their own keys a grant. The node counts and logs that.
type Payload[Request, Response, State any] struct {
	// Type names the messages, such as example.com/first-come.
	Type string

	// Ask is what a host asks about a key that it used.
	Ask func(used Use) Request

	// Decide answers host, and changes the key's state. One call runs at a time, so that
	// all keys wait for a Decide that waits.
	Decide func(now time.Time, host string, state *State, r Request) Response

	// Grant is what the host may do.
	Grant func(Response) Grant

	// Keep is how long the owner keeps the state of a key that no host asks about;
	// default DefaultKeep. Zero is the default.
	Keep time.Duration

	// MaxKeys bounds the keys of one owner, because any program may choose their names;
	// default DefaultMaxKeys. More have no grant.
	MaxKeys int
}

// Defaults of a Payload.
const (
	DefaultKeep    = time.Minute
	DefaultMaxKeys = 100_000
)

// Use is what a host did with a key since its last report.
type Use struct {
	Key               string
	Allowed, Rejected int64 // cost
	Elapsed           time.Duration
	Weight            float64 // the part of the limit that it has; 0 without a grant
}

// Grant is what a host may do with a key.
type Grant struct {
	Weight float64 // the part of the limit, in [0, 1]
	Burst  float64 // tokens that its bucket may hold
	Lease  time.Duration
}

// MaxAnswer is the most bytes of an answer: transports carry 4 MiB, with names and types.
const MaxAnswer = 4<<20 - 4<<10

// message is both messages. Keys are bytes, because not all of them are UTF-8. Bad are the rows that are
// no JSON, with null in their places, and Why says why the last of them is not.
type message[Row any] struct {
	Keys column[[]byte] `json:"keys,omitempty"`
	Rows column[Row]    `json:"rows"`
	Bad  column[int]    `json:"bad,omitempty"`
	Why  string         `json:"why,omitempty"`
}

// missing says why rows of m are bad; nil if none is.
func (m *message[Row]) missing(typeURL string) error {
	if len(m.Bad) == 0 {
		return nil
	}
	return rpc.Refuse("%s: %d rows have no grant, because they are no JSON: %.200s", typeURL, len(m.Bad), m.Why)
}

// column is a list of at most rpc.MaxKeys. It has no memory for more, which a short text may name.
type column[Row any] []Row

// UnmarshalJSON implements json.Unmarshaler.
func (c *column[Row]) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	switch begin, err := d.Token(); {
	case err == nil && begin == nil: // null, which is no list, and changes nothing
		return nil
	case begin != json.Delim('['):
		return cmp.Or(err, errNoList)
	}
	for *c = (*c)[:0]; d.More(); {
		if len(*c) == rpc.MaxKeys {
			return errTooLong
		}
		var row Row
		if err := d.Decode(&row); err != nil {
			return err
		}
		*c = append(*c, row)
	}
	return nil
}

var (
	errNoList  = errors.New("keys and rows are lists")
	errTooLong = fmt.Errorf("a message has at most %d keys, and a row for each", rpc.MaxKeys)
)

// outgoing is a message that is being made.
type outgoing struct{ message[json.RawMessage] }

// add adds a row; nil is null.
func (o *outgoing) add(row any) {
	text, err := json.Marshal(row)
	if err != nil {
		o.Bad, o.Why, text = append(o.Bad, len(o.Rows)), err.Error(), []byte("null")
	}
	o.Rows = append(o.Rows, text)
}

// encode returns o as a payload.
func (o *outgoing) encode(typeURL string) (*anypb.Any, error) {
	o.Why = o.Why[:min(len(o.Why), 200)]
	text, err := json.Marshal(o.message)
	if err != nil {
		return nil, rpc.Refuse("%s: %w", typeURL, err)
	}
	return &anypb.Any{TypeUrl: typeURL, Value: text}, nil
}

func decode[Row any](typeURL string, payload *anypb.Any) (m message[Row], err error) {
	if rpc.MessageName(payload.GetTypeUrl()) != rpc.MessageName(typeURL) {
		return m, rpc.Refuse("its type is %.100q; expected %s", payload.GetTypeUrl(), typeURL)
	}
	if err := json.Unmarshal(payload.GetValue(), &m); err != nil { // whose text may have all of a long number
		return m, rpc.Refuse("%s: %.200v", typeURL, err)
	}
	return m, nil
}

// Codec returns the host's half of p.
func (p Payload[Request, Response, State]) Codec() usage.Codec {
	return codec[Request, Response, State]{p}
}

type codec[Request, Response, State any] struct {
	Payload[Request, Response, State]
}

// EncodeReport implements usage.Codec.
func (c codec[Request, Response, State]) EncodeReport(r *usage.Report) (*anypb.Any, error) {
	var o outgoing
	for i, key := range r.Keys {
		o.Keys = append(o.Keys, []byte(key))
		o.add(c.Ask(Use{key, r.Allowed[i], r.Rejected[i], r.Elapsed[i], r.Weight[i]}))
	}
	payload, err := o.encode(c.Type)
	return payload, cmp.Or(err, o.missing(c.Type))
}

// DecodeGrants implements usage.Codec.
func (c codec[Request, Response, State]) DecodeGrants(payload *anypb.Any, r *usage.Report) (*usage.Grants, error) {
	m, err := decode[*Response](c.Type, payload)
	if err != nil {
		return nil, err
	}
	if len(m.Rows) != r.Len() {
		return nil, rpc.Refuse("%s: %d rows answer %d keys", c.Type, len(m.Rows), r.Len())
	}
	g := new(usage.Grants)
	for _, row := range m.Rows {
		var one Grant
		if row != nil {
			one = c.Grant(*row)
		}
		g.Weight, g.Burst = append(g.Weight, one.Weight), append(g.Burst, one.Burst)
		g.Used, g.Lease = append(g.Used, 0), append(g.Lease, one.Lease)
	}
	return g, m.missing(c.Type) // the caller checks the grants
}

// Owner returns the half of p that runs on the owners of keys.
func (p Payload[Request, Response, State]) Owner() aggregator.Owner {
	return &owner[Request, Response, State]{Payload: p, keys: make(map[string]*entry[State])}
}

type owner[Request, Response, State any] struct {
	aggregator.NoLifecycle
	Payload[Request, Response, State]

	mu   sync.Mutex // protects keys
	keys map[string]*entry[State]
}

type entry[State any] struct {
	state State
	asked time.Time // last
}

// Update implements rpc.Decider.
func (o *owner[Request, Response, State]) Update(_ context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	asked, err := decode[Request](o.Type, payload)
	if err != nil {
		return nil, err
	}
	if n := len(asked.Keys); n != len(asked.Rows) {
		return nil, rpc.Refuse("%d keys and %d rows; send a row for each key", n, len(asked.Rows))
	}
	for i, key := range asked.Keys { // before any state changes
		if len(key) == 0 || len(key) > rpc.MaxKeyLength {
			return nil, rpc.Refuse("row %d: the key has %d bytes; it has 1 to %d", i, len(key), rpc.MaxKeyLength)
		}
	}
	bad := make([]bool, len(asked.Rows))
	for _, row := range asked.Bad {
		if row < 0 || row >= len(bad) {
			return nil, rpc.Refuse("row %d of %d is bad; name rows of the message", row, len(bad))
		}
		bad[row] = true
	}
	answer, err := o.decide(host, asked, bad).encode(o.Type)
	if err != nil {
		return nil, err
	}
	if size := len(answer.GetValue()); size > MaxAnswer {
		return nil, rpc.Refuse("%s: the answer about %d keys has %d bytes, and a message has at most %d: let a Response have 300 bytes at most as JSON", o.Type, len(bad), size, MaxAnswer)
	}
	return answer, nil
}

// decide answers the rows of asked that are not bad.
func (o *owner[Request, Response, State]) decide(host string, asked message[Request], bad []bool) *outgoing {
	o.mu.Lock()
	defer o.mu.Unlock()

	now, answer := time.Now(), new(outgoing)
	for i, key := range asked.Keys {
		var e *entry[State]
		if !bad[i] {
			e = o.entry(string(key))
		}
		if e == nil {
			answer.add(nil)
			continue
		}
		e.asked = now
		answer.add(o.Decide(now, host, &e.state, asked.Rows[i]))
	}
	return answer
}

// entry finds or makes the entry of key; nil if there is no room.
func (o *owner[Request, Response, State]) entry(key string) *entry[State] {
	e := o.keys[key]
	if e == nil && len(o.keys) < cmp.Or(max(o.MaxKeys, 0), DefaultMaxKeys) {
		e = new(entry[State])
		o.keys[strings.Clone(key)] = e
	}
	return e
}

// Sweep implements aggregator.Lifecycle.
func (o *owner[Request, Response, State]) Sweep(now time.Time) {
	keep := cmp.Or(max(o.Keep, 0), DefaultKeep)
	o.forget(func(_ string, e *entry[State]) bool { return now.Sub(e.asked) > keep })
}

// RingMoved implements aggregator.Lifecycle.
func (o *owner[Request, Response, State]) RingMoved(c aggregator.Cluster) {
	o.forget(func(key string, _ *entry[State]) bool { return !c.Owns(key) })
}

func (o *owner[Request, Response, State]) forget(gone func(string, *entry[State]) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()

	maps.DeleteFunc(o.keys, gone)
}
