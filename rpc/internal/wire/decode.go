// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
)

// Kind is how a field stands on the wire.
type Kind uint8

const (
	// Skip is a field that is not known.
	Skip Kind = iota
	// Varint is one number.
	Varint
	// Fixed32 is one number of four bytes.
	Fixed32
	// Fixed64 is one number of eight bytes.
	Fixed64
	// Bytes is a string, or a message.
	Bytes
	// Varints is a column of numbers. A sender may cut a column into several runs,
	// packed or not.
	Varints
	// Words is a column of numbers of four bytes.
	Words
	// Doubles is a column of float64.
	Doubles
)

// MaxFields is more than the number of any field of a message that is known.
const MaxFields = 18

// Run is all that a message says under one number: of a single value, the last
// one; of a column, all runs one after another.
type Run struct {
	Value uint64 // of a single number
	Raw   []byte // of all others

	owned bool // Raw is a copy, and not a part of the message
}

// Body is the message in payload, which has to be of the type that typeURL names.
func Body(payload *anypb.Any, typeURL string) ([]byte, error) {
	switch {
	case payload == nil:
		return nil, rpc.Refuse("there is none; expected %s", rpc.MessageName(typeURL))
	case rpc.MessageName(payload.TypeUrl) != rpc.MessageName(typeURL):
		return nil, rpc.Refuse("its type is %.100q; expected %s", payload.TypeUrl, rpc.MessageName(typeURL))
	}
	return payload.Value, nil
}

// Decode has read take in the message of payload, which is of the type that typeURL names, and check say whether
// what it says is within the contract. It calls reset before, and after an error.
func Decode(payload *anypb.Any, typeURL string, reset func(), read func(message []byte) error, check func() error) error {
	reset()
	message, err := Body(payload, typeURL)
	if err == nil {
		err = read(message)
	}
	if err == nil {
		err = check()
	}
	if err != nil {
		reset()
	}
	return err
}

// Parse sorts what message says into fields, by number. The field with number i
// is of kind kinds[i]; fields of another kind or number are skipped, so that a
// message of a later release can be read.
func Parse(message []byte, kinds []Kind, fields []Run) error {
	for len(message) > 0 {
		number, kind, value, raw, rest, err := next(message)
		if err != nil {
			return err
		}
		message = rest
		if uint(number) >= uint(len(kinds)) {
			continue
		}
		f := &fields[number]
		switch want := kinds[number]; {
		case want == Varint && kind == protowire.VarintType:
			f.Value = value
		case want == Fixed32 && kind == protowire.Fixed32Type:
			f.Value = uint64(binary.LittleEndian.Uint32(raw))
		case want == Fixed64 && kind == protowire.Fixed64Type:
			f.Value = binary.LittleEndian.Uint64(raw)
		case want == Bytes && kind == protowire.BytesType:
			f.Raw = raw
		case want == Varints && (kind == protowire.BytesType || kind == protowire.VarintType),
			want == Words && (kind == protowire.BytesType || kind == protowire.Fixed32Type),
			want == Doubles && (kind == protowire.BytesType || kind == protowire.Fixed64Type):
			f.add(raw)
		}
	}
	return nil
}

// Each calls do for each string and message that stands under number within message.
func Each(message []byte, number protowire.Number, do func(raw []byte) error) error {
	for len(message) > 0 {
		found, kind, _, raw, rest, err := next(message)
		if err == nil && found == number && kind == protowire.BytesType {
			err = do(raw)
		}
		if err != nil {
			return err
		}
		message = rest
	}
	return nil
}

// next takes the first field off message. raw is what a length-delimited field
// holds, and the value's own bytes of any other.
func next(message []byte) (number protowire.Number, kind protowire.Type, value uint64, raw, rest []byte, err error) {
	number, kind, n := protowire.ConsumeTag(message)
	if n < 0 {
		return 0, 0, 0, nil, nil, rpc.Refuse("not a protobuf message: %w", protowire.ParseError(n))
	}
	if number > protowire.MaxValidNumber {
		return 0, 0, 0, nil, nil, rpc.Refuse("not a protobuf message: field number %d", number)
	}
	message = message[n:]
	switch kind {
	case protowire.VarintType:
		value, n = protowire.ConsumeVarint(message)
		raw = message[:max(n, 0)]
	case protowire.BytesType:
		raw, n = protowire.ConsumeBytes(message)
	default:
		n = protowire.ConsumeFieldValue(number, kind, message)
		raw = message[:max(n, 0)]
	}
	if n < 0 {
		return 0, 0, 0, nil, nil, rpc.Refuse("not a protobuf message: field %d: %w", number, protowire.ParseError(n))
	}
	return number, kind, value, raw, message[n:], nil
}

func (f *Run) add(run []byte) {
	switch {
	case f.Raw == nil:
		f.Raw = run
	case f.owned:
		f.Raw = append(f.Raw, run...)
	default:
		f.Raw, f.owned = slices.Concat(f.Raw, run), true
	}
}

// Len is the number of values in a column of varints. Those that are cut short at
// its end are found when they are read.
func (f *Run) Len() int {
	n := 0
	for _, b := range f.Raw {
		if b < 0x80 {
			n++
		}
	}
	return n
}

// next takes the next varint off the column. The caller knows that there is one.
func (f *Run) next() (v uint64, ok bool) {
	if f.Raw[0] < 0x80 { // nearly all of them
		v, f.Raw = uint64(f.Raw[0]), f.Raw[1:]
		return v, true
	}
	v, n := protowire.ConsumeVarint(f.Raw)
	if n < 0 {
		return 0, false
	}
	f.Raw = f.Raw[n:]
	return v, true
}

// EachVarint calls do for each of n values of a column, or never if the column is
// left out.
func (f *Run) EachVarint(name string, n int, do func(i int, v uint64)) error {
	if len(f.Raw) == 0 {
		return nil
	}
	if values := f.Len(); values != n {
		return rpc.Refuse("%d values of %s for %d rows; send one for each, or leave the column out", values, name, n)
	}
	for i := range n {
		v, ok := f.next()
		if !ok {
			return rpc.Refuse("row %d: %s is not a varint", i, name)
		}
		do(i, v)
	}
	if len(f.Raw) != 0 {
		return rpc.Refuse("%s ends in a varint that is cut short", name)
	}
	return nil
}

func (f *Run) fits(name string, size, n int) error {
	if len(f.Raw) != size*n {
		return rpc.Refuse("%d bytes of %s for %d rows; send %d for each, or leave the column out", len(f.Raw), name, n, size)
	}
	return nil
}

// Keys cuts n keys out of one string, so that all of them cost one allocation, and
// calls do for each. If keys may repeat, a length of 0 stands for the key before.
func Keys(keys, lengths *Run, n int, repeat bool, do func(key string)) error {
	all, key := string(keys.Raw), ""
	for i := range n {
		length, ok := lengths.next()
		switch {
		case !ok:
			return rpc.Refuse("row %d: the key's length is not a varint", i)
		case length > uint64(len(all)):
			return rpc.Refuse("row %d: the key has %d bytes, but only %d are left; lengths and keys must agree", i, length, len(all))
		}
		if length > 0 || !repeat {
			key, all = all[:length], all[length:]
		}
		do(key)
	}
	if len(all) != 0 || len(lengths.Raw) != 0 {
		return rpc.Refuse("%d bytes of keys and %d of lengths are left after %d keys; lengths and keys must agree", len(all), len(lengths.Raw), n)
	}
	return nil
}

// Counts reads a column of n counts into out[:n]. One that is left out is zeros.
// Those above MaxInt64 become negative, which Counts refuses as well.
func (f *Run) Counts(name string, out []int64, n int) ([]int64, error) {
	out = Zeros(out, n)
	if len(f.Raw) == n { // each has one byte, as most have
		short := byte(0)
		for i, b := range f.Raw {
			out[i] = int64(b)
			short |= b
		}
		if short < 0x80 {
			return out, nil
		}
	}
	return out, f.EachVarint(name, n, func(i int, v uint64) { out[i] = int64(v) })
}

// Floats reads a column of n float32 into out[:n]. One that is left out is zeros.
func (f *Run) Floats(name string, out []float64, n int) ([]float64, error) {
	out = Zeros(out, n)
	if len(f.Raw) == 0 {
		return out, nil
	}
	if err := f.fits(name, 4, n); err != nil {
		return out, err
	}
	for i := range out {
		out[i] = Float(binary.LittleEndian.Uint32(f.Raw[4*i:]))
	}
	return out, nil
}

// Halves reads a column of n upper halves of float32 into out[:n]. One that is
// left out is zeros.
func (f *Run) Halves(name string, out []float64, n int) ([]float64, error) {
	out = Zeros(out, n)
	if len(f.Raw) == 0 {
		return out, nil
	}
	if err := f.fits(name, 2, n); err != nil {
		return out, err
	}
	for i := range out {
		out[i] = Float(uint32(binary.LittleEndian.Uint16(f.Raw[2*i:])) << 16)
	}
	return out, nil
}

// Optional is read of f, but a column that is left out is nil.
func Optional[T any](f *Run, read func(f *Run, name string, out []T, n int) ([]T, error), name string, out []T, n int) ([]T, error) {
	if len(f.Raw) == 0 {
		return nil, nil
	}
	return read(f, name, out, n)
}

// Millis reads a column of n durations of at most most into out[:n]. If it is left
// out, all are of so many milliseconds.
func (f *Run) Millis(name string, all uint64, out []time.Duration, n int, most time.Duration) ([]time.Duration, error) {
	out = Zeros(out, n)
	if len(f.Raw) == 0 {
		one := Period(all, time.Millisecond, most)
		for i := range out {
			out[i] = one
		}
	}
	return out, f.EachVarint(name, n, func(i int, v uint64) { out[i] = Period(v, time.Millisecond, most) })
}

// Zeros is out[:n], made larger if need be, and cleared.
func Zeros[T any](out []T, n int) []T {
	out = slices.Grow(out[:0], n)[:n]
	clear(out)
	return out
}
