// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// packed is one repeated numeric column as it stands on the wire: its values
// one after another. Senders may cut a column into several runs, packed or
// not; their concatenation is the column.
type packed struct {
	raw   []byte
	owned bool // raw is our copy, not a part of the message
}

func (c *packed) add(run []byte) {
	switch {
	case c.raw == nil:
		c.raw = run
	case c.owned:
		c.raw = append(c.raw, run...)
	default:
		c.raw, c.owned = slices.Concat(c.raw, run), true
	}
}

// varints is the number of values in the column; those cut short at its end
// are found when they are read.
func (c *packed) varints() int {
	n := 0
	for _, b := range c.raw {
		if b < 0x80 {
			n++
		}
	}
	return n
}

// next takes the next varint off the column. The caller knows that there is one.
func (c *packed) next() (uint64, bool) {
	if c.raw[0] < 0x80 { // nearly all of them
		v := uint64(c.raw[0])
		c.raw = c.raw[1:]
		return v, true
	}
	v, n := protowire.ConsumeVarint(c.raw)
	if n < 0 {
		return 0, false
	}
	c.raw = c.raw[n:]
	return v, true
}

// field is one field of a message, taken off its front.
type field struct {
	number protowire.Number
	kind   protowire.Type
	value  uint64 // of a varint
	bytes  []byte // of a length-delimited field: what it holds; otherwise the value's own bytes
}

// nextField takes the first field off message and returns the rest.
func nextField(message []byte) (f field, rest []byte, err error) {
	number, kind, n := protowire.ConsumeTag(message)
	if n < 0 {
		return f, nil, refuse("not a protobuf message: %w", protowire.ParseError(n))
	}
	if number > protowire.MaxValidNumber {
		return f, nil, refuse("not a protobuf message: field number %d", number)
	}
	message = message[n:]
	f.number, f.kind = number, kind
	switch kind {
	case protowire.VarintType:
		f.value, n = protowire.ConsumeVarint(message)
		f.bytes = message[:max(n, 0)]
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(message)
	default:
		n = protowire.ConsumeFieldValue(number, kind, message)
		f.bytes = message[:max(n, 0)]
	}
	if n < 0 {
		return f, nil, refuse("not a protobuf message: field %d: %w", number, protowire.ParseError(n))
	}
	return f, message[n:], nil
}

// isVarints and isFloats say whether f is a run of the named column kind.
// A field of another kind under a known number is ignored, as unknown ones are.
func (f *field) isVarints() bool {
	return f.kind == protowire.BytesType || f.kind == protowire.VarintType
}

func (f *field) isFloats() bool {
	return f.kind == protowire.BytesType || f.kind == protowire.Fixed32Type
}

func (f *field) isDoubles() bool {
	return f.kind == protowire.BytesType || f.kind == protowire.Fixed64Type
}

// appendHeader starts a length-delimited field.
func appendHeader(b []byte, number protowire.Number, length int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.BytesType), uint64(length))
}

// headerSize is what appendHeader appends, for numbers up to 15, and nothing
// for a field that is left out.
func headerSize(length int) int {
	if length == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(uint64(length))
}

// floats reads a column of n float32 into out[:n]; a column left out is zeros.
func floats(name string, c *packed, out []float64, n int) ([]float64, error) {
	if len(c.raw) == 0 {
		return zeros(out, n), nil
	}
	if len(c.raw) != 4*n {
		return nil, refuse("%d bytes of %s for %d keys; send 4 for each, or leave the column out", len(c.raw), name, n)
	}
	out = slices.Grow(out[:0], n)[:n]
	for i := range out {
		b := c.raw[4*i : 4*i+4 : 4*i+4]
		bits := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
		out[i] = float64(math.Float32frombits(bits))
	}
	return out, nil
}

// halves reads a column of n upper halves of float32 into out[:n]; a column
// left out is zeros.
func halves(name string, raw []byte, out []float64, n int) ([]float64, error) {
	if len(raw) == 0 {
		return zeros(out, n), nil
	}
	if len(raw) != 2*n {
		return nil, refuse("%d bytes of %s for %d keys; send 2 for each, or leave the column out", len(raw), name, n)
	}
	out = slices.Grow(out[:0], n)[:n]
	for i := range out {
		b := raw[2*i : 2*i+2 : 2*i+2]
		out[i] = float64(math.Float32frombits(uint32(b[0])<<16 | uint32(b[1])<<24))
	}
	return out, nil
}

// amounts reads an optional column of n amounts into out[:n]; one left out is nil.
func amounts(name string, c *packed, out []float64, n int) ([]float64, error) {
	if len(c.raw) == 0 {
		return nil, nil
	}
	out, err := floats(name, c, out, n)
	if err == nil {
		err = checkAmounts(name, out)
	}
	return out, err
}

// zeros is out[:n], made larger if need be, and cleared.
func zeros[T any](out []T, n int) []T {
	out = slices.Grow(out[:0], n)[:n]
	clear(out)
	return out
}

// weight32 rounds down, so that a weight never grows on the wire.
func weight32(w float64) float32 {
	f := float32(w)
	if float64(f) > w {
		f = math.Nextafter32(f, 0)
	}
	return f
}

// weight16 is the upper half of weight32, and so rounds down too.
func weight16(w float64) uint16 { return uint16(math.Float32bits(weight32(w)) >> 16) }

// size16 is the upper half of the nearest float32 that has no lower half and is
// finite.
func size16(v float64) uint16 {
	const largest = 0x7f7f
	bits := uint64(math.Float32bits(size32(v)))
	return uint16(min((bits+0x7fff+bits>>16&1)>>16, largest))
}

// size32 is the nearest float32 that is finite.
func size32(v float64) float32 {
	return float32(min(v, math.MaxFloat32))
}

// elapsedMillis is the nearest whole number of milliseconds, at least one.
func elapsedMillis(d time.Duration) uint64 {
	return uint64(max(d.Round(time.Millisecond).Milliseconds(), 1))
}

// leaseMillis rounds down, so that no grant is used for longer than granted,
// but never to 0, which means that there is no grant.
func leaseMillis(d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	return uint64(max(d.Milliseconds(), 1))
}

// period is a duration on the wire, bounded so that it cannot overflow; one
// above the bound is left for the check of the row.
func period(millis uint64, bound time.Duration) time.Duration {
	return time.Duration(min(millis, uint64(bound/time.Millisecond)+1)) * time.Millisecond
}
