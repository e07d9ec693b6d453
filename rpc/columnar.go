// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
)

// Type URLs of the built-in payload: headgate.v1.Usage and its answer.
const (
	UsageTypeURL  = "type.googleapis.com/headgate.v1.Usage"
	GrantsTypeURL = "type.googleapis.com/headgate.v1.Grants"
)

const (
	usageName  = "headgate.v1.Usage"
	grantsName = "headgate.v1.Grants"
)

// Columnar is the Codec of the built-in payload, and the decider's half of
// it too. Its bytes are those of the messages in headgatepb, written and read
// without making the messages: about 30 to 32 bytes a key out, for keys of 24
// bytes, and 12 back. The zero value is ready.
//
// What the wire rounds: weights down to a float32 in grants, and to the 8 bits
// of its upper half in usage; wants to 8 bits, the nearest; bursts, used, tokens
// and costs to the nearest float32 (all at most math.MaxFloat32); elapsed to the nearest
// millisecond, leases down to one; elapsed and leases never to 0.
//
// Safe for concurrent use.
type Columnar struct{}

var _ Codec = Columnar{}

// EncodeUsage returns u as a payload. It does not keep u. The error, an
// ErrPayload, is that of u.Check.
func (Columnar) EncodeUsage(u *Usage) (*anypb.Any, error) {
	size, err := measureUsage(u)
	if err != nil {
		return nil, err
	}
	return &anypb.Any{TypeUrl: UsageTypeURL, Value: appendUsage(make([]byte, 0, size.message), u, size)}, nil
}

// DecodeUsage reads payload into u, for the decider. It uses the memory that
// u's columns have, so that a decider which keeps u between calls allocates
// once a message. All keys share one backing string of that message: who
// keeps a key for longer must strings.Clone it.
//
// After an error, an ErrPayload, u is empty.
func (Columnar) DecodeUsage(payload *anypb.Any, u *Usage) error {
	value, err := payloadOf(payload, usageName)
	if err == nil {
		err = readUsage(value, u)
	}
	if err != nil {
		u.Algorithm = ""
		u.Keys, u.Allowed, u.Rejected = u.Keys[:0], u.Allowed[:0], u.Rejected[:0]
		u.Elapsed, u.Weight, u.Wants, u.Cost = u.Elapsed[:0], u.Weight[:0], nil, nil
	}
	// What an earlier, longer message left behind would keep its keys alive.
	clear(u.Keys[len(u.Keys):cap(u.Keys)])
	return err
}

// EncodeGrants returns g, which answers n keys, as a payload, for the
// decider. It does not keep g. The error, an ErrPayload, is that of g.Check(n).
func (Columnar) EncodeGrants(g *Grants, n int) (*anypb.Any, error) {
	size, err := measureGrants(g, n)
	if err != nil {
		return nil, err
	}
	return &anypb.Any{TypeUrl: GrantsTypeURL, Value: appendGrants(make([]byte, 0, size.message), g, size)}, nil
}

// DecodeGrants returns the grants in payload: grant i is for u.Keys[i]. It
// keeps neither. The error is an ErrPayload.
func (Columnar) DecodeGrants(payload *anypb.Any, u *Usage) (*Grants, error) {
	value, err := payloadOf(payload, grantsName)
	if err != nil {
		return nil, err
	}
	return readGrants(value, u.Len())
}

func payloadOf(payload *anypb.Any, name string) ([]byte, error) {
	if payload == nil {
		return nil, refuse("there is none; expected %s", name)
	}
	if payload.TypeUrl != "" && messageName(payload.TypeUrl) == name {
		return payload.Value, nil
	}
	return nil, refuse("its type is %.100q; expected %s", payload.TypeUrl, name)
}

// appendFloats appends a column of float32 as a packed field.
func appendFloats(b []byte, number protowire.Number, column []float64, round func(float64) float32) []byte {
	b = appendHeader(b, number, 4*len(column))
	for _, v := range column {
		b = protowire.AppendFixed32(b, math.Float32bits(round(v)))
	}
	return b
}

// appendHalves appends a column of two bytes each as a field.
func appendHalves(b []byte, number protowire.Number, column []float64, round func(float64) uint16) []byte {
	b = appendHeader(b, number, 2*len(column))
	for _, v := range column {
		h := round(v)
		b = append(b, byte(h), byte(h>>8))
	}
	return b
}

// appendCounts appends a column of counts as a packed field of length bytes.
func appendCounts(b []byte, number protowire.Number, column []int64, length int) []byte {
	b = appendHeader(b, number, length)
	for _, v := range column {
		b = protowire.AppendVarint(b, uint64(v))
	}
	return b
}
