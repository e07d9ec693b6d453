// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
)

// TakesTypeURL is the type URL of takes: headgate.v1.Takes.
const TakesTypeURL = "type.googleapis.com/headgate.v1.Takes"

const takesName = "headgate.v1.Takes"

// Field numbers of headgate.v1.Takes.
const (
	takesCaller = iota + 1
	takesBatch
	takesSettled
	takesWithdrawn
	takesKeys
	takesKeyLengths
	takesTokens
	takesWaits
	takesTold
	takesToldMillis
	takesToldBy
	takesAuto
)

// What a wait is on the wire that is no wait, and what is added to one that is.
const (
	waitSpentBeyond = iota
	waitSpentApart
	waitNot
)

// takesSize is how many bytes each field takes; 0 for one that is left out.
type takesSize struct {
	message, withdrawn, keys, lengths, tokens, waits, told, millis, by, auto int
}

// EncodeTakes returns t as a payload. It does not keep t. The error, an
// ErrPayload, is that of t.Check. The wire has Longest to the microsecond,
// rounded down, Told as the nearest float32, and Ago to the millisecond,
// rounded up.
func EncodeTakes(t *Takes) (*anypb.Any, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	s := t.measure()
	b := make([]byte, 0, s.message)
	if t.Caller != 0 {
		b = protowire.AppendFixed64(protowire.AppendTag(b, takesCaller, protowire.Fixed64Type), t.Caller)
	}
	b = appendVarint(b, takesBatch, t.Batch)
	b = appendVarint(b, takesSettled, t.Settled)
	if s.withdrawn != 0 {
		b = appendHeader(b, takesWithdrawn, s.withdrawn)
		for _, batch := range t.Withdrawn {
			b = protowire.AppendVarint(b, batch)
		}
	}
	return &anypb.Any{TypeUrl: TakesTypeURL, Value: t.appendColumns(b, s)}, nil
}

// repeats tells whether the key of row i is that of the row before.
func (t *Takes) repeats(i int) bool { return i > 0 && t.Rows[i].Key == t.Rows[i-1].Key }

func (t *Takes) measure() (s takesSize) {
	for _, batch := range t.Withdrawn {
		s.withdrawn += protowire.SizeVarint(batch)
	}
	n, patient := len(t.Rows), false
	for i := range t.Rows {
		row := &t.Rows[i]
		length := len(row.Key)
		if t.repeats(i) {
			length = 0
		}
		s.keys += length
		s.lengths += protowire.SizeVarint(uint64(length))
		wait := row.wait()
		patient = patient || wait != waitNot
		s.waits += protowire.SizeVarint(wait)
		s.millis += protowire.SizeVarint(row.agoMillis())
		if row.Tokens != 1 {
			s.tokens = 8 * n
		}
		if row.Auto {
			s.auto = n
		}
		if row.By != 0 {
			s.told, s.by = 4*n, 4*n
		}
	}
	if !patient {
		s.waits = 0
	}
	if s.by == 0 {
		s.millis = 0
	}
	const header = 9 + 2*11 // caller, batch, settled
	s.message = header
	for _, length := range [...]int{s.withdrawn, s.keys, s.lengths, s.tokens, s.waits, s.told, s.millis, s.by, s.auto} {
		s.message += headerSize(length) + length
	}
	return s
}

func (t *Takes) appendColumns(b []byte, s takesSize) []byte {
	if s.lengths == 0 {
		return b
	}
	b = appendHeader(b, takesKeys, s.keys)
	for i := range t.Rows {
		if !t.repeats(i) {
			b = append(b, t.Rows[i].Key...)
		}
	}
	b = appendHeader(b, takesKeyLengths, s.lengths)
	for i := range t.Rows {
		length := len(t.Rows[i].Key)
		if t.repeats(i) {
			length = 0
		}
		b = protowire.AppendVarint(b, uint64(length))
	}
	if s.tokens != 0 {
		b = appendHeader(b, takesTokens, s.tokens)
		for i := range t.Rows {
			b = protowire.AppendFixed64(b, math.Float64bits(t.Rows[i].Tokens))
		}
	}
	if s.waits != 0 {
		b = appendHeader(b, takesWaits, s.waits)
		for i := range t.Rows {
			b = protowire.AppendVarint(b, t.Rows[i].wait())
		}
	}
	if s.by != 0 {
		b = t.appendTold(b, s)
	}
	if s.auto != 0 {
		b = appendHeader(b, takesAuto, s.auto)
		for i := range t.Rows {
			b = append(b, bit(t.Rows[i].Auto))
		}
	}
	return b
}

// bit is a bool on the wire.
func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// appendTold appends what the rows were told.
func (t *Takes) appendTold(b []byte, s takesSize) []byte {
	b = appendHeader(b, takesTold, s.told)
	for i := range t.Rows {
		b = protowire.AppendFixed32(b, math.Float32bits(signed32(t.Rows[i].Told)))
	}
	b = appendHeader(b, takesToldMillis, s.millis)
	for i := range t.Rows {
		b = protowire.AppendVarint(b, t.Rows[i].agoMillis())
	}
	b = appendHeader(b, takesToldBy, s.by)
	for i := range t.Rows {
		b = protowire.AppendFixed32(b, t.Rows[i].By)
	}
	return b
}

// wait is how the row's Longest and Spent stand on the wire.
func (t *Take) wait() uint64 {
	switch {
	case t.Spent == SpentBeyond:
		return waitSpentBeyond
	case t.Spent == SpentApart:
		return waitSpentApart
	case t.Longest < 0:
		return waitNot + uint64(MaxWait/time.Microsecond)
	}
	return waitNot + uint64(t.Longest/time.Microsecond)
}

func (t *Take) setWait(wire uint64) {
	switch wire {
	case waitSpentBeyond:
		t.Spent = SpentBeyond
	case waitSpentApart:
		t.Spent = SpentApart
	default:
		t.Longest = micros(wire - waitNot)
	}
}

// micros is a duration on the wire, bounded so that it cannot overflow; one
// above MaxWait is left for the check of the row.
func micros(wire uint64) time.Duration {
	return time.Duration(min(wire, uint64(MaxWait/time.Microsecond)+1)) * time.Microsecond
}

func (t *Take) agoMillis() uint64 {
	return uint64((t.Ago + time.Millisecond - 1) / time.Millisecond)
}

// signed32 is the nearest float32 that is finite.
func signed32(v float64) float32 {
	return float32(max(min(v, math.MaxFloat32), -math.MaxFloat32))
}

// DecodeTakes reads payload into t, for the decider. It uses the memory that
// t has. All keys share one string of that message: who keeps a key for longer
// must strings.Clone it. After an error, an ErrPayload, t is empty.
func DecodeTakes(payload *anypb.Any, t *Takes) error {
	value, err := payloadOf(payload, takesName)
	*t = Takes{Withdrawn: t.Withdrawn[:0], Rows: t.Rows[:0]}
	if err == nil {
		err = t.read(value)
	}
	if err == nil {
		err = t.Check()
	}
	if err != nil {
		clear(t.Rows[:cap(t.Rows)])
		*t = Takes{Withdrawn: t.Withdrawn[:0], Rows: t.Rows[:0]}
	}
	return err
}

func (t *Takes) read(message []byte) error {
	var keys []byte
	var withdrawn, lengths, tokens, waits, told, millis, by, auto packed
	for len(message) > 0 {
		f, rest, err := nextField(message)
		if err != nil {
			return err
		}
		message = rest
		switch {
		case f.number == takesCaller && f.kind == protowire.Fixed64Type:
			t.Caller, _ = protowire.ConsumeFixed64(f.bytes)
		case f.number == takesBatch && f.kind == protowire.VarintType:
			t.Batch = f.value
		case f.number == takesSettled && f.kind == protowire.VarintType:
			t.Settled = f.value
		case f.number == takesWithdrawn && f.isVarints():
			withdrawn.add(f.bytes)
		case f.number == takesKeys && f.kind == protowire.BytesType:
			keys = f.bytes
		case f.number == takesKeyLengths && f.isVarints():
			lengths.add(f.bytes)
		case f.number == takesTokens && f.isDoubles():
			tokens.add(f.bytes)
		case f.number == takesWaits && f.isVarints():
			waits.add(f.bytes)
		case f.number == takesTold && f.isFloats():
			told.add(f.bytes)
		case f.number == takesToldMillis && f.isVarints():
			millis.add(f.bytes)
		case f.number == takesToldBy && f.isFloats():
			by.add(f.bytes)
		case f.number == takesAuto && f.isVarints():
			auto.add(f.bytes)
		}
	}
	if n := withdrawn.varints(); n > MaxWithdrawn {
		return refuse("%d withdrawn batches in one message; send at most %d", n, MaxWithdrawn)
	}
	for len(withdrawn.raw) > 0 {
		batch, ok := withdrawn.next()
		if !ok {
			return refuse("a withdrawn batch is not a varint")
		}
		t.Withdrawn = append(t.Withdrawn, batch)
	}
	if err := t.readKeys(keys, &lengths); err != nil {
		return err
	}
	if err := eachDouble("tokens", &tokens, len(t.Rows), func(i int, v float64) { t.Rows[i].Tokens = v }); err != nil {
		return err
	}
	if err := eachVarint("waits", &waits, len(t.Rows), func(i int, v uint64) { t.Rows[i].setWait(v) }); err != nil {
		return err
	}
	if err := eachWord("told", &told, len(t.Rows), func(i int, v uint32) { t.Rows[i].Told = float64(math.Float32frombits(v)) }); err != nil {
		return err
	}
	if err := eachVarint("told_ms", &millis, len(t.Rows), func(i int, v uint64) { t.Rows[i].Ago = period(v, MaxElapsed) }); err != nil {
		return err
	}
	if err := eachWord("told_by", &by, len(t.Rows), func(i int, v uint32) { t.Rows[i].By = v }); err != nil {
		return err
	}
	return eachVarint("auto", &auto, len(t.Rows), func(i int, v uint64) { t.Rows[i].Auto = v != 0 })
}

// readKeys makes the rows, and cuts their keys out of one string.
func (t *Takes) readKeys(keys []byte, lengths *packed) error {
	n := lengths.varints()
	if n > MaxTakes {
		return refuse("%d takes in one message; send at most %d", n, MaxTakes)
	}
	all, key := string(keys), ""
	t.Rows = slices.Grow(t.Rows, n)
	for i := range n {
		length, ok := lengths.next()
		switch {
		case !ok:
			return refuse("row %d: the key's length is not a varint", i)
		case length == 0 && i == 0:
			return checkKey(0, 0)
		case length > uint64(len(all)):
			return refuse("row %d: the key has %d bytes, but only %d are left; lengths and keys must agree", i, length, len(all))
		case length > 0:
			key, all = all[:length], all[length:]
		}
		t.Rows = append(t.Rows, Take{Key: key, Tokens: 1})
	}
	if len(all) != 0 || len(lengths.raw) != 0 {
		return refuse("%d bytes of keys and %d of lengths are left after %d keys; lengths and keys must agree", len(all), len(lengths.raw), n)
	}
	return nil
}

// eachDouble is eachVarint for doubles.
func eachDouble(name string, c *packed, n int, do func(i int, v float64)) error {
	if len(c.raw) == 0 {
		return nil
	}
	if len(c.raw) != 8*n {
		return refuse("%d bytes of %s for %d rows; send 8 for each, or leave the column out", len(c.raw), name, n)
	}
	for i := range n {
		bits, size := protowire.ConsumeFixed64(c.raw)
		c.raw = c.raw[size:]
		do(i, math.Float64frombits(bits))
	}
	return nil
}

// eachVarint calls do for each of n values of a column, or of none.
func eachVarint(name string, c *packed, n int, do func(i int, v uint64)) error {
	if len(c.raw) == 0 {
		return nil
	}
	if values := c.varints(); values != n {
		return refuse("%d values of %s for %d rows; send one for each, or leave the column out", values, name, n)
	}
	for i := range n {
		v, ok := c.next()
		if !ok {
			return refuse("row %d: %s is not a varint", i, name)
		}
		do(i, v)
	}
	if len(c.raw) != 0 {
		return refuse("%s ends in a varint that is cut short", name)
	}
	return nil
}

// eachWord is eachVarint for four bytes each.
func eachWord(name string, c *packed, n int, do func(i int, v uint32)) error {
	if len(c.raw) == 0 {
		return nil
	}
	if len(c.raw) != 4*n {
		return refuse("%d bytes of %s for %d rows; send 4 for each, or leave the column out", len(c.raw), name, n)
	}
	for i := range n {
		v, size := protowire.ConsumeFixed32(c.raw)
		c.raw = c.raw[size:]
		do(i, v)
	}
	return nil
}
