// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/internal/wire"
)

// Type URLs of takes and their answer: headgate.v1.Takes and headgate.v1.Taken.
const (
	TakesTypeURL = "type.googleapis.com/headgate.v1.Takes"
	TakenTypeURL = "type.googleapis.com/headgate.v1.Taken"
)

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
	takesMore
	takesWants
	takesHanded
)

// How no wait is written, and what is added to a wait that is one.
const (
	waitSpentBeyond = iota
	waitSpentApart
	waitNot
)

var takesFields = [...]wire.Kind{
	takesCaller: wire.Fixed64, takesBatch: wire.Varint, takesSettled: wire.Varint, takesWithdrawn: wire.Varints,
	takesKeys: wire.Bytes, takesKeyLengths: wire.Varints, takesTokens: wire.Doubles, takesWaits: wire.Varints,
	takesTold: wire.Words, takesToldMillis: wire.Varints, takesToldBy: wire.Words, takesAuto: wire.Varints,
	takesMore: wire.Doubles, takesWants: wire.Doubles, takesHanded: wire.Doubles,
}

// EncodeTakes returns t as a payload. It does not keep t. The error, an
// ErrPayload, is that of t.Check. The wire has Longest to the microsecond,
// rounded down, Told as the nearest float32, and Ago to the millisecond,
// rounded up.
func EncodeTakes(t *Takes) (*anypb.Any, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	return t.Payload(), nil
}

// Payload is t as a payload, for callers that have checked t or all of its rows.
func (t *Takes) Payload() *anypb.Any {
	e, n := wire.NewEncoder(), len(t.Rows)
	e.Fixed64(takesCaller, t.Caller)
	e.Varint(takesBatch, t.Batch)
	e.Varint(takesSettled, t.Settled)
	e.Column(takesWithdrawn, len(t.Withdrawn), func(i int) uint64 { return t.Withdrawn[i] })
	e.Keys(takesKeys, takesKeyLengths, n, func(i int) string {
		if i > 0 && t.Rows[i].Key == t.Rows[i-1].Key {
			return "" // the same again
		}
		return t.Rows[i].Key
	})
	e.Doubles(takesTokens, n, 1, func(i int) float64 { return t.Rows[i].Tokens })
	e.Varints(takesWaits, n, waitNot, func(i int) uint64 { return t.Rows[i].wait() })
	if slices.ContainsFunc(t.Rows, func(row Take) bool { return row.By != 0 }) {
		e.Words(takesTold, n, func(i int) uint32 { return wire.Bits32(t.Rows[i].Told) })
		e.Varints(takesToldMillis, n, 0, func(i int) uint64 { return wire.Up(t.Rows[i].Ago, time.Millisecond) })
		e.Words(takesToldBy, n, func(i int) uint32 { return t.Rows[i].By })
	}
	e.Varints(takesAuto, n, 0, func(i int) uint64 { return wire.Bit(t.Rows[i].Auto) })
	e.Doubles(takesMore, n, 0, func(i int) float64 { return t.Rows[i].More })
	e.Doubles(takesWants, n, 0, func(i int) float64 { return t.Rows[i].Wants })
	e.Doubles(takesHanded, n, 0, func(i int) float64 { return t.Rows[i].handed() })
	return e.Payload(TakesTypeURL)
}

// wait is how the row's Longest and Spent stand on the wire.
func (t *Take) wait() uint64 {
	switch {
	case t.Spent == SpentBeyond:
		return waitSpentBeyond
	case t.Spent == SpentApart:
		return waitSpentApart
	case t.Longest < 0:
		return waitNot + uint64(rpc.MaxWait/time.Microsecond)
	}
	return waitNot + uint64(t.Longest/time.Microsecond)
}

func (t *Take) setWait(v uint64) {
	switch v {
	case waitSpentBeyond:
		t.Spent = SpentBeyond
	case waitSpentApart:
		t.Spent = SpentApart
	default:
		t.Longest = wire.Period(v-waitNot, time.Microsecond, rpc.MaxWait)
	}
}

// handed is how Handed and Rates stand on the wire: 0 is not, and else 1 more than
// Rates.
func (t *Take) handed() float64 {
	if !t.Handed {
		return 0
	}
	return 1 + t.Rates
}

func (t *Take) setHanded(v float64) {
	if v != 0 {
		t.Handed, t.Rates = true, v-1
	}
}

// DecodeTakes reads payload into t, for the decider. It uses the memory that
// t has. All keys share one string of that message: a caller that keeps a key for
// longer must strings.Clone it. After an error, an ErrPayload, t is empty.
func DecodeTakes(payload *anypb.Any, t *Takes) error {
	message, err := wire.Body(payload, TakesTypeURL)
	*t = Takes{Withdrawn: t.Withdrawn[:0], Rows: t.Rows[:0]}
	if err == nil {
		err = t.read(message)
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
	var f [len(takesFields)]wire.Field
	if err := wire.Parse(message, takesFields[:], f[:]); err != nil {
		return err
	}
	t.Caller, t.Batch, t.Settled = f[takesCaller].Value, f[takesBatch].Value, f[takesSettled].Value
	n, withdrawn := f[takesKeyLengths].Len(), f[takesWithdrawn].Len()
	if err := cmp.Or(wire.AtMost("takes", n, rpc.MaxTakes), wire.AtMost("withdrawn batches", withdrawn, rpc.MaxWithdrawn)); err != nil {
		return err // before there is memory for them
	}
	t.Withdrawn = wire.Zeros(t.Withdrawn, withdrawn)
	if err := f[takesWithdrawn].EachVarint("withdrawn", withdrawn, func(i int, v uint64) { t.Withdrawn[i] = v }); err != nil {
		return err
	}
	t.Rows = slices.Grow(t.Rows, n)
	if err := wire.Keys(&f[takesKeys], &f[takesKeyLengths], n, true, func(key string) { t.Rows = append(t.Rows, Take{Key: key, Tokens: 1}) }); err != nil {
		return err
	}
	if err := f[takesTokens].EachDouble("tokens", n, func(i int, v float64) { t.Rows[i].Tokens = v }); err != nil {
		return err
	}
	if err := f[takesWaits].EachVarint("waits", n, func(i int, v uint64) { t.Rows[i].setWait(v) }); err != nil {
		return err
	}
	if err := f[takesTold].EachWord("told", n, func(i int, v uint32) { t.Rows[i].Told = wire.Float(v) }); err != nil {
		return err
	}
	if err := f[takesToldMillis].EachVarint("told_ms", n, func(i int, v uint64) { t.Rows[i].Ago = wire.Period(v, time.Millisecond, rpc.MaxElapsed) }); err != nil {
		return err
	}
	if err := f[takesToldBy].EachWord("told_by", n, func(i int, v uint32) { t.Rows[i].By = v }); err != nil {
		return err
	}
	if err := f[takesAuto].EachVarint("auto", n, func(i int, v uint64) { t.Rows[i].Auto = v != 0 }); err != nil {
		return err
	}
	if err := f[takesMore].EachDouble("more", n, func(i int, v float64) { t.Rows[i].More = v }); err != nil {
		return err
	}
	if err := f[takesWants].EachDouble("wants", n, func(i int, v float64) { t.Rows[i].Wants = v }); err != nil {
		return err
	}
	return f[takesHanded].EachDouble("handed", n, func(i int, v float64) { t.Rows[i].setHanded(v) })
}

// Field numbers of headgate.v1.Taken.
const (
	takenBy = iota + 1
	takenAnswers
	takenLeft
	takenShort
	takenLent
)

var takenFields = [...]wire.Kind{takenBy: wire.Fixed32, takenAnswers: wire.Varints, takenLeft: wire.Words, takenShort: wire.Doubles, takenLent: wire.Doubles}

// EncodeTaken returns t, which answers n takes, as a payload. It does not keep
// t. The error, an ErrPayload, is that of t.Check(n). The wire has durations to
// the microsecond, rounded up, and Left as the nearest float32.
func EncodeTaken(t *Taken, n int) (*anypb.Any, error) {
	if err := t.Check(n); err != nil {
		return nil, err
	}
	e := wire.NewEncoder()
	e.Fixed32(takenBy, t.By)
	e.Column(takenAnswers, n, func(i int) uint64 { return t.Rows[i].answer() })
	e.Words(takenLeft, n, func(i int) uint32 { return wire.Bits32(t.Rows[i].Left) })
	e.Doubles(takenShort, n, 0, func(i int) float64 { return t.Rows[i].Short })
	e.Doubles(takenLent, n, 0, func(i int) float64 { return t.Rows[i].Lent })
	return e.Payload(TakenTypeURL), nil
}

// answer is how t stands on the wire but for Left and Short.
func (t *Took) answer() uint64 {
	switch {
	case !t.Decided:
		return 0
	case t.OK:
		return wire.Up(t.Wait, time.Microsecond)<<1 | 1
	}
	return wire.Up(t.Retry, time.Microsecond) << 1
}

func (t *Took) setAnswer(v uint64) {
	t.Decided, t.OK = v != 0, v&1 != 0
	if d := wire.Period(v>>1, time.Microsecond, rpc.MaxWait); t.OK {
		t.Wait = d
	} else {
		t.Retry = d
	}
}

// DecodeTaken reads payload, which answers n takes, into t. It uses the memory
// that t has, and keeps nothing of payload. After an error, an ErrPayload, t
// is empty.
func DecodeTaken(payload *anypb.Any, n int, t *Taken) error {
	message, err := wire.Body(payload, TakenTypeURL)
	*t = Taken{Rows: t.Rows[:0]}
	if err == nil {
		err = t.read(message, n)
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
	var f [len(takenFields)]wire.Field
	if err := wire.Parse(message, takenFields[:], f[:]); err != nil {
		return err
	}
	if err := wire.Fits("answers", f[takenAnswers].Len(), n); err != nil {
		return err
	}
	t.By, t.Rows = uint32(f[takenBy].Value), wire.Zeros(t.Rows, n)
	if err := f[takenAnswers].EachVarint("answers", n, func(i int, v uint64) { t.Rows[i].setAnswer(v) }); err != nil {
		return err
	}
	if err := f[takenLeft].EachWord("left", n, func(i int, v uint32) { t.Rows[i].Left = wire.Float(v) }); err != nil {
		return err
	}
	if err := f[takenShort].EachDouble("short", n, func(i int, v float64) { t.Rows[i].Short = v }); err != nil {
		return err
	}
	return f[takenLent].EachDouble("lent", n, func(i int, v float64) { t.Rows[i].Lent = v })
}
