// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"math"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/headgate/headgate/rpc"
)

// Fields are the single fields of a message of type M, or the columns of one whose rows
// are of type M, by their numbers. So each is said once, for both directions.
type Fields[M any] []Field[M]

// Field is how one field of M stands on the wire. The functions below make Fields.
type Field[M any] struct {
	kind      Kind // Skip: there is none of this number
	name      string
	byDefault uint64 // is not written
	get       func(*M) uint64
	set       func(*M, uint64)

	// Of Bytes:
	write func(*Encoder, protowire.Number, *M)
	read  func(of *memory, raw []byte, m *M) error
}

// memory is what the strings of one message take: they are parts of one copy of it.
type memory struct {
	message []byte
	copied  string // empty before the first string
}

// cut is raw, a part of the message, as a string.
func (m *memory) cut(raw []byte) string {
	if len(m.copied) == 0 {
		m.copied = string(m.message)
	}
	start := cap(m.message) - cap(raw) // raw has the message's capacity from its start on
	return m.copied[start : start+len(raw)]
}

// Always is the default of a Number that has none: it is always written.
const Always = math.MaxUint64

// Number is a whole number, which get and set translate.
func Number[M any](name string, byDefault uint64, get func(*M) uint64, set func(*M, uint64)) Field[M] {
	return Field[M]{kind: Varint, name: name, byDefault: byDefault, get: get, set: set}
}

// Uint is a whole number.
func Uint[M any](name string, at func(*M) *uint64) Field[M] {
	return Number(name, 0, func(m *M) uint64 { return *at(m) }, func(m *M, v uint64) { *at(m) = v })
}

// Flag is a bool.
func Flag[M any](name string, at func(*M) *bool) Field[M] {
	return Number(name, 0, func(m *M) uint64 { return Bit(*at(m)) }, func(m *M, v uint64) { *at(m) = v != 0 })
}

// Millis is a time of at most most, which round makes milliseconds.
func Millis[M any](name string, most time.Duration, round func(time.Duration) uint64, at func(*M) *time.Duration) Field[M] {
	return Number(name, 0, func(m *M) uint64 { return round(*at(m)) }, func(m *M, v uint64) { *at(m) = Period(v, time.Millisecond, most) })
}

// Fixed is a whole number of eight bytes.
func Fixed[M any](name string, at func(*M) *uint64) Field[M] {
	f := Uint(name, at)
	f.kind = Fixed64
	return f
}

// Word is a whole number of four bytes.
func Word[M any](name string, at func(*M) *uint32) Field[M] {
	return Field[M]{kind: Fixed32, name: name, get: func(m *M) uint64 { return uint64(*at(m)) }, set: func(m *M, v uint64) { *at(m) = uint32(v) }}
}

// Single is a number, as the nearest float32 that is finite.
func Single[M any](name string, at func(*M) *float64) Field[M] {
	return Field[M]{kind: Fixed32, name: name, get: func(m *M) uint64 { return uint64(bits32(*at(m))) }, set: func(m *M, v uint64) { *at(m) = Float(uint32(v)) }}
}

// Double is a number.
func Double[M any](name string, byDefault float64, at func(*M) *float64) Field[M] {
	return Field[M]{
		kind: Fixed64, name: name, byDefault: math.Float64bits(byDefault),
		get: func(m *M) uint64 { return math.Float64bits(*at(m)) },
		set: func(m *M, v uint64) { *at(m) = math.Float64frombits(v) },
	}
}

// Bits is the bits of a float64, which get and set translate.
func Bits[M any](name string, get func(*M) uint64, set func(*M, uint64)) Field[M] {
	return Field[M]{kind: Fixed64, name: name, get: get, set: set}
}

// Text is a string. All of one message share its memory: a reader that keeps one for
// longer must strings.Clone it.
func Text[M any](name string, at func(*M) *string) Field[M] {
	return Field[M]{
		kind: Bytes, name: name,
		write: func(e *Encoder, number protowire.Number, m *M) { e.Text(number, *at(m)) },
		read:  func(of *memory, raw []byte, m *M) error { *at(m) = of.cut(raw); return nil },
	}
}

// String is a Text in UTF-8. Also one that a later one of the same field replaces must be that, as in the generated code.
func String[M any](name string, at func(*M) *string) Field[M] {
	f := Text(name, at)
	read := f.read
	f.read = func(of *memory, raw []byte, m *M) error {
		if !utf8.Valid(raw) {
			return rpc.Refuse("%s: text that is not valid UTF-8", name)
		}
		return read(of, raw, m)
	}
	return f
}

// Rows is messages within the message, at most most, which have these fields. Check, which
// may be nil, returns what is against the contract in a row that was read: before there is
// memory for more rows.
func Rows[M, R any](name string, most int, fields Fields[R], check func(r *R, row int) error, at func(*M) *[]R) Field[M] {
	return Field[M]{
		kind: Bytes, name: name,
		write: func(e *Encoder, number protowire.Number, m *M) {
			rows := *at(m)
			for i := range rows {
				start := e.begin(number)
				fields.Write(e, &rows[i])
				e.end(start, e.b)
			}
		},
		read: func(of *memory, raw []byte, m *M) error {
			rows := at(m)
			if err := AtMost(name, len(*rows)+1, most); err != nil {
				return err
			}
			row := len(*rows)
			*rows = append(*rows, *new(R))
			if err := fields.read(of, raw, &(*rows)[row]); err != nil || check == nil {
				return err
			}
			return check(&(*rows)[row], row)
		},
	}
}

// types are how a single value of each Kind stands on the wire.
var types = [...]protowire.Type{Varint: protowire.VarintType, Fixed32: protowire.Fixed32Type, Fixed64: protowire.Fixed64Type, Bytes: protowire.BytesType}

// Write writes m.
func (fs Fields[M]) Write(e *Encoder, m *M) {
	for i := range fs {
		f, number := &fs[i], protowire.Number(i)
		switch {
		case f.write != nil:
			f.write(e, number, m)
		case f.kind != Skip:
			v := f.get(m)
			if v == f.byDefault {
				continue
			}
			switch e.b = protowire.AppendTag(e.b, number, types[f.kind]); f.kind {
			case Varint:
				e.b = appendVarint(e.b, v)
			case Fixed32:
				e.b = binary.LittleEndian.AppendUint32(e.b, uint32(v))
			default:
				e.b = binary.LittleEndian.AppendUint64(e.b, v)
			}
		}
	}
}

// Read reads what message says about the Fields into m. It skips all else.
func (fs Fields[M]) Read(message []byte, m *M) error {
	return fs.read(&memory{message: message}, message, m)
}

// read is Read for part, which is a message that takes memory of of, or a part of it.
func (fs Fields[M]) read(of *memory, part []byte, m *M) error {
	for len(part) > 0 {
		number, kind, value, raw, rest, err := next(part)
		if err != nil {
			return err
		}
		part = rest
		if uint(number) >= uint(len(fs)) || fs[number].kind == Skip || types[fs[number].kind] != kind {
			continue
		}
		f := &fs[number]
		switch f.kind {
		case Bytes:
			if err := f.read(of, raw, m); err != nil {
				return err
			}
			continue
		case Fixed32:
			v, _ := protowire.ConsumeFixed32(raw)
			value = uint64(v)
		case Fixed64:
			value, _ = protowire.ConsumeFixed64(raw)
		}
		f.set(m, value)
	}
	return nil
}

// WriteColumns writes a column for each Field that is not the same by default in all rows.
func (fs Fields[M]) WriteColumns(e *Encoder, rows []M) {
	for i := range fs {
		f := &fs[i]
		if f.kind == Skip {
			continue
		}
		number := protowire.Number(i)
		start, b, differ := e.begin(number), e.b, uint64(0)
		for row := range rows {
			v := f.get(&rows[row])
			differ |= v ^ f.byDefault
			switch f.kind {
			case Varint:
				b = appendVarint(b, v)
			case Fixed32:
				b = binary.LittleEndian.AppendUint32(b, uint32(v))
			default:
				b = binary.LittleEndian.AppendUint64(b, v)
			}
		}
		e.endIf(number, start, b, differ != 0)
	}
}

// Kinds are those of a message whose single fields and columns are these, for Parse; and
// of other columns.
func Kinds[M, R any](single Fields[M], columns Fields[R], others map[int]Kind) []Kind {
	kinds := make([]Kind, MaxFields)
	for i := range single {
		kinds[i] = single[i].kind
	}
	for i := range columns {
		switch columns[i].kind {
		case Varint:
			kinds[i] = Varints
		case Fixed32:
			kinds[i] = Words
		case Fixed64:
			kinds[i] = Doubles
		}
	}
	for i, kind := range others {
		kinds[i] = kind
	}
	return kinds
}

// Take takes the numbers of runs, by the numbers of their fields, into m.
func (fs Fields[M]) Take(runs []Run, m *M) {
	for i := range fs {
		if fs[i].kind != Skip {
			fs[i].set(m, runs[i].Value)
		}
	}
}

// ReadColumns reads runs, by the numbers of their columns, into rows, which have what
// they are by default.
func (fs Fields[M]) ReadColumns(runs []Run, rows []M) error {
	for i := range fs {
		f, raw := &fs[i], runs[i].Raw
		if len(raw) == 0 {
			continue
		}
		var err error
		switch f.kind {
		case Varint:
			err = runs[i].EachVarint(f.name, len(rows), func(row int, v uint64) { f.set(&rows[row], v) })
		case Fixed32:
			if err = runs[i].fits(f.name, 4, len(rows)); err == nil {
				for row := range rows {
					f.set(&rows[row], uint64(binary.LittleEndian.Uint32(raw[4*row:])))
				}
			}
		case Fixed64:
			if err = runs[i].fits(f.name, 8, len(rows)); err == nil {
				for row := range rows {
					f.set(&rows[row], binary.LittleEndian.Uint64(raw[8*row:]))
				}
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
