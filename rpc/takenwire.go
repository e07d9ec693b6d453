// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
)

// TakenTypeURL is the type URL of the answer to takes: headgate.v1.Taken.
const TakenTypeURL = "type.googleapis.com/headgate.v1.Taken"

const takenName = "headgate.v1.Taken"

// Field numbers of headgate.v1.Taken.
const (
	takenBy = iota + 1
	takenAnswers
	takenLeft
	takenShort
)

// EncodeTaken returns t, which answers n takes, as a payload. It does not keep
// t. The error, an ErrPayload, is that of t.Check(n). The wire has durations to
// the microsecond, rounded up, and Left as the nearest float32.
func EncodeTaken(t *Taken, n int) (*anypb.Any, error) {
	if err := t.Check(n); err != nil {
		return nil, err
	}
	answers, left, short := 0, 0, 0
	for i := range t.Rows {
		answers += protowire.SizeVarint(t.Rows[i].answer())
		if t.Rows[i].Left != 0 {
			left = 4 * n
		}
		if t.Rows[i].Short != 0 {
			short = 8 * n
		}
	}
	b := make([]byte, 0, 5+headerSize(answers)+answers+headerSize(left)+left+headerSize(short)+short)
	b = protowire.AppendFixed32(protowire.AppendTag(b, takenBy, protowire.Fixed32Type), t.By)
	if answers != 0 {
		b = appendHeader(b, takenAnswers, answers)
		for i := range t.Rows {
			b = protowire.AppendVarint(b, t.Rows[i].answer())
		}
	}
	if left != 0 {
		b = appendHeader(b, takenLeft, left)
		for i := range t.Rows {
			b = protowire.AppendFixed32(b, math.Float32bits(signed32(t.Rows[i].Left)))
		}
	}
	if short != 0 {
		b = appendHeader(b, takenShort, short)
		for i := range t.Rows {
			b = protowire.AppendFixed64(b, math.Float64bits(t.Rows[i].Short))
		}
	}
	return &anypb.Any{TypeUrl: TakenTypeURL, Value: b}, nil
}

// answer is how t stands on the wire but for Left.
func (t *Took) answer() uint64 {
	switch {
	case !t.Decided:
		return 0
	case t.OK:
		return upMicros(t.Wait)<<1 | 1
	}
	return upMicros(t.Retry) << 1
}

func upMicros(d time.Duration) uint64 {
	return uint64((d + time.Microsecond - 1) / time.Microsecond)
}

// DecodeTaken reads payload, which answers n takes, into t. It uses the memory
// that t has, and keeps nothing of payload. After an error, an ErrPayload, t
// is empty.
func DecodeTaken(payload *anypb.Any, n int, t *Taken) error {
	value, err := payloadOf(payload, takenName)
	*t = Taken{Rows: t.Rows[:0]}
	if err == nil {
		err = t.read(value, n)
	}
	if err == nil {
		err = t.Check(n)
	}
	if err != nil {
		*t = Taken{Rows: t.Rows[:0]}
	}
	return err
}

func (t *Taken) read(message []byte, n int) error {
	var answers, left, short packed
	for len(message) > 0 {
		f, rest, err := nextField(message)
		if err != nil {
			return err
		}
		message = rest
		switch {
		case f.number == takenBy && f.kind == protowire.Fixed32Type:
			t.By, _ = protowire.ConsumeFixed32(f.bytes)
		case f.number == takenAnswers && f.isVarints():
			answers.add(f.bytes)
		case f.number == takenLeft && f.isFloats():
			left.add(f.bytes)
		case f.number == takenShort && f.isDoubles():
			short.add(f.bytes)
		}
	}
	if values := answers.varints(); values != n {
		return refuse("%d answers to %d takes; answer every take, in order", values, n)
	}
	t.Rows = slices.Grow(t.Rows, n)[:n]
	clear(t.Rows)
	if err := eachVarint("answers", &answers, n, func(i int, v uint64) { t.Rows[i].setAnswer(v) }); err != nil {
		return err
	}
	if err := eachWord("left", &left, n, func(i int, v uint32) { t.Rows[i].Left = float64(math.Float32frombits(v)) }); err != nil {
		return err
	}
	return eachDouble("short", &short, n, func(i int, v float64) { t.Rows[i].Short = v })
}

func (t *Took) setAnswer(wire uint64) {
	t.Decided, t.OK = wire != 0, wire&1 != 0
	if t.OK {
		t.Wait = micros(wire >> 1)
	} else {
		t.Retry = micros(wire >> 1)
	}
}
