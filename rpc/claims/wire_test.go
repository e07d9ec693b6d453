// SPDX-License-Identifier: Apache-2.0

package claims_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/headgatepb"
)

func TestClaimsAreWhatTheGeneratedMessageWouldWrite(t *testing.T) {
	amounts := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1000), rapid.Float64Range(0, rpc.MaxAmount))
	rapid.Check(t, func(t *rapid.T) {
		c := &claims.Claims{}
		for range rapid.IntRange(0, 8).Draw(t, "rows") {
			row := claims.Claim{
				Key:     string(rapid.SliceOfN(rapid.Byte(), 1, rpc.MaxKeyLength).Draw(t, "key")),
				Host:    string(rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "host")),
				Has:     amounts.Draw(t, "has"),
				Keep:    rapid.Bool().Draw(t, "keep"),
				Release: rapid.Bool().Draw(t, "release"), Headroom: rapid.Bool().Draw(t, "headroom"),
			}
			for range rapid.IntRange(0, rapid.SampledFrom([]int{1, 5, rpc.MaxBands}).Draw(t, "most")).Draw(t, "bands") {
				row.Bands = append(row.Bands, claims.Band{
					Priority: rapid.Int64().Draw(t, "priority"), Clients: rapid.Int64Range(1, rpc.MaxCount).Draw(t, "clients"), Wants: amounts.Draw(t, "wants"),
				})
			}
			c.Rows = append(c.Rows, row)
		}
		payload, err := claims.Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		wantMessage(t, payload, claimsMessage(c))
		got, err := claims.Decode(payload)
		if err != nil {
			t.Fatal(err)
		}
		sameClaims(t, got, c)
	})
}

func TestLeasesAreWhatTheGeneratedMessageWouldWrite(t *testing.T) {
	amounts := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1000), rapid.Float64Range(0, math.MaxFloat64))
	rapid.Check(t, func(t *rapid.T) {
		l := &claims.Leases{}
		for range rapid.IntRange(0, 8).Draw(t, "rows") {
			lasts := rapid.Int64Range(0, rpc.MaxLease.Milliseconds()).Draw(t, "lasts")
			refresh := rapid.Int64Range(0, lasts).Draw(t, "refresh")
			row := claims.Lease{
				Lasts: time.Duration(lasts) * time.Millisecond, Refresh: time.Duration(refresh) * time.Millisecond,
				Learns: rapid.SampledFrom([]time.Duration{0, time.Minute, rpc.MaxLease}).Draw(t, "learns"),
				Safe:   amounts.Draw(t, "safe"), Algorithm: rapid.SampledFrom([]string{"", "fair-share", "größe"}).Draw(t, "algorithm"),
				Learning: rapid.Bool().Draw(t, "learning"), Unknown: rapid.Bool().Draw(t, "unknown"), Refused: rapid.StringN(0, 60, 200).Draw(t, "refused"),
			}
			if lasts > 0 {
				row.Amount = amounts.Draw(t, "amount")
			}
			l.Rows = append(l.Rows, row)
		}
		payload, err := claims.EncodeLeases(l, len(l.Rows))
		if err != nil {
			t.Fatal(err)
		}
		wantMessage(t, payload, leasesMessage(l))
		got, err := claims.DecodeLeases(payload, len(l.Rows))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Rows, l.Rows) {
			t.Errorf("sent %+v\ngot  %+v", l, got)
		}
	})
}

// wantMessage wants the payload to be m, byte by byte, written without growing.
func wantMessage(t tb, payload *anypb.Any, m proto.Message) {
	t.Helper()
	want, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(payload.Value, want) {
		t.Fatal(fmt.Sprintf("wrote       % x\ngenerated % x", payload.Value, want))
	}
}

func TestClaimsAreWrittenInOneAllocation(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector, which runs the short form, drops what is in pools at random")
	}
	c := &claims.Claims{Rows: slices.Repeat(sampleClaims().Rows, 100)}
	got := testing.AllocsPerRun(20, func() {
		if _, err := claims.Encode(c); err != nil {
			t.Fatal(err)
		}
	})
	if got > 2 { // the bytes, and the payload that has them
		t.Errorf("%v allocations", got)
	}
}

func FuzzClaims(f *testing.F) {
	payload, err := claims.Encode(sampleClaims())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload.Value)
	f.Add([]byte{1<<3 | 2, 0})
	f.Add([]byte{1<<3 | 2, 6, 1<<3 | 2, 1, 'k', 4<<3 | 2, 1, 1 << 3})
	f.Fuzz(func(t *testing.T, message []byte) {
		got, err := claims.Decode(&anypb.Any{TypeUrl: claims.TypeURL, Value: message})
		var m headgatepb.Claims
		if generated := proto.Unmarshal(message, &m); generated != nil && err == nil {
			t.Fatalf("taken, but the generated code says %v", generated)
		}
		if err != nil {
			if !errors.Is(err, rpc.ErrPayload) || got != nil {
				t.Fatalf("%v beside %v", err, got)
			}
			return
		}
		sameMeaning(t, got, &m)
		again, err := claims.Encode(got)
		if err != nil {
			t.Fatalf("what was taken cannot be sent: %v", err)
		}
		twice, err := claims.Decode(again)
		if err != nil {
			t.Fatal(err)
		}
		sameClaims(t, twice, got)
	})
}

// sameMeaning compares with what the generated code read.
func sameMeaning(t tb, got *claims.Claims, m *headgatepb.Claims) {
	t.Helper()
	if len(got.Rows) != len(m.GetRows()) {
		t.Fatal(len(got.Rows), "rows, the generated code has", len(m.GetRows()))
	}
	want := &claims.Claims{}
	for _, row := range m.GetRows() {
		to := claims.Claim{Key: string(row.GetKey()), Host: string(row.GetHost()), Has: row.GetHas(), Keep: row.GetKeep(), Release: row.GetRelease(), Headroom: row.GetHeadroom()}
		for _, b := range row.GetBands() {
			to.Bands = append(to.Bands, claims.Band{Priority: b.GetPriority(), Clients: int64(b.GetClients()), Wants: b.GetWants()})
		}
		want.Rows = append(want.Rows, to)
	}
	sameClaims(t, got, want)
}

func FuzzLeases(f *testing.F) {
	payload, err := claims.EncodeLeases(sampleLeases(), 4)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload.Value, uint8(4))
	f.Add([]byte{1<<3 | 2, 0}, uint8(1))
	f.Fuzz(func(t *testing.T, message []byte, n uint8) {
		got, err := claims.DecodeLeases(&anypb.Any{TypeUrl: claims.LeasesTypeURL, Value: message}, int(n))
		if err != nil {
			if !errors.Is(err, rpc.ErrPayload) || got != nil {
				t.Fatalf("%v beside %v", err, got)
			}
			return
		}
		var m headgatepb.Leases
		if err := proto.Unmarshal(message, &m); err != nil {
			t.Fatalf("taken, but the generated code says %v", err)
		}
		for i, row := range m.GetRows() {
			l := got.Rows[i]
			if l.Amount != row.GetAmount() || l.Safe != row.GetSafe() || l.Algorithm != row.GetAlgorithm() || l.Refused != row.GetRefused() ||
				l.Learning != row.GetLearning() || l.Unknown != row.GetUnknown() || l.Lasts.Milliseconds() != int64(row.GetLastsMs()) {
				t.Fatalf("row %d: %+v, the generated code has %v", i, l, row)
			}
		}
		if _, err := claims.EncodeLeases(got, int(n)); err != nil {
			t.Fatalf("what was taken cannot be sent: %v", err)
		}
	})
}

func BenchmarkClaim(b *testing.B) {
	c := &claims.Claims{Rows: sampleClaims().Rows[:1]}
	l := &claims.Leases{Rows: sampleLeases().Rows[:1]}
	b.ReportAllocs()
	for b.Loop() {
		payload, err := claims.Encode(c)
		if err == nil {
			_, err = claims.Decode(payload)
		}
		if err != nil {
			b.Fatal(err)
		}
		if payload, err = claims.EncodeLeases(l, 1); err == nil {
			_, err = claims.DecodeLeases(payload, 1)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// hundred is a message of claims of a hundred keys, in two bands each.
func hundred(t testing.TB) *anypb.Any {
	t.Helper()
	c := new(claims.Claims)
	for i := range 100 {
		bands := []claims.Band{{Clients: 1, Wants: 5}, {Priority: 1, Clients: 2, Wants: 7}}
		c.Rows = append(c.Rows, claims.Claim{Key: fmt.Sprint("db:orders-", i), Host: fmt.Sprint("worker-", i), Has: 3, Bands: bands})
	}
	payload, err := claims.Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

func BenchmarkDecode(b *testing.B) {
	payload := hundred(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := claims.Decode(payload); err != nil {
			b.Fatal(err)
		}
	}
}

// All texts are parts of one string, also of a message that is a part of a larger one.
func TestTextsOfAMessageAreOneString(t *testing.T) {
	payload := hundred(t)
	value := append(bytes.Clone(payload.Value), "more"...)[:len(payload.Value)]
	got, err := claims.Decode(&anypb.Any{TypeUrl: claims.TypeURL, Value: value})
	if err != nil || got.Rows[99].Key != "db:orders-99" || got.Rows[99].Host != "worker-99" {
		t.Errorf("%+v, %v", got, err)
	}
}

// What is read takes a bounded multiple of the message's size, whether it is refused or not.
func TestManyBandsTakeBoundedMemory(t *testing.T) {
	for _, tc := range []struct {
		name string
		row  *headgatepb.Claim
		band *headgatepb.Band
		most uint64 // MiB
	}{
		{"rows without a key, whose bands have no clients", &headgatepb.Claim{}, &headgatepb.Band{}, 4},
		{"the smallest rows and bands", &headgatepb.Claim{Key: []byte("k"), Host: []byte("h")}, &headgatepb.Band{Clients: 1}, 24},
	} {
		for range rpc.MaxBands {
			tc.row.Bands = append(tc.row.Bands, tc.band)
		}
		row, err := proto.Marshal(&headgatepb.Claims{Rows: []*headgatepb.Claim{tc.row}})
		if err != nil {
			t.Fatal(err)
		}
		payload := &anypb.Any{TypeUrl: claims.TypeURL, Value: bytes.Repeat(row, 1<<20/len(row))}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = claims.Decode(payload)
		runtime.ReadMemStats(&after)
		allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
		t.Logf("%s: %d MiB, %v", tc.name, allocated, err)
		if allocated > tc.most {
			t.Errorf("%s: a message of 1 MiB takes %d MiB to read, want at most %d", tc.name, allocated, tc.most)
		}
	}
}
