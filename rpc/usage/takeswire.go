// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"math"
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

// The fields and the columns of headgate.v1.Takes.
const (
	takesWithdrawn  = 4
	takesKeys       = 5
	takesKeyLengths = 6
)

var (
	takesFields = wire.Fields[Takes]{
		1: wire.Fixed("caller", func(t *Takes) *uint64 { return &t.Caller }),
		2: wire.Uint("batch", func(t *Takes) *uint64 { return &t.Batch }),
		3: wire.Uint("settled", func(t *Takes) *uint64 { return &t.Settled }),
	}
	takeColumns = wire.Fields[Take]{
		7:  wire.Double("tokens", 1, func(t *Take) *float64 { return &t.Tokens }),
		8:  wire.Number("waits", waitNot, (*Take).wait, (*Take).setWait),
		9:  wire.Single("told", func(t *Take) *float64 { return &t.Told }),
		10: wire.Millis("told_ms", rpc.MaxElapsed, upMillis, func(t *Take) *time.Duration { return &t.Ago }),
		11: wire.Word("told_by", func(t *Take) *uint32 { return &t.By }),
		12: wire.Flag("auto", func(t *Take) *bool { return &t.Auto }),
		13: wire.Double("more", 0, func(t *Take) *float64 { return &t.More }),
		14: wire.Double("wants", 0, func(t *Take) *float64 { return &t.Wants }),
		15: wire.Bits("handed", (*Take).handed, (*Take).setHanded),
		16: wire.Flag("measured", func(t *Take) *bool { return &t.Measured }),
		17: wire.Double("kept", 0, func(t *Take) *float64 { return &t.Kept }),
	}
	takesKinds = wire.Kinds(takesFields, takeColumns, map[int]wire.Kind{takesWithdrawn: wire.Varints, takesKeys: wire.Bytes, takesKeyLengths: wire.Varints})
)

// How no wait is written, and what is added to a wait that is one.
const (
	waitSpentBeyond = iota
	waitSpentApart
	waitNot
)

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
	takesFields.Write(e, t)
	e.Column(takesWithdrawn, len(t.Withdrawn), func(i int) uint64 { return t.Withdrawn[i] })
	e.Keys(takesKeys, takesKeyLengths, n, func(i int) string {
		if i > 0 && t.Rows[i].Key == t.Rows[i-1].Key {
			return "" // the same again
		}
		return t.Rows[i].Key
	})
	takeColumns.WriteColumns(e, t.Rows)
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
func (t *Take) handed() uint64 {
	if !t.Handed {
		return 0
	}
	return math.Float64bits(1 + t.Rates)
}

func (t *Take) setHanded(v uint64) {
	if v != 0 {
		t.Handed, t.Rates = true, math.Float64frombits(v)-1
	}
}

func upMillis(d time.Duration) uint64 { return wire.Up(d, time.Millisecond) }

// DecodeTakes reads payload into t, for the decider. It uses the memory that
// t has. All keys share one string of that message: a caller that keeps a key for
// longer must strings.Clone it. After an error, an ErrPayload, t is empty.
func DecodeTakes(payload *anypb.Any, t *Takes) error {
	return wire.Decode(payload, TakesTypeURL, t.reset, t.read, t.Check)
}

// reset empties t, whose rows would keep the keys of an earlier message alive.
func (t *Takes) reset() {
	clear(t.Rows)
	*t = Takes{Withdrawn: t.Withdrawn[:0], Rows: t.Rows[:0]}
}

func (t *Takes) read(message []byte) error {
	var f [wire.MaxFields]wire.Run
	if err := wire.Parse(message, takesKinds, f[:]); err != nil {
		return err
	}
	takesFields.Take(f[:], t)
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
	return takeColumns.ReadColumns(f[:], t.Rows)
}

// The fields and the columns of headgate.v1.Taken.
const takenAnswers = 2

var (
	takenFields = wire.Fields[Taken]{1: wire.Word("by", func(t *Taken) *uint32 { return &t.By })}
	tookColumns = wire.Fields[Took]{
		takenAnswers: wire.Number("answers", wire.Always, (*Took).answer, (*Took).setAnswer),
		3:            wire.Single("left", func(t *Took) *float64 { return &t.Left }),
		4:            wire.Double("short", 0, func(t *Took) *float64 { return &t.Short }),
		5:            wire.Double("lent", 0, func(t *Took) *float64 { return &t.Lent }),
	}
	takenKinds = wire.Kinds(takenFields, tookColumns, nil)
)

// EncodeTaken returns t, which answers n takes, as a payload. It does not keep
// t. The error, an ErrPayload, is that of t.Check(n). The wire has durations to
// the microsecond, rounded up, and Left as the nearest float32.
func EncodeTaken(t *Taken, n int) (*anypb.Any, error) {
	if err := t.Check(n); err != nil {
		return nil, err
	}
	e := wire.NewEncoder()
	takenFields.Write(e, t)
	tookColumns.WriteColumns(e, t.Rows)
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
	return wire.Decode(payload, TakenTypeURL, func() { *t = Taken{Rows: t.Rows[:0]} },
		func(message []byte) error { return t.read(message, n) }, func() error { return t.Check(n) })
}

func (t *Taken) read(message []byte, n int) error {
	var f [wire.MaxFields]wire.Run
	if err := wire.Parse(message, takenKinds, f[:]); err != nil {
		return err
	}
	takenFields.Take(f[:], t)
	if err := wire.Fits("answers", f[takenAnswers].Len(), n); err != nil {
		return err
	}
	t.Rows = wire.Zeros(t.Rows, n)
	return tookColumns.ReadColumns(f[:], t.Rows)
}
