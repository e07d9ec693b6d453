// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"math"
	"slices"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
)

// Encoder writes one message. Its methods leave out fields of their zero value,
// and columns in which all values are zero.
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
	payload := &anypb.Any{TypeUrl: typeURL, Value: make([]byte, len(e.b))}
	copy(payload.Value, e.b)
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

// Text writes a string.
func (e *Encoder) Text(number protowire.Number, v string) {
	if v != "" {
		e.b = append(header(e.b, number, len(v)), v...)
	}
}

// Keys writes n keys one after another, and their lengths. A key without bytes
// stands for the one before it.
func (e *Encoder) Keys(keys, lengths protowire.Number, n int, key func(i int) string) {
	if n == 0 {
		return
	}
	start, b := e.begin(keys), e.b
	for i := range n {
		b = append(b, key(i)...)
	}
	e.end(start, b)
	e.Column(lengths, n, func(i int) uint64 { return uint64(len(key(i))) })
}

// Strings is Keys for a column.
func (e *Encoder) Strings(keys, lengths protowire.Number, column []string) {
	if len(column) == 0 {
		return
	}
	start, b := e.begin(keys), e.b
	for _, key := range column {
		b = append(b, key...)
	}
	e.end(start, b)
	start, b = e.begin(lengths), e.b
	for _, key := range column {
		b = appendVarint(b, uint64(len(key)))
	}
	e.end(start, b)
}

// Counts writes a column of counts.
func (e *Encoder) Counts(number protowire.Number, column []int64) {
	any := int64(0)
	for _, v := range column {
		any |= v
	}
	if any == 0 {
		return
	}
	start, b := e.begin(number), e.b
	for _, v := range column {
		b = appendVarint(b, uint64(v))
	}
	e.end(start, b)
}

// appendVarint has a short way for small numbers, which most are.
func appendVarint(b []byte, v uint64) []byte {
	if v < 0x80 {
		return append(b, byte(v))
	}
	return protowire.AppendVarint(b, v)
}

// Column writes a column of n numbers, whatever they are.
func (e *Encoder) Column(number protowire.Number, n int, value func(i int) uint64) {
	start, b := e.begin(number), e.b
	for i := range n {
		b = appendVarint(b, value(i))
	}
	e.endIf(number, start, b, n > 0)
}

// Varints writes a column of n numbers, if one of them is not byDefault.
func (e *Encoder) Varints(number protowire.Number, n int, byDefault uint64, value func(i int) uint64) {
	start, b, differ := e.begin(number), e.b, uint64(0)
	for i := range n {
		v := value(i)
		differ |= v ^ byDefault
		b = appendVarint(b, v)
	}
	e.endIf(number, start, b, differ != 0)
}

// Floats writes a column as float32. Optional columns are left out if they are
// empty, and only then.
func (e *Encoder) Floats(number protowire.Number, column []float64, round func(float64) float32, optional bool) {
	before, any := len(e.b), uint32(0)
	for i, room := 0, e.fixed(number, 4*len(column)); i < len(column); i++ {
		bits := math.Float32bits(round(column[i]))
		any |= bits
		binary.LittleEndian.PutUint32(room[4*i:], bits)
	}
	if any == 0 && (!optional || len(column) == 0) {
		e.b = e.b[:before]
	}
}

// Halves writes a column as the upper halves of float32, low byte first; see
// Floats.
func (e *Encoder) Halves(number protowire.Number, column []float64, round func(float64) uint16, optional bool) {
	before, any := len(e.b), uint16(0)
	for i, room := 0, e.fixed(number, 2*len(column)); i < len(column); i++ {
		half := round(column[i])
		any |= half
		binary.LittleEndian.PutUint16(room[2*i:], half)
	}
	if any == 0 && (!optional || len(column) == 0) {
		e.b = e.b[:before]
	}
}

// begin starts a field whose length is not known yet. It leaves the one byte that
// short fields need.
func (e *Encoder) begin(number protowire.Number) (start int) {
	e.b = append(protowire.AppendTag(e.b, number, protowire.BytesType), 0)
	return len(e.b)
}

// end writes the length of the field that began at start, and ends with b.
func (e *Encoder) end(start int, b []byte) {
	length := uint64(len(b) - start)
	if n := protowire.SizeVarint(length); n > 1 {
		b = slices.Grow(b, n-1)[:len(b)+n-1]
		copy(b[start+n-1:], b[start:])
	}
	protowire.AppendVarint(b[:start-1], length)
	e.b = b
}

// endIf ends a column, or leaves it out.
func (e *Encoder) endIf(number protowire.Number, start int, b []byte, keep bool) {
	if keep {
		e.end(start, b)
		return
	}
	e.b = b[:start-1-protowire.SizeTag(number)]
}

// fixed begins a field of length bytes, and returns the room for them.
func (e *Encoder) fixed(number protowire.Number, length int) []byte {
	e.b = header(e.b, number, length)
	start := len(e.b)
	e.b = slices.Grow(e.b, length)[:start+length]
	return e.b[start:]
}

// header appends what stands before a field of length bytes.
func header(b []byte, number protowire.Number, length int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.BytesType), uint64(length))
}
