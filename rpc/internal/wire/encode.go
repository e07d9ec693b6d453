// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"math"
	"slices"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
)

// Encoder writes one message. Its methods leave out fields of their zero value,
// and columns in which all values are zero. Field numbers are at most 15.
type Encoder struct {
	b []byte
}

var encoders = sync.Pool{New: func() any { return new(Encoder) }}

// NewEncoder returns an Encoder of an empty message.
func NewEncoder() *Encoder {
	e := encoders.Get().(*Encoder) //nolint:errcheck // nothing else is put there
	e.b = e.b[:0]
	return e
}

// maxKept is the largest buffer that is used again.
const maxKept = 4 << 20

// Payload ends the message, and returns it as a payload of exactly its size.
func (e *Encoder) Payload(typeURL string) *anypb.Any {
	payload := &anypb.Any{TypeUrl: typeURL, Value: bytes.Clone(e.b)}
	if cap(e.b) <= maxKept {
		encoders.Put(e)
	}
	return payload
}

// Varint writes one number.
func (e *Encoder) Varint(number protowire.Number, v uint64) {
	if v != 0 {
		e.b = protowire.AppendVarint(protowire.AppendTag(e.b, number, protowire.VarintType), v)
	}
}

// Bool writes one bool.
func (e *Encoder) Bool(number protowire.Number, v bool) { e.Varint(number, protowire.EncodeBool(v)) }

// Fixed32 writes one number of four bytes.
func (e *Encoder) Fixed32(number protowire.Number, v uint32) {
	if v != 0 {
		e.b = protowire.AppendFixed32(protowire.AppendTag(e.b, number, protowire.Fixed32Type), v)
	}
}

// Fixed64 writes one number of eight bytes.
func (e *Encoder) Fixed64(number protowire.Number, v uint64) {
	if v != 0 {
		e.b = protowire.AppendFixed64(protowire.AppendTag(e.b, number, protowire.Fixed64Type), v)
	}
}

// Double writes one float64.
func (e *Encoder) Double(number protowire.Number, v float64) {
	if v != 0 {
		e.Fixed64(number, math.Float64bits(v))
	}
}

// Text writes a string.
func (e *Encoder) Text(number protowire.Number, v string) {
	if v != "" {
		e.header(number, len(v))
		e.b = append(e.b, v...)
	}
}

// Row writes what write does as a message within the message.
func (e *Encoder) Row(number protowire.Number, write func()) {
	start := e.begin(number)
	write()
	e.end(start)
}

// Keys writes n keys one after another, and their lengths. A key without bytes
// stands for the one before it.
func (e *Encoder) Keys(keys, lengths protowire.Number, n int, key func(i int) string) {
	if n == 0 {
		return
	}
	start := e.begin(keys)
	for i := range n {
		e.b = append(e.b, key(i)...)
	}
	e.end(start)
	start = e.begin(lengths)
	for i := range n {
		e.b = protowire.AppendVarint(e.b, uint64(len(key(i))))
	}
	e.end(start)
}

// Counts writes a column of counts.
func (e *Encoder) Counts(number protowire.Number, column []int64) {
	start, any := e.begin(number), int64(0)
	for _, v := range column {
		any |= v
		e.b = protowire.AppendVarint(e.b, uint64(v))
	}
	e.endIf(start, any != 0)
}

// Varints writes a column of n numbers, if one of them is not byDefault.
func (e *Encoder) Varints(number protowire.Number, n int, byDefault uint64, value func(i int) uint64) {
	start, differ := e.begin(number), uint64(0)
	for i := range n {
		v := value(i)
		differ |= v ^ byDefault
		e.b = protowire.AppendVarint(e.b, v)
	}
	e.endIf(start, differ != 0)
}

// Column writes a column of n numbers, whatever they are.
func (e *Encoder) Column(number protowire.Number, n int, value func(i int) uint64) {
	start := e.begin(number)
	for i := range n {
		e.b = protowire.AppendVarint(e.b, value(i))
	}
	e.endIf(start, true)
}

// Words writes a column of n numbers of four bytes, if one of them is not 0.
func (e *Encoder) Words(number protowire.Number, n int, value func(i int) uint32) {
	start, any := e.begin(number), uint32(0)
	for i := range n {
		v := value(i)
		any |= v
		e.b = protowire.AppendFixed32(e.b, v)
	}
	e.endIf(start, any != 0)
}

// Doubles writes a column of n float64, if one of them is not byDefault.
func (e *Encoder) Doubles(number protowire.Number, n int, byDefault float64, value func(i int) float64) {
	start, differ := e.begin(number), false
	for i := range n {
		v := value(i)
		differ = differ || v != byDefault
		e.b = protowire.AppendFixed64(e.b, math.Float64bits(v))
	}
	e.endIf(start, differ)
}

// Floats writes a column as float32. Optional columns are left out if they are
// empty, and only then.
func (e *Encoder) Floats(number protowire.Number, column []float64, round func(float64) float32, optional bool) {
	start, any := e.begin(number), uint32(0)
	for _, v := range column {
		bits := math.Float32bits(round(v))
		any |= bits
		e.b = protowire.AppendFixed32(e.b, bits)
	}
	e.endIf(start, any != 0 || optional)
}

// Halves writes a column as the upper halves of float32, low byte first; see
// Floats.
func (e *Encoder) Halves(number protowire.Number, column []float64, round func(float64) uint16, optional bool) {
	start, any := e.begin(number), uint16(0)
	for _, v := range column {
		h := round(v)
		any |= h
		e.b = append(e.b, byte(h), byte(h>>8))
	}
	e.endIf(start, any != 0 || optional)
}

// begin starts a field whose length is not known yet. It leaves the one byte that
// short fields need.
func (e *Encoder) begin(number protowire.Number) (start int) {
	e.b = append(protowire.AppendTag(e.b, number, protowire.BytesType), 0)
	return len(e.b)
}

// end writes the length of the field that began at start.
func (e *Encoder) end(start int) {
	length := uint64(len(e.b) - start)
	if n := protowire.SizeVarint(length); n > 1 {
		e.b = slices.Grow(e.b, n-1)
		e.b = e.b[:len(e.b)+n-1]
		copy(e.b[start+n-1:], e.b[start:])
	}
	protowire.AppendVarint(e.b[:start-1], length)
}

// endIf ends a column, or leaves it out.
func (e *Encoder) endIf(start int, keep bool) {
	if keep && len(e.b) > start {
		e.end(start)
		return
	}
	e.b = e.b[:start-2] // without its tag, which has one byte
}

func (e *Encoder) header(number protowire.Number, length int) {
	e.b = protowire.AppendVarint(protowire.AppendTag(e.b, number, protowire.BytesType), uint64(length))
}
