// SPDX-License-Identifier: Apache-2.0

package usage_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/usage"
)

// sampleUsage is what a host with n keys of 24 bytes reports on a usual day:
// 0 to 999 events each over three seconds, a few rejected on every tenth key.
func sampleUsage(n int) *usage.Report {
	u := &usage.Report{Algorithm: "elastic"}
	for i := range n {
		u.Keys = append(u.Keys, fmt.Sprintf("frontend:tenant-%08d", i))
		u.Allowed = append(u.Allowed, int64(i*7%1000))
		u.Rejected = append(u.Rejected, int64(i%10/9*40))
		u.Elapsed = append(u.Elapsed, 3*time.Second)
		u.Weight = append(u.Weight, float64(i%8)/8)
	}
	return u
}

func sampleGrants(n int) *usage.Grants {
	g := &usage.Grants{Floor: usage.FloorUnused}
	for i := range n {
		g.Weight = append(g.Weight, float64(i%8)/8)
		g.Burst = append(g.Burst, float64(i%200))
		g.Used = append(g.Used, float64(i)*1.5)
		g.Lease = append(g.Lease, 10*time.Second)
	}
	return g
}

func TestTypeURLsAreThoseOfTheGeneratedMessages(t *testing.T) {
	if got := rpc.TypeURL(&headgatepb.Usage{}); got != usage.ReportTypeURL {
		t.Errorf("usage: %q, the constant is %q", got, usage.ReportTypeURL)
	}
	if got := rpc.TypeURL(&headgatepb.Grants{}); got != usage.GrantsTypeURL {
		t.Errorf("grants: %q, the constant is %q", got, usage.GrantsTypeURL)
	}
}

func TestBytesPerKeyOnTheWire(t *testing.T) {
	const n = 10_000
	u, g := sampleUsage(n), sampleGrants(n)
	for i := range n { // as under elastic, which has the most columns
		u.Wants = append(u.Wants, float64(i)/7)
		g.Tokens = append(g.Tokens, float64(i)/3)
	}
	clear(g.Used)
	out, err := usage.Columnar{}.EncodeReport(u)
	if err != nil {
		t.Fatal(err)
	}
	if len(sampleUsage(1).Keys[0]) != 24 {
		t.Fatal("the sample's keys do not have 24 bytes")
	}
	back, err := usage.Columnar{}.EncodeGrants(g, n)
	if err != nil {
		t.Fatal(err)
	}
	perKeyOut, perKeyBack := float64(len(out.Value))/n, float64(len(back.Value))/n
	t.Logf("%.2f bytes per key out, %.2f back", perKeyOut, perKeyBack)
	if perKeyOut > 32 {
		t.Errorf("%.2f bytes per key out, at most 32", perKeyOut)
	}
	if perKeyBack > 12.01 {
		t.Errorf("%.2f bytes per key back, at most 12", perKeyBack)
	}
}

func TestAnIdleKeyCostsItsNameAndALength(t *testing.T) {
	u := sampleUsage(1000)
	clear(u.Allowed)
	clear(u.Rejected)
	clear(u.Weight)
	out, err := usage.Columnar{}.EncodeReport(u)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(out.Value) - 1000*25; got > 32 {
		t.Errorf("%d bytes besides keys and lengths; columns of zeros are to be left out", got)
	}
	g := sampleGrants(1000)
	clear(g.Weight)
	clear(g.Burst)
	clear(g.Used)
	back, err := usage.Columnar{}.EncodeGrants(g, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(back.Value); got > 8 {
		t.Errorf("%d bytes for grants without a number", got)
	}
}

func TestAWeightNeverGrowsOnTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.OneOf(
			rapid.Float64Range(0, 1),
			rapid.SampledFrom([]float64{0, 1, math.Nextafter(1, 0), 1 - 1e-9, 1.0 / 3, math.SmallestNonzeroFloat64}),
		).Draw(t, "weight")
		u := sampleUsage(1)
		u.Weight[0] = w
		got := &usage.Report{}
		usageOverTheWire(t, u, got)
		if got.Weight[0] > w || got.Weight[0] < w-w/128-1e-37 {
			t.Fatalf("%v became %v", w, got.Weight[0])
		}
		g := sampleGrants(1)
		g.Weight[0] = w
		if back := grantsOverTheWire(t, g, u); back.Weight[0] > w || back.Weight[0] < w-1e-7 {
			t.Fatalf("%v became %v", w, back.Weight[0])
		}
	})
}

func TestDurationsNeverBecomeZeroOnTheWire(t *testing.T) {
	for _, row := range []struct{ in, elapsed, lease time.Duration }{
		{time.Nanosecond, time.Millisecond, time.Millisecond},
		{1499 * time.Microsecond, time.Millisecond, time.Millisecond},
		{1500 * time.Microsecond, 2 * time.Millisecond, time.Millisecond},
		{1999 * time.Microsecond, 2 * time.Millisecond, time.Millisecond},
		{rpc.MaxLease, rpc.MaxElapsed, rpc.MaxLease},
		{rpc.MaxLease - 1, rpc.MaxElapsed, rpc.MaxLease - time.Millisecond},
	} {
		u, g := sampleUsage(2), sampleGrants(2)
		for range 2 { // first with a column, then with one value for all
			u.Elapsed[0], g.Lease[0] = row.in, row.in
			got := &usage.Report{}
			usageOverTheWire(t, u, got)
			if got.Elapsed[0] != row.elapsed {
				t.Errorf("elapsed %v became %v, want %v", row.in, got.Elapsed[0], row.elapsed)
			}
			if back := grantsOverTheWire(t, g, u); back.Lease[0] != row.lease {
				t.Errorf("lease %v became %v, want %v", row.in, back.Lease[0], row.lease)
			}
			u.Elapsed[1], g.Lease[1] = row.in, row.in
		}
	}
}

func TestNoGrantStaysNoGrant(t *testing.T) {
	u, g := sampleUsage(2), sampleGrants(2)
	g.Lease[1] = 0
	if back := grantsOverTheWire(t, g, u); back.Lease[0] != 10*time.Second || back.Lease[1] != 0 {
		t.Errorf("leases %v", back.Lease)
	}
	g.Lease[0] = 0
	if back := grantsOverTheWire(t, g, u); back.Lease[0] != 0 || back.Lease[1] != 0 {
		t.Errorf("leases %v", back.Lease)
	}
}

func TestASizeBeyondFloat32IsSentAsTheLargest(t *testing.T) {
	u, g := sampleUsage(1), sampleGrants(1)
	g.Burst[0], g.Used[0] = math.MaxFloat64, 1e300
	back := grantsOverTheWire(t, g, u)
	if back.Burst[0] != math.MaxFloat32 || back.Used[0] != math.MaxFloat32 {
		t.Errorf("burst %v, used %v", back.Burst[0], back.Used[0])
	}
}

func TestDecodingReusesMemoryAndForgetsOldKeys(t *testing.T) {
	u := &usage.Report{}
	usageOverTheWire(t, sampleUsage(1000), u)
	short, err := usage.Columnar{}.EncodeReport(sampleUsage(10))
	if err != nil {
		t.Fatal(err)
	}
	allocs := testing.AllocsPerRun(100, func() {
		if err := (usage.Columnar{}).DecodeReport(short, u); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 1 {
		t.Errorf("%v allocations for a message, want 1 (the keys)", allocs)
	}
	if u.Len() != 10 {
		t.Fatalf("%d keys", u.Len())
	}
	for i, key := range u.Keys[:cap(u.Keys)][10:] {
		if key != "" {
			t.Fatalf("row %d still holds %q", i+10, key)
		}
	}
}

func TestTheKeysDoNotAliasTheMessage(t *testing.T) {
	message, err := usage.Columnar{}.EncodeReport(sampleUsage(10))
	if err != nil {
		t.Fatal(err)
	}
	u := &usage.Report{}
	if err := (usage.Columnar{}).DecodeReport(message, u); err != nil {
		t.Fatal(err)
	}
	clear(message.Value)
	if u.Keys[9] != sampleUsage(10).Keys[9] || u.Algorithm != "elastic" {
		t.Errorf("after the message is gone: %q %q", u.Algorithm, u.Keys[9])
	}
}

func TestARefusedMessageLeavesNothing(t *testing.T) {
	u := sampleUsage(5)
	bad := sampleMessage(3)
	bad.Weights = halves(0, 0, 2)
	if err := (usage.Columnar{}).DecodeReport(anyOf(t, bad), u); err == nil {
		t.Fatal("no error")
	}
	if u.Algorithm != "" || len(u.Keys)+len(u.Allowed)+len(u.Rejected)+len(u.Elapsed)+len(u.Weight) != 0 {
		t.Errorf("left: %+v", u)
	}
}

type tb interface {
	Helper()
	Fatal(args ...any)
}

func usageOverTheWire(t tb, in, out *usage.Report) {
	t.Helper()
	payload, err := usage.Columnar{}.EncodeReport(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := (usage.Columnar{}).DecodeReport(payload, out); err != nil {
		t.Fatal(err)
	}
}

func grantsOverTheWire(t tb, g *usage.Grants, u *usage.Report) *usage.Grants {
	t.Helper()
	payload, err := usage.Columnar{}.EncodeGrants(g, u.Len())
	if err != nil {
		t.Fatal(err)
	}
	back, err := usage.Columnar{}.DecodeGrants(payload, u)
	if err != nil {
		t.Fatal(err)
	}
	return back
}

func anyOf(t tb, m proto.Message) *anypb.Any {
	t.Helper()
	payload, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

// sampleMessage is sampleUsage as the generated message.
func sampleMessage(n int) *headgatepb.Usage {
	u := sampleUsage(n)
	m := &headgatepb.Usage{Algorithm: u.Algorithm, ElapsedMs: 3000, Keys: []byte(strings.Join(u.Keys, ""))}
	for i := range n {
		m.KeyLengths = append(m.KeyLengths, uint32(len(u.Keys[i])))
		m.Allowed = append(m.Allowed, uint64(u.Allowed[i]))
		m.Rejected = append(m.Rejected, uint64(u.Rejected[i]))
		m.Weights = append(m.Weights, halves(float32(u.Weight[i]))...)
	}
	return m
}

// halves are the upper halves of values, as columns of two bytes have them.
func halves(values ...float32) (column []byte) {
	for _, v := range values {
		column = binary.LittleEndian.AppendUint16(column, uint16(math.Float32bits(v)>>16))
	}
	return column
}

// half is row i of such a column.
func half(column []byte, i int) float64 {
	return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(column[2*i:])) << 16))
}

func TestWantsKeepEightBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.OneOf(rapid.Float64Range(0, 1e12), rapid.SampledFrom([]float64{0, 1, 511, 512, 513, 1e300, math.MaxFloat64, math.SmallestNonzeroFloat64})).Draw(t, "wants")
		u := sampleUsage(1)
		u.Wants = []float64{w}
		got := &usage.Report{}
		usageOverTheWire(t, u, got)
		if w = math.Min(w, math.MaxFloat32); math.Abs(got.Wants[0]-w) > w/256 && w > 1e-30 {
			t.Fatalf("%v became %v", w, got.Wants[0])
		}
	})
}
