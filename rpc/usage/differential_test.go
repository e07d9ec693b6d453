// SPDX-License-Identifier: Apache-2.0

package usage_test

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/usage"
)

// The generated messages are the dumb version that the codec is checked by.

// without is a message without a field that package rpc/questions/carried reads and checks.
func without(raw []byte, number protowire.Number) (rest []byte) {
	for all := raw; len(all) > 0; {
		is, _, n := protowire.ConsumeField(all)
		if n < 0 {
			return raw
		}
		if is != number {
			rest = append(rest, all[:n]...)
		}
		all = all[n:]
	}
	return rest
}

func drawUsage(t *rapid.T) *usage.Report {
	u := &usage.Report{Algorithm: rapid.SampledFrom([]string{"", "elastic", "größe"}).Draw(t, "algorithm")}
	counts := rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(0, 300), rapid.Int64Range(0, rpc.MaxCount))
	elapsed := rapid.OneOf(rapid.Just(3*time.Second), rapid.Map(rapid.Int64Range(1, int64(rpc.MaxElapsed)), func(n int64) time.Duration { return time.Duration(n) }))
	weights := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1))
	busy := rapid.Bool().Draw(t, "busy") // so that columns of zeros are common
	for range rapid.IntRange(0, 20).Draw(t, "keys") {
		u.Keys = append(u.Keys, string(rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(t, "key")))
		u.Elapsed = append(u.Elapsed, elapsed.Draw(t, "elapsed"))
		allowed, rejected, weight := int64(0), int64(0), 0.0
		if busy {
			allowed, rejected, weight = counts.Draw(t, "allowed"), counts.Draw(t, "rejected"), weights.Draw(t, "weight")
		}
		u.Allowed, u.Rejected, u.Weight = append(u.Allowed, allowed), append(u.Rejected, rejected), append(u.Weight, weight)
	}
	if rapid.Bool().Draw(t, "states its wants") {
		u.Wants = make([]float64, u.Len())
		for i := range u.Wants {
			u.Wants[i] = weights.Draw(t, "wants") * 1e6
		}
		u.Cost = u.Wants
	}
	if rapid.Bool().Draw(t, "slots") {
		u.Slots = rapid.SliceOfN(counts, u.Len(), u.Len()).Draw(t, "slots of each")
	}
	return u
}

func TestUsageIsWhatTheGeneratedMessageWouldWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := drawUsage(t)
		payload, err := usage.Columnar{}.EncodeReport(u)
		if err != nil {
			t.Fatal(err)
		}
		var m headgatepb.Usage
		if err := payload.UnmarshalTo(&m); err != nil {
			t.Fatal(err)
		}
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(&m)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again, payload.Value) {
			t.Errorf("wrote       % x\ngenerated % x", payload.Value, again)
		}
		got := &usage.Report{}
		if err := (usage.Columnar{}).DecodeReport(payload, got); err != nil {
			t.Fatal(err)
		}
		sameUsage(t, got, &m)
		if got.Algorithm != u.Algorithm || !slices.Equal(got.Keys, u.Keys) || !slices.Equal(got.Allowed, u.Allowed) || !slices.Equal(got.Rejected, u.Rejected) || got.Slots != nil && !slices.Equal(got.Slots, u.Slots) {
			t.Errorf("sent %+v\ngot  %+v", u, got)
		}
		for i := range u.Keys {
			if diff := (got.Elapsed[i] - u.Elapsed[i]).Abs(); diff > time.Millisecond || diff > time.Millisecond/2 && got.Elapsed[i] != time.Millisecond {
				t.Errorf("elapsed %v became %v", u.Elapsed[i], got.Elapsed[i])
			}
		}
	})
}

func TestGrantsAreWhatTheGeneratedMessageWouldWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1e9), rapid.Float64Min(0))
		leases := rapid.OneOf(rapid.Just(time.Duration(0)), rapid.Just(10*time.Second), rapid.Map(rapid.Int64Range(0, int64(rpc.MaxLease)), func(n int64) time.Duration { return time.Duration(n) }))
		g := &usage.Grants{Floor: usage.Floor(rapid.IntRange(0, 3).Draw(t, "floor"))}
		n := rapid.IntRange(0, 20).Draw(t, "keys")
		for range n {
			g.Weight = append(g.Weight, rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1)).Draw(t, "weight"))
			g.Burst = append(g.Burst, math.Min(sizes.Draw(t, "burst"), math.MaxFloat64))
			g.Used = append(g.Used, math.Min(sizes.Draw(t, "used"), math.MaxFloat64))
			g.Lease = append(g.Lease, leases.Draw(t, "lease"))
		}
		if rapid.Bool().Draw(t, "sets tokens") {
			for range n {
				g.Tokens = append(g.Tokens, math.Min(sizes.Draw(t, "tokens"), math.MaxFloat64))
			}
		}
		if rapid.Bool().Draw(t, "by an edge") {
			for i, lease := range g.Lease {
				if lease == 0 && rapid.Bool().Draw(t, "unanswered") {
					g.Unanswered = append(g.Unanswered, i)
				}
			}
		}
		payload, err := usage.Columnar{}.EncodeGrants(g, n)
		if err != nil {
			t.Fatal(err)
		}
		var m headgatepb.Grants
		if err := payload.UnmarshalTo(&m); err != nil {
			t.Fatal(err)
		}
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(&m)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again, payload.Value) {
			t.Errorf("wrote       % x\ngenerated % x", payload.Value, again)
		}
		got, err := usage.Columnar{}.DecodeGrants(payload, sampleUsage(n))
		if err != nil {
			t.Fatal(err)
		}
		sameGrants(t, got, &m, n)
		for i := range n {
			if got.Lease[i] > g.Lease[i] && got.Lease[i] != time.Millisecond {
				t.Errorf("lease %v became %v", g.Lease[i], got.Lease[i])
			}
		}
	})
}

func TestColumnsInPiecesAreRead(t *testing.T) {
	// Other writers may cut a column up, leave it unpacked, and put in fields
	// that this release does not know.
	var b []byte
	unpacked := func(number protowire.Number, v uint64) {
		b = protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), v)
	}
	unpacked(5, 300)
	unpacked(4, 1)
	b = protowire.AppendBytes(protowire.AppendTag(b, 99, protowire.BytesType), []byte("from the future"))
	b = protowire.AppendBytes(protowire.AppendTag(b, 4, protowire.BytesType), []byte{2, 1})
	unpacked(2, 1000)
	unpacked(5, 0)
	unpacked(5, 70000)
	b = protowire.AppendFixed32(protowire.AppendTag(b, 10, protowire.Fixed32Type), math.Float32bits(0.5))
	b = protowire.AppendBytes(protowire.AppendTag(b, 10, protowire.BytesType), make([]byte, 8))
	b = protowire.AppendBytes(protowire.AppendTag(b, 3, protowire.BytesType), []byte("abcd"))
	b = protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), []byte("not a number"))

	payload := &anypb.Any{TypeUrl: usage.ReportTypeURL, Value: b}
	u := &usage.Report{}
	if err := (usage.Columnar{}).DecodeReport(payload, u); err != nil {
		t.Fatal(err)
	}
	var m headgatepb.Usage
	if err := payload.UnmarshalTo(&m); err != nil {
		t.Fatal(err)
	}
	sameUsage(t, u, &m)
	if want := []string{"a", "bc", "d"}; !slices.Equal(u.Keys, want) {
		t.Errorf("keys %q, want %q", u.Keys, want)
	}
	if want := []int64{300, 0, 70000}; !slices.Equal(u.Allowed, want) {
		t.Errorf("allowed %v, want %v", u.Allowed, want)
	}
	if want := []float64{0.5, 0, 0}; !slices.Equal(u.Cost, want) {
		t.Errorf("costs %v, want %v", u.Cost, want)
	}
}

// FuzzUsage: nothing makes the decoder panic, what it refuses is an
// ErrPayload, and what it takes is what the generated message says.
func FuzzUsage(f *testing.F) {
	for _, n := range []int{0, 1, 3} {
		raw, err := proto.Marshal(sampleMessage(n))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		payload := &anypb.Any{TypeUrl: usage.ReportTypeURL, Value: raw}
		u := &usage.Report{}
		if err := (usage.Columnar{}).DecodeReport(payload, u); err != nil {
			if !errors.Is(err, rpc.ErrPayload) {
				t.Fatalf("%v is not an ErrPayload", err)
			}
			return
		}
		if err := u.Check(); err != nil {
			t.Fatalf("took what it would not send: %v", err)
		}
		var m headgatepb.Usage
		if err := proto.Unmarshal(without(raw, 13), &m); err != nil {
			t.Fatalf("took what the generated message refuses: %v", err)
		}
		sameUsage(t, u, &m)
		again := &usage.Report{}
		usageOverTheWire(t, u, again)
		if !slices.Equal(again.Keys, u.Keys) || !slices.Equal(again.Weight, u.Weight) || !slices.Equal(again.Elapsed, u.Elapsed) {
			t.Fatalf("read %+v\nsent %+v", u, again)
		}
	})
}

// FuzzGrants is FuzzUsage the other way.
func FuzzGrants(f *testing.F) {
	raw, err := proto.Marshal(&headgatepb.Grants{Weights: []float32{0, 1}, Bursts: []float32{1, 2}, Used: []float32{3, 4}, LeaseMsEach: []uint32{1, 2}, Floor: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw, 2)
	f.Add([]byte{}, 0)
	f.Add([]byte{0x20, 0x0a}, 5)
	f.Fuzz(func(t *testing.T, raw []byte, n int) {
		if n < 0 || n > 1000 {
			return
		}
		u := sampleUsage(n)
		g, err := usage.Columnar{}.DecodeGrants(&anypb.Any{TypeUrl: usage.GrantsTypeURL, Value: raw}, u)
		if err != nil {
			if !errors.Is(err, rpc.ErrPayload) {
				t.Fatalf("%v is not an ErrPayload", err)
			}
			return
		}
		if err := g.Check(n); err != nil {
			t.Fatalf("took what it would not send: %v", err)
		}
		var m headgatepb.Grants
		if err := proto.Unmarshal(without(raw, 9), &m); err != nil {
			t.Fatalf("took what the generated message refuses: %v", err)
		}
		sameGrants(t, g, &m, n)
		again := grantsOverTheWire(t, g, u)
		if !slices.Equal(again.Weight, g.Weight) || !slices.Equal(again.Lease, g.Lease) || again.Floor != g.Floor {
			t.Fatalf("read %+v\nsent %+v", g, again)
		}
	})
}

type reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

// sameUsage compares u to m, field by field and in the plainest way.
func sameUsage(t reporter, u *usage.Report, m *headgatepb.Usage) {
	t.Helper()
	if u.Algorithm != m.GetAlgorithm() || u.Len() != len(m.GetKeyLengths()) {
		t.Errorf("%q and %d keys, want %q and %d", u.Algorithm, u.Len(), m.GetAlgorithm(), len(m.GetKeyLengths()))
		return
	}
	keys := m.GetKeys()
	for i, length := range m.GetKeyLengths() {
		want := string(keys[:length])
		keys = keys[length:]
		elapsed := orZero(m.GetElapsedMsEach(), i)
		if len(m.GetElapsedMsEach()) == 0 {
			elapsed = m.GetElapsedMs()
		}
		if u.Keys[i] != want ||
			u.Allowed[i] != int64(orZero(m.GetAllowed(), i)) ||
			u.Rejected[i] != int64(orZero(m.GetRejected(), i)) ||
			(len(m.GetWeights()) == 0 && u.Weight[i] != 0) || len(m.GetWeights()) > 0 && u.Weight[i] != half(m.GetWeights(), i) ||
			u.Elapsed[i] != time.Duration(elapsed)*time.Millisecond ||
			(u.Wants != nil) != (len(m.GetWants()) > 0) || u.Wants != nil && u.Wants[i] != half(m.GetWants(), i) ||
			(u.Cost != nil) != (len(m.GetCosts()) > 0) || u.Cost != nil && u.Cost[i] != float64(m.GetCosts()[i]) ||
			(u.Slots != nil) != (len(m.GetSlots()) > 0) || u.Slots != nil && u.Slots[i] != int64(m.GetSlots()[i]) {
			t.Errorf("row %d: %q %d %d %v %v of %v", i, u.Keys[i], u.Allowed[i], u.Rejected[i], u.Weight[i], u.Elapsed[i], m)
		}
	}
}

func sameGrants(t reporter, g *usage.Grants, m *headgatepb.Grants, n int) {
	t.Helper()
	if uint32(g.Floor) != m.GetFloor() || len(g.Weight) != n {
		t.Errorf("floor %d and %d rows, want %d and %d", g.Floor, len(g.Weight), m.GetFloor(), n)
		return
	}
	if len(g.Unanswered) != len(m.GetUnanswered()) {
		t.Errorf("unanswered: %v, want %v", g.Unanswered, m.GetUnanswered())
	}
	for i, row := range g.Unanswered {
		if uint32(row) != m.GetUnanswered()[i] {
			t.Errorf("unanswered: %v, want %v", g.Unanswered, m.GetUnanswered())
		}
	}
	for i := range n {
		lease := orZero(m.GetLeaseMsEach(), i)
		if len(m.GetLeaseMsEach()) == 0 {
			lease = m.GetLeaseMs()
		}
		if g.Weight[i] != float64(orZero(m.GetWeights(), i)) ||
			g.Burst[i] != float64(orZero(m.GetBursts(), i)) ||
			g.Used[i] != float64(orZero(m.GetUsed(), i)) ||
			g.Lease[i] != time.Duration(lease)*time.Millisecond ||
			(g.Tokens != nil) != (len(m.GetTokens()) > 0) || g.Tokens != nil && g.Tokens[i] != float64(m.GetTokens()[i]) {
			t.Errorf("row %d: %v %v %v %v of %v", i, g.Weight[i], g.Burst[i], g.Used[i], g.Lease[i], m)
		}
	}
}

// orZero is row i of a column that may have been left out.
func orZero[T any](column []T, i int) (v T) {
	if len(column) == 0 {
		return v
	}
	return column[i]
}
