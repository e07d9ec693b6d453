// SPDX-License-Identifier: Apache-2.0

package usage_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/usage"
)

func sampleTakes() *usage.Takes {
	return &usage.Takes{Caller: 7, Batch: 300, Settled: 299, Withdrawn: []uint64{299, 1 << 60}, Rows: []usage.Take{
		{Key: "login:ada", Tokens: 1, Told: 4.5, Ago: 20 * time.Millisecond, By: 9, Handed: true, Rates: 0.5},
		{Key: "login:ada", Auto: true, Measured: true, Tokens: 1, Longest: time.Second},
		{Key: "login:\xff", Tokens: -2.25, Longest: -1},
		{Key: "k", Tokens: 1 << 53, Spent: usage.SpentBeyond},
		{Key: "k", Tokens: 3, Spent: usage.SpentApart, Told: -1e300, By: 1},
	}}
}

func sampleTaken() *usage.Taken {
	return &usage.Taken{By: 77, Rows: []usage.Took{
		{Decided: true, OK: true, Left: 3},
		{Decided: true, OK: true, Wait: time.Second, Left: -0.5},
		{Decided: true, Retry: rpc.MaxWait},
		{},
		{Decided: true, Retry: time.Microsecond},
	}}
}

func TestTakesTravel(t *testing.T) {
	payload, err := usage.EncodeTakes(sampleTakes())
	if err != nil {
		t.Fatal(err)
	}
	var got usage.Takes
	if err := usage.DecodeTakes(payload, &got); err != nil {
		t.Fatal(err)
	}
	want := sampleTakes()
	want.Rows[2].Longest = rpc.MaxWait // for as long as the rule lets it
	want.Rows[4].Told = -math.MaxFloat32
	sameTakes(t, &got, want)

	answer, err := usage.EncodeTaken(sampleTaken(), 5)
	if err != nil {
		t.Fatal(err)
	}
	var taken usage.Taken
	if err := usage.DecodeTaken(answer, 5, &taken); err != nil {
		t.Fatal(err)
	}
	if taken.By != 77 || !slices.Equal(taken.Rows, sampleTaken().Rows) {
		t.Errorf("sent %+v\ngot  %+v", sampleTaken(), taken)
	}
}

func sameTakes(t tb, got, want *usage.Takes) {
	t.Helper()
	if got.Caller != want.Caller || got.Batch != want.Batch || got.Settled != want.Settled || !slices.Equal(got.Withdrawn, want.Withdrawn) || !slices.Equal(got.Rows, want.Rows) {
		t.Fatal("got ", *got, "\nwant", *want)
	}
}

// An answer says how many tokens were not moved. One that makes no sense undoes no more than the take moved.
func TestWhatATakeMovedIsNoMoreThanItsTokens(t *testing.T) {
	for _, row := range []struct{ tokens, short, want float64 }{
		{5, 0, 5},
		{5, 2, 3},
		{5, 9, 0},
		{5, -3, 5},
		{-5, 0, -5},
		{-5, -2, -3},
		{-5, -9, 0},
		{-5, 3, -5},
	} {
		take := usage.Take{Key: "k", Tokens: row.tokens}
		if got := take.Moved(&usage.Took{Decided: true, OK: true, Short: row.short}); got != row.want {
			t.Errorf("%v tokens, short of %v: %v were moved, want %v", row.tokens, row.short, got, row.want)
		}
		if got := take.Moved(&usage.Took{Decided: true, Retry: 1}); got != 0 {
			t.Errorf("%v tokens that were refused: %v were moved", row.tokens, got)
		}
	}
}

// A decider reads messages into the same memory again and again. Rows that a message does not
// have would keep the keys of an earlier message, which share one string.
func TestTakesKeepNoKeysOfAnEarlierMessage(t *testing.T) {
	var takes usage.Takes
	for _, rows := range []int{5, 3, 4, 1} {
		sent := sampleTakes()
		sent.Rows = sent.Rows[:rows]
		payload, err := usage.EncodeTakes(sent)
		if err != nil {
			t.Fatal(err)
		}
		if err := usage.DecodeTakes(payload, &takes); err != nil {
			t.Fatal(err)
		}
		for _, beyond := range takes.Rows[rows:cap(takes.Rows)] {
			if beyond.Key != "" {
				t.Errorf("after a message with %d rows, there is a row beyond them with the key %q", rows, beyond.Key)
			}
		}
	}
}

func TestOneTakeIsSmall(t *testing.T) {
	one := &usage.Takes{Caller: 1 << 60, Batch: 1000, Settled: 999, Rows: []usage.Take{{Key: "login:2001:db8::1/64:user", Tokens: 1, Told: 3, Ago: time.Millisecond, By: 1}}}
	payload, err := usage.EncodeTakes(one)
	if err != nil {
		t.Fatal(err)
	}
	first := len(payload.Value)
	if most := 25 + 35; first > most {
		t.Errorf("%d bytes for the first; want at most %d", first, most)
	}
	one.Rows = append(one.Rows, one.Rows[0])
	if payload, err = usage.EncodeTakes(one); err != nil {
		t.Fatal(err)
	}
	if next := len(payload.Value) - first; next > 10 {
		t.Errorf("%d bytes for the next of the same key", next)
	}
}

func TestTakesAreWhatTheGeneratedMessageWouldWrite(t *testing.T) {
	tokens := rapid.OneOf(rapid.Just(1.0), rapid.Float64Range(-rpc.MaxTokens, rpc.MaxTokens))
	rapid.Check(t, func(t *rapid.T) {
		takes := &usage.Takes{Caller: rapid.Uint64().Draw(t, "caller"), Batch: rapid.Uint64().Draw(t, "batch")}
		takes.Settled = rapid.Uint64Range(0, takes.Batch).Draw(t, "settled")
		takes.Withdrawn = rapid.SliceOfN(rapid.Uint64(), 0, 5).Draw(t, "withdrawn")
		told, auto, measured := rapid.Bool().Draw(t, "told"), rapid.Bool().Draw(t, "auto"), rapid.Bool().Draw(t, "measured")
		for range rapid.IntRange(0, 8).Draw(t, "rows") {
			row := usage.Take{
				Key:     string(rapid.SliceOfN(rapid.Byte(), 1, rapid.SampledFrom([]int{1, rpc.MaxKeyLength}).Draw(t, "longest")).Draw(t, "key")),
				Tokens:  tokens.Draw(t, "tokens"),
				Longest: time.Duration(rapid.Int64Range(0, 2).Draw(t, "wait")) * time.Microsecond,
				Spent:   rapid.SampledFrom([]usage.Spent{0, 0, usage.SpentApart, usage.SpentBeyond}).Draw(t, "spent"),
			}
			if row.Spent != usage.SpentNot {
				row.Longest = 0
			}
			row.Auto = auto && rapid.Bool().Draw(t, "this one")
			row.Measured = measured && rapid.Bool().Draw(t, "is measured")
			if row.By = rapid.Uint32().Draw(t, "by"); told && row.By != 0 {
				row.Told = float64(rapid.Float32().Draw(t, "level"))
				row.Ago = time.Duration(rapid.Int64Range(0, rpc.MaxElapsed.Milliseconds()).Draw(t, "ago")) * time.Millisecond
			}
			if auto {
				row.More, row.Wants = rapid.Float64Range(0, rpc.MaxTokens).Draw(t, "more"), rapid.Float64Range(0, 2).Draw(t, "wants")
			}
			if row.Handed = told && rapid.Bool().Draw(t, "handed"); row.Handed {
				row.Rates = float64(rapid.IntRange(0, 256).Draw(t, "rates")) / 256
				row.Kept = rapid.Float64Range(0, 2).Draw(t, "kept")
			}
			takes.Rows = append(takes.Rows, row)
		}
		payload, err := usage.EncodeTakes(takes)
		if err != nil {
			t.Fatal(err)
		}
		wantMessage(t, payload, takesMessage(takes))
		var got usage.Takes
		if err := usage.DecodeTakes(payload, &got); err != nil {
			t.Fatal(err)
		}
		sameTakes(t, &got, takes)
	})
}

// takesMessage is the generated message, which is the dumb version that the
// codec is checked by.
func takesMessage(t *usage.Takes) *headgatepb.Takes {
	m := &headgatepb.Takes{Caller: t.Caller, Batch: t.Batch, Settled: t.Settled, Withdrawn: t.Withdrawn}
	ones, still, told, auto, measured := true, true, false, false, false
	for i, row := range t.Rows {
		if i > 0 && row.Key == t.Rows[i-1].Key {
			m.KeyLengths = append(m.KeyLengths, 0)
		} else {
			m.Keys = append(m.Keys, row.Key...)
			m.KeyLengths = append(m.KeyLengths, uint32(len(row.Key)))
		}
		wait := 2 + uint64(row.Longest.Microseconds())
		switch {
		case row.Spent == usage.SpentBeyond:
			wait = 0
		case row.Spent == usage.SpentApart:
			wait = 1
		case row.Longest < 0:
			wait = 2 + uint64(rpc.MaxWait.Microseconds())
		}
		m.Waits = append(m.Waits, wait)
		m.Tokens = append(m.Tokens, row.Tokens)
		m.Told = append(m.Told, float32(row.Told))
		m.ToldMs = append(m.ToldMs, uint32(math.Ceil(float64(row.Ago)/1e6)))
		m.ToldBy = append(m.ToldBy, row.By)
		m.Auto = append(m.Auto, row.Auto)
		m.More, m.Wants = append(m.More, row.More), append(m.Wants, row.Wants)
		handed := 0.0
		if row.Handed {
			handed = 1 + row.Rates
		}
		m.Handed, m.Kept = append(m.Handed, handed), append(m.Kept, row.Kept)
		m.Measured = append(m.Measured, row.Measured)
		auto, measured = auto || row.Auto, measured || row.Measured
		ones, still, told = ones && row.Tokens == 1, still && wait == 2, told || row.By != 0
	}
	if ones {
		m.Tokens = nil
	}
	if !auto {
		m.Auto = nil
	}
	if !measured {
		m.Measured = nil
	}
	for _, column := range []*[]float64{&m.More, &m.Wants, &m.Handed, &m.Kept} {
		if !slices.ContainsFunc(*column, func(v float64) bool { return v != 0 }) {
			*column = nil
		}
	}
	if still {
		m.Waits = nil
	}
	if !told {
		m.Told, m.ToldMs, m.ToldBy = nil, nil, nil
	}
	if !slices.ContainsFunc(m.Told, func(v float32) bool { return math.Float32bits(v) != 0 }) {
		m.Told = nil
	}
	if !slices.ContainsFunc(m.ToldMs, func(v uint32) bool { return v != 0 }) {
		m.ToldMs = nil
	}
	return m
}

func TestAbsurdTakesAreRefusedByBothSides(t *testing.T) {
	for _, row := range []struct {
		name string
		bend func(t *usage.Take)
		want string
	}{
		{"long key", func(t *usage.Take) { t.Key = string(make([]byte, rpc.MaxKeyLength+1)) }, "row 1: the key has 1025 bytes"},
		{"NaN", func(t *usage.Take) { t.Tokens = math.NaN() }, "row 1: tokens is NaN"},
		{"too many tokens", func(t *usage.Take) { t.Tokens = math.Nextafter(1<<53, math.Inf(1)) }, "row 1: tokens is 9.007199254740994e+15"},
		{"too many back", func(t *usage.Take) { t.Tokens = math.Inf(-1) }, "row 1: tokens is -Inf"},
		{"waits too long", func(t *usage.Take) { t.Longest = rpc.MaxWait + time.Microsecond }, "row 1: the longest wait is 24h0m0.000001s"},
		{"a loan of nothing", func(t *usage.Take) { t.More = math.NaN() }, "row 1: the tokens to lend is NaN"},
		{"more than can be kept", func(t *usage.Take) { t.Handed, t.Kept = true, 1e17 }, "row 1: kept is 1e+17"},
		{"more than the limit", func(t *usage.Take) { t.Handed, t.Rates = true, 1.5 }, "row 1: the part of the limit that is handed over as rates is 1.5"},
		{"told nonsense", func(t *usage.Take) { t.Told, t.By = math.NaN(), 1 }, "row 1: told is NaN"},
		{"told long ago", func(t *usage.Take) { t.Ago, t.By = rpc.MaxElapsed+time.Millisecond, 1 }, "row 1: told_ms is 24h0m0.001s"},
	} {
		t.Run(row.name, func(t *testing.T) {
			takes := sampleTakes()
			takes.Rows[4].Told = 0
			row.bend(&takes.Rows[1])
			_, err := usage.EncodeTakes(takes)
			wantRefused(t, err, row.want)
			var got usage.Takes
			wantRefused(t, usage.DecodeTakes(anyOf(t, takesMessage(takes)), &got), row.want)
			if len(got.Rows) != 0 || got.Caller != 0 {
				t.Errorf("%+v beside an error", got)
			}
		})
	}
	_, err := usage.EncodeTakes(&usage.Takes{Rows: []usage.Take{{}}})
	wantRefused(t, err, "row 0: the key has 0 bytes")
	_, err = usage.EncodeTakes(&usage.Takes{Rows: []usage.Take{{Key: "k", Ago: -1}}})
	wantRefused(t, err, "row 0: told_ms is -1ns")
	_, err = usage.EncodeTakes(&usage.Takes{Rows: []usage.Take{{Key: "k", Spent: 3}}})
	wantRefused(t, err, "row 0: the way in which tokens are spent is 3")
	var got usage.Takes
	for name, m := range map[string]*headgatepb.Takes{
		"row 0: the key has 0 bytes": {KeyLengths: []uint32{0}},
		"4097 takes":                 {Keys: []byte("k"), KeyLengths: append(make([]uint32, rpc.MaxTakes), 1)},
		"65 withdrawn":               {Withdrawn: make([]uint64, 65)},
		"settles those before 2":     {Batch: 1, Settled: 2},
		"only 1 are left":            {Keys: []byte("k"), KeyLengths: []uint32{2}},
		"1 bytes of keys":            {Keys: []byte("kk"), KeyLengths: []uint32{1}},
		"bytes of tokens":            {Keys: []byte("k"), KeyLengths: []uint32{1}, Tokens: []float64{1, 2}},
		"values of waits":            {Keys: []byte("k"), KeyLengths: []uint32{1}, Waits: []uint64{1, 2}},
		"bytes of told":              {Keys: []byte("k"), KeyLengths: []uint32{1}, Told: []float32{1, 2}},
		"values of told_ms":          {Keys: []byte("k"), KeyLengths: []uint32{1}, ToldMs: []uint32{1, 2}},
		"values of auto":             {Keys: []byte("k"), KeyLengths: []uint32{1}, Auto: []bool{true, true}},
		"bytes of told_by":           {Keys: []byte("k"), KeyLengths: []uint32{1}, ToldBy: []uint32{1, 2}},
	} {
		wantRefused(t, usage.DecodeTakes(anyOf(t, m), &got), name)
	}
	wantRefused(t, usage.DecodeTakes(nil, &got), "expected headgate.v1.Takes")
	wantRefused(t, usage.DecodeTakes(&anypb.Any{TypeUrl: claims.TypeURL}, &got), "expected headgate.v1.Takes")
}

func TestAbsurdAnswersToTakesAreRefusedByBothSides(t *testing.T) {
	for _, row := range []struct {
		name string
		bend func(t *usage.Took)
		want string
	}{
		{"undecided", func(t *usage.Took) { t.Decided = false }, "row 0"},
		{"waits too long", func(t *usage.Took) { t.Wait = rpc.MaxWait + 1 }, "row 0: the wait is 24h"},
		{"waits for nothing", func(t *usage.Took) { t.OK, t.Wait, t.Retry = false, 1, 1 }, "row 0: the wait is 1ns"},
		{"no retry", func(t *usage.Took) { t.OK = false }, "row 0: the time until asking again is 0s"},
		{"retry too late", func(t *usage.Took) { t.OK, t.Retry = false, rpc.MaxWait+1 }, "the time until asking again is 24h"},
		{"NaN is left", func(t *usage.Took) { t.Left = math.NaN() }, "row 0: what is left is NaN"},
	} {
		t.Run(row.name, func(t *testing.T) {
			taken := sampleTaken()
			row.bend(&taken.Rows[0])
			_, err := usage.EncodeTaken(taken, 5)
			wantRefused(t, err, row.want)
		})
	}
	var got usage.Taken
	for _, n := range []int{4, 6} {
		_, err := usage.EncodeTaken(sampleTaken(), n)
		wantRefused(t, err, "answer every row, in order")
		payload, err := usage.EncodeTaken(sampleTaken(), 5)
		if err != nil {
			t.Fatal(err)
		}
		wantRefused(t, usage.DecodeTaken(payload, n, &got), "answer every row, in order")
	}
	for name, m := range map[string]*headgatepb.Taken{
		"number is 0":                {Answers: []uint64{1}},
		"what is left is NaN":        {By: 1, Answers: []uint64{1}, Left: []float32{float32(math.NaN())}},
		"bytes of left":              {By: 1, Answers: []uint64{1}, Left: []float32{1, 2}},
		"the wait is 24h0m0.000001s": {By: 1, Answers: []uint64{math.MaxUint64}},
		"again is 24h0m0.000":        {By: 1, Answers: []uint64{math.MaxUint64 - 1}},
		"and not decided":            {By: 1, Answers: []uint64{0}, Left: []float32{1}},
	} {
		wantRefused(t, usage.DecodeTaken(anyOf(t, m), 1, &got), name)
		if len(got.Rows) != 0 || got.By != 0 {
			t.Errorf("%+v beside an error", got)
		}
	}
	wantRefused(t, usage.DecodeTaken(nil, 0, &got), "expected headgate.v1.Taken")
}

func FuzzTakes(f *testing.F) {
	payload, err := usage.EncodeTakes(sampleTakes())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload.Value)
	f.Add([]byte{5<<3 | 2, 1, 'k', 6<<3 | 2, 3, 1, 0, 0, 8<<3 | 2, 3, 0, 1, 2})
	f.Fuzz(func(t *testing.T, message []byte) {
		var got usage.Takes
		err := usage.DecodeTakes(&anypb.Any{TypeUrl: usage.TakesTypeURL, Value: message}, &got)
		if err != nil {
			if !errors.Is(err, rpc.ErrPayload) || len(got.Rows) != 0 {
				t.Fatalf("%v beside %v", err, got)
			}
			return
		}
		var m headgatepb.Takes
		if err := proto.Unmarshal(message, &m); err != nil {
			t.Fatalf("taken, but the generated code says %v", err)
		}
		if len(got.Rows) != len(m.GetKeyLengths()) || got.Caller != m.GetCaller() || got.Batch != m.GetBatch() || !slices.Equal(got.Withdrawn, m.GetWithdrawn()) {
			t.Fatalf("%+v, the generated code has %v", &got, &m)
		}
		for i, v := range m.GetTokens() {
			if got.Rows[i].Tokens != v {
				t.Fatalf("row %d: %+v, the generated code has %v", i, got.Rows[i], v)
			}
		}
		again, err := usage.EncodeTakes(&got)
		if err != nil {
			t.Fatalf("what was taken cannot be sent: %v", err)
		}
		var twice usage.Takes
		if err := usage.DecodeTakes(again, &twice); err != nil {
			t.Fatal(err)
		}
		sameTakes(t, &twice, &got)
	})
}

func FuzzTaken(f *testing.F) {
	payload, err := usage.EncodeTaken(sampleTaken(), 5)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload.Value, uint8(5))
	f.Fuzz(func(t *testing.T, message []byte, n uint8) {
		var got usage.Taken
		err := usage.DecodeTaken(&anypb.Any{TypeUrl: usage.TakenTypeURL, Value: message}, int(n), &got)
		if err != nil {
			if !errors.Is(err, rpc.ErrPayload) || len(got.Rows) != 0 {
				t.Fatalf("%v beside %v", err, got)
			}
			return
		}
		var m headgatepb.Taken
		if err := proto.Unmarshal(message, &m); err != nil {
			t.Fatalf("taken, but the generated code says %v", err)
		}
		again, err := usage.EncodeTaken(&got, int(n))
		if err != nil {
			t.Fatalf("what was taken cannot be sent: %v", err)
		}
		var twice usage.Taken
		if err := usage.DecodeTaken(again, int(n), &twice); err != nil || twice.By != m.GetBy() || !slices.Equal(twice.Rows, got.Rows) {
			t.Fatalf("%v: sent %+v, got %+v", err, got, twice)
		}
	})
}

func BenchmarkTakesCodec(b *testing.B) {
	for name, rows := range map[string]int{"1": 1, "64 of one key": 64} {
		b.Run(name, func(b *testing.B) {
			takes := &usage.Takes{Caller: 1, Batch: 2, Settled: 2, Rows: slices.Repeat(sampleTakes().Rows[:1], rows)}
			taken := &usage.Taken{By: 1, Rows: slices.Repeat(sampleTaken().Rows[:1], rows)}
			var in usage.Takes
			var out usage.Taken
			b.ReportAllocs()
			for b.Loop() {
				payload, err := usage.EncodeTakes(takes)
				if err == nil {
					err = usage.DecodeTakes(payload, &in)
				}
				if err != nil {
					b.Fatal(err)
				}
				if payload, err = usage.EncodeTaken(taken, rows); err == nil {
					err = usage.DecodeTaken(payload, rows, &out)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
