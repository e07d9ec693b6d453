// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
)

// Type URLs of headgate.v1.Gossip and its answer.
const (
	GossipTypeURL = "type.googleapis.com/headgate.v1.Gossip"
	HeardTypeURL  = "type.googleapis.com/headgate.v1.Heard"
)

const (
	gossipName = "headgate.v1.Gossip"
	heardName  = "headgate.v1.Heard"
)

// Field numbers of headgate.v1.Gossip.
const (
	gossipFrom = iota + 1
	gossipVersion
	gossipAfter
	gossipKeys
	gossipKeyLengths
	gossipAges
	gossipUsed
	gossipLeft
)

// EncodeGossip returns g as a payload. It does not keep g. The error, an
// ErrPayload, is that of g.Check. The wire has Left as the nearest float32.
func EncodeGossip(g *Gossip) (*anypb.Any, error) {
	if err := g.Check(); err != nil {
		return nil, err
	}
	var keys, lengths, ages, used int
	for i := range g.Rows {
		row := &g.Rows[i]
		keys += len(row.Key)
		lengths += protowire.SizeVarint(uint64(len(row.Key)))
		ages += protowire.SizeVarint(g.Version - row.Born)
		used += protowire.SizeVarint(row.Tokens)
	}
	const heads = 9 + 2*11 + 5*6
	b := make([]byte, 0, heads+keys+lengths+ages+used+4*len(g.Rows))
	b = protowire.AppendFixed64(protowire.AppendTag(b, gossipFrom, protowire.Fixed64Type), g.From)
	b = appendVarint(b, gossipVersion, g.Version)
	b = appendVarint(b, gossipAfter, g.After)
	if len(g.Rows) > 0 {
		b = appendHeader(b, gossipKeys, keys)
		for i := range g.Rows {
			b = append(b, g.Rows[i].Key...)
		}
		b = g.appendVarints(b, gossipKeyLengths, lengths, func(row *Used) uint64 { return uint64(len(row.Key)) })
		b = g.appendVarints(b, gossipAges, ages, func(row *Used) uint64 { return g.Version - row.Born })
		b = g.appendVarints(b, gossipUsed, used, func(row *Used) uint64 { return row.Tokens })
		b = appendHeader(b, gossipLeft, 4*len(g.Rows))
		for i := range g.Rows {
			b = protowire.AppendFixed32(b, math.Float32bits(signed32(g.Rows[i].Left)))
		}
	}
	return &anypb.Any{TypeUrl: GossipTypeURL, Value: b}, nil
}

func (g *Gossip) appendVarints(b []byte, number protowire.Number, length int, of func(*Used) uint64) []byte {
	b = appendHeader(b, number, length)
	for i := range g.Rows {
		b = protowire.AppendVarint(b, of(&g.Rows[i]))
	}
	return b
}

// DecodeGossip reads payload into g, for who is told. It uses the memory that
// g has. All keys share one string of that message: who keeps a key for longer
// must strings.Clone it. After an error, an ErrPayload, g is empty.
func DecodeGossip(payload *anypb.Any, g *Gossip) error {
	value, err := payloadOf(payload, gossipName)
	*g = Gossip{Rows: g.Rows[:0]}
	if err == nil {
		err = g.read(value)
	}
	if err == nil {
		err = g.Check()
	}
	if err != nil {
		clear(g.Rows[:cap(g.Rows)])
		*g = Gossip{Rows: g.Rows[:0]}
	}
	return err
}

func (g *Gossip) read(message []byte) error {
	var keys []byte
	var lengths, ages, used, left packed
	for len(message) > 0 {
		f, rest, err := nextField(message)
		if err != nil {
			return err
		}
		message = rest
		switch {
		case f.number == gossipFrom && f.kind == protowire.Fixed64Type:
			g.From, _ = protowire.ConsumeFixed64(f.bytes)
		case f.number == gossipVersion && f.kind == protowire.VarintType:
			g.Version = f.value
		case f.number == gossipAfter && f.kind == protowire.VarintType:
			g.After = f.value
		case f.number == gossipKeys && f.kind == protowire.BytesType:
			keys = f.bytes
		case f.number == gossipKeyLengths && f.isVarints():
			lengths.add(f.bytes)
		case f.number == gossipAges && f.isVarints():
			ages.add(f.bytes)
		case f.number == gossipUsed && f.isVarints():
			used.add(f.bytes)
		case f.number == gossipLeft && f.isFloats():
			left.add(f.bytes)
		}
	}
	if err := g.readKeys(keys, &lengths); err != nil {
		return err
	}
	young := -1
	err := eachVarint("ages", &ages, len(g.Rows), func(i int, v uint64) {
		if g.Rows[i].Born = g.Version - v; v > g.Version {
			young = i
		}
	})
	switch {
	case err != nil:
		return err
	case young >= 0:
		return refuse("row %d: counted for longer than %d rounds, which is all that there were", young, g.Version)
	}
	if err := eachVarint("used", &used, len(g.Rows), func(i int, v uint64) { g.Rows[i].Tokens = v }); err != nil {
		return err
	}
	return eachWord("left", &left, len(g.Rows), func(i int, v uint32) { g.Rows[i].Left = float64(math.Float32frombits(v)) })
}

// readKeys makes the rows, and cuts their keys out of one string.
func (g *Gossip) readKeys(keys []byte, lengths *packed) error {
	n := lengths.varints()
	if n > MaxGossip {
		return refuse("%d rows in one message; send at most %d", n, MaxGossip)
	}
	all := string(keys)
	g.Rows = slices.Grow(g.Rows, n)
	for i := range n {
		length, ok := lengths.next()
		if !ok || length > uint64(len(all)) {
			return refuse("row %d: the key has %d bytes, but only %d are left; lengths and keys must agree", i, length, len(all))
		}
		g.Rows = append(g.Rows, Used{Key: all[:length], Born: g.Version})
		all = all[length:]
	}
	if len(all) != 0 || len(lengths.raw) != 0 {
		return refuse("%d bytes of keys and %d of lengths are left after %d keys; lengths and keys must agree", len(all), len(lengths.raw), n)
	}
	return nil
}

// EncodeHeard answers a Gossip: by is the listener's number, which is not 0.
func EncodeHeard(by uint64) *anypb.Any {
	return &anypb.Any{TypeUrl: HeardTypeURL, Value: protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), by)}
}

// DecodeHeard tells who heard. The error is an ErrPayload.
func DecodeHeard(payload *anypb.Any) (by uint64, err error) {
	message, err := payloadOf(payload, heardName)
	for err == nil && len(message) > 0 {
		var f field
		if f, message, err = nextField(message); err == nil && f.number == 1 && f.kind == protowire.Fixed64Type {
			by, _ = protowire.ConsumeFixed64(f.bytes)
		}
	}
	if err == nil && by == 0 {
		err = refuse("the listener's number is 0; choose another")
	}
	return by, err
}
