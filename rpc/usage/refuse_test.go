// SPDX-License-Identifier: Apache-2.0

package usage_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/usage"
)

var nan32 = float32(math.NaN())

func TestDecidersRefuseAbsurdUsage(t *testing.T) {
	for _, row := range []struct {
		name string
		bend func(m *headgatepb.Usage)
		want string
	}{
		{"weight NaN", func(m *headgatepb.Usage) { m.Weights = halves(0, nan32, 0) }, "row 1: the weight is NaN"},
		{"weight Inf", func(m *headgatepb.Usage) { m.Weights = halves(0, 0, float32(math.Inf(1))) }, "row 2: the weight is +Inf"},
		{"weight negative", func(m *headgatepb.Usage) { m.Weights = halves(-0.5, 0, 0) }, "row 0: the weight is -0.5"},
		{"wants NaN", func(m *headgatepb.Usage) { m.Wants = halves(0, nan32, 0) }, "row 1: wants is NaN"},
		{"wants short of a row", func(m *headgatepb.Usage) { m.Wants = halves(0, 1) }, "4 bytes of wants for 3 rows"},
		{"weight above one", func(m *headgatepb.Usage) { m.Weights = halves(0, 1.0078125, 0) }, "row 1: the weight is 1.0078125"},
		{"allowed beyond reason", func(m *headgatepb.Usage) { m.Allowed[2] = rpc.MaxCount + 1 }, "row 2: allowed is 9007199254740993"},
		{"allowed that is negative as int64", func(m *headgatepb.Usage) { m.Allowed[2] = math.MaxUint64 }, "row 2: allowed is -1"},
		{"rejected beyond reason", func(m *headgatepb.Usage) { m.Rejected[0] = 1 << 60 }, "row 0: rejected is"},
		{"no elapsed", func(m *headgatepb.Usage) { m.ElapsedMs = 0 }, "row 0: elapsed is 0s"},
		{"elapsed of two days", func(m *headgatepb.Usage) { m.ElapsedMs = 2 * 86400 * 1000 }, "row 0: elapsed is 24h0m0.001s"},
		{"a row without elapsed", func(m *headgatepb.Usage) { m.ElapsedMsEach = []uint32{1, 0, 1} }, "row 1: elapsed is 0s"},
		{"elapsed short of a row", func(m *headgatepb.Usage) { m.ElapsedMsEach = []uint32{1, 1} }, "2 values of elapsed for 3 rows"},
		{"allowed short of a row", func(m *headgatepb.Usage) { m.Allowed = m.Allowed[:2] }, "2 values of allowed for 3 rows"},
		{"rejected with a row too many", func(m *headgatepb.Usage) { m.Rejected = append(m.Rejected, 0) }, "4 values of rejected for 3 rows"},
		{"weights short of a row", func(m *headgatepb.Usage) { m.Weights = m.Weights[:1] }, "1 bytes of weights for 3 rows"},
		{"empty key", func(m *headgatepb.Usage) { m.KeyLengths[1] = 0 }, "lengths and keys must agree"},
		{"long key", func(m *headgatepb.Usage) { m.KeyLengths[1] = 1025 }, "row 1: the key has 1025 bytes"},
		{"absurd key length", func(m *headgatepb.Usage) { m.KeyLengths[1] = math.MaxUint32 }, "row 1: the key has 4294967295 bytes"},
		{"lengths beyond the keys", func(m *headgatepb.Usage) { m.KeyLengths[2] = 25 }, "row 2: the key has 25 bytes, but only 24 are left"},
		{"lengths short of the keys", func(m *headgatepb.Usage) { m.KeyLengths[2] = 23 }, "1 bytes of keys and 0 of lengths are left"},
		{"keys without lengths", func(m *headgatepb.Usage) { *m = headgatepb.Usage{Keys: []byte("x"), ElapsedMs: 1} }, "1 bytes of keys"},
		{"too many keys", func(m *headgatepb.Usage) { m.KeyLengths = slices.Repeat([]uint32{1}, rpc.MaxKeys+1) }, "65537 keys in one message"},
		{"long name of an algorithm", func(m *headgatepb.Usage) { m.Algorithm = strings.Repeat("x", 129) }, "the algorithm's name has 129 bytes"},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := sampleMessage(3)
			row.bend(m)
			u := &usage.Report{}
			wantRefused(t, usage.Columnar{}.DecodeReport(anyOf(t, m), u), row.want)
			if u.Len() != 0 {
				t.Errorf("%d rows were taken", u.Len())
			}
		})
	}
}

func TestHostsRefuseAbsurdGrants(t *testing.T) {
	for _, row := range []struct {
		name string
		bend func(m *headgatepb.Grants)
		want string
	}{
		{"weight NaN", func(m *headgatepb.Grants) { m.Weights[0] = nan32 }, "row 0: the weight is NaN"},
		{"tokens negative", func(m *headgatepb.Grants) { m.Tokens = []float32{0, -1} }, "row 1: tokens is -1"},
		{"unanswered beyond the rows", func(m *headgatepb.Grants) { m.LeaseMs, m.Unanswered = 0, []uint32{2} }, "row 2 is unanswered"},
		{"unanswered far beyond", func(m *headgatepb.Grants) { m.LeaseMs, m.Unanswered = 0, []uint32{1 << 31} }, "row 65536 is unanswered"},
		{"unanswered twice", func(m *headgatepb.Grants) { m.LeaseMs, m.Unanswered = 0, []uint32{1, 1} }, "row 1 is unanswered after row 1"},
		{"unanswered out of order", func(m *headgatepb.Grants) { m.LeaseMs, m.Unanswered = 0, []uint32{1, 0} }, "row 0 is unanswered after row 1"},
		{"unanswered too often", func(m *headgatepb.Grants) { m.LeaseMs, m.Unanswered = 0, []uint32{0, 1, 1} }, "row 1 is unanswered after row 1 of 2"},
		{"unanswered with a lease", func(m *headgatepb.Grants) { m.Unanswered = []uint32{1} }, "row 1: unanswered, with a lease"},
		{"weight above one", func(m *headgatepb.Grants) { m.Weights[1] = 1.5 }, "row 1: the weight is 1.5"},
		{"burst Inf", func(m *headgatepb.Grants) { m.Bursts[1] = float32(math.Inf(1)) }, "row 1: the burst is +Inf"},
		{"burst negative", func(m *headgatepb.Grants) { m.Bursts[1] = -1 }, "row 1: the burst is -1"},
		{"used NaN", func(m *headgatepb.Grants) { m.Used[1] = nan32 }, "row 1: used is NaN"},
		{"used negative", func(m *headgatepb.Grants) { m.Used[1] = -3 }, "row 1: used is -3"},
		{"lease of two days", func(m *headgatepb.Grants) { m.LeaseMs = 2 * 86400 * 1000 }, "row 0: the lease is"},
		{"one lease of two days", func(m *headgatepb.Grants) { m.LeaseMsEach = []uint32{1, 2 * 86400 * 1000} }, "row 1: the lease is"},
		{"leases with a row too many", func(m *headgatepb.Grants) { m.LeaseMsEach = []uint32{1, 2, 3} }, "3 values of lease for 2 rows"},
		{"weights with a row too many", func(m *headgatepb.Grants) { m.Weights = append(m.Weights, 0) }, "12 bytes of weights for 2 rows"},
		{"bursts short of a row", func(m *headgatepb.Grants) { m.Bursts = m.Bursts[:1] }, "4 bytes of bursts for 2 rows"},
		{"used short of a row", func(m *headgatepb.Grants) { m.Used = m.Used[:1] }, "4 bytes of used for 2 rows"},
		{"unknown floor", func(m *headgatepb.Grants) { m.Floor = 4 }, "floor 4 is unknown"},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := &headgatepb.Grants{Weights: []float32{0, 1}, Bursts: []float32{1, 2}, Used: []float32{3, 4}, LeaseMs: 1000}
			row.bend(m)
			g, err := usage.Columnar{}.DecodeGrants(anyOf(t, m), sampleUsage(2))
			wantRefused(t, err, row.want)
			if g != nil {
				t.Error("grants beside an error")
			}
		})
	}
}

func TestNobodySendsWhatTheOtherSideWouldRefuse(t *testing.T) {
	for _, row := range []struct {
		bend func(u *usage.Report)
		want string
	}{
		{func(u *usage.Report) { u.Weight[1] = math.NaN() }, "row 1: the weight is NaN"},
		{func(u *usage.Report) { u.Weight[1] = math.Nextafter(1, 2) }, "row 1: the weight is 1.0000000000000002"},
		{func(u *usage.Report) { u.Weight[1] = -math.SmallestNonzeroFloat64 }, "row 1: the weight is -5e-324"},
		{func(u *usage.Report) { u.Allowed[0] = -1 }, "row 0: allowed is -1"},
		{func(u *usage.Report) { u.Allowed[1] = rpc.MaxCount + 1 }, "row 1: allowed is"},
		{func(u *usage.Report) { u.Rejected[2] = rpc.MaxCount + 1 }, "row 2: rejected is"},
		{func(u *usage.Report) { u.Rejected[2] = -1 }, "row 2: rejected is -1"},
		{func(u *usage.Report) { u.Elapsed[2] = 0 }, "row 2: elapsed is 0s"},
		{func(u *usage.Report) { u.Elapsed[2] = -1 }, "row 2: elapsed is -1ns"},
		{func(u *usage.Report) { u.Elapsed[2] = rpc.MaxElapsed + 1 }, "row 2: elapsed is"},
		{func(u *usage.Report) { u.Keys[0] = "" }, "row 0: the key has 0 bytes"},
		{func(u *usage.Report) { u.Keys[0] = strings.Repeat("k", 1025) }, "row 0: the key has 1025 bytes"},
		{func(u *usage.Report) { u.Weight = u.Weight[:2] }, "columns disagree: 3 keys, 3 allowed, 3 rejected, 3 elapsed, 2 weights"},
		{func(u *usage.Report) { *u = *sampleUsage(rpc.MaxKeys + 1) }, "65537 keys"},
	} {
		u := sampleUsage(3)
		row.bend(u)
		_, err := usage.Columnar{}.EncodeReport(u)
		wantRefused(t, err, row.want)
		wantRefused(t, u.Check(), row.want)
	}
	bad := sampleUsage(1)
	bad.Algorithm = "\xff"
	_, err := usage.Columnar{}.EncodeReport(bad)
	wantRefused(t, err, "not valid UTF-8")

	for _, row := range []struct {
		bend func(g *usage.Grants)
		want string
	}{
		{func(g *usage.Grants) { g.Weight[1] = 1.1 }, "row 1: the weight is 1.1"},
		{func(g *usage.Grants) { g.Burst[1] = math.Inf(1) }, "row 1: the burst is +Inf"},
		{func(g *usage.Grants) { g.Used[1] = math.NaN() }, "row 1: used is NaN"},
		{func(g *usage.Grants) { g.Lease[1] = -time.Second }, "row 1: the lease is -1s"},
		{func(g *usage.Grants) { g.Lease = g.Lease[:1] }, "the answer does not fit: 2 keys"},
		{func(g *usage.Grants) { g.Floor = 9 }, "floor 9 is unknown"},
	} {
		g := sampleGrants(2)
		row.bend(g)
		_, err := usage.Columnar{}.EncodeGrants(g, 2)
		wantRefused(t, err, row.want)
		wantRefused(t, g.Check(2), row.want)
	}
	wantRefused(t, (*usage.Grants)(nil).Check(2), "there is no answer")
}

func TestOnlyTheRightTypeIsRead(t *testing.T) {
	for _, payload := range []*anypb.Any{nil, {}, anyOf(t, wrapperspb.String("x")), {TypeUrl: usage.GrantsTypeURL}} {
		wantRefused(t, usage.Columnar{}.DecodeReport(payload, &usage.Report{}), "expected headgate.v1.Usage")
	}
	for _, payload := range []*anypb.Any{nil, {}, {TypeUrl: usage.ReportTypeURL}} {
		_, err := usage.Columnar{}.DecodeGrants(payload, sampleUsage(1))
		wantRefused(t, err, "expected headgate.v1.Grants")
	}
	// The sender chooses the text before the slash.
	if _, err := (usage.Columnar{}).DecodeGrants(&anypb.Any{TypeUrl: "x/headgate.v1.Grants"}, sampleUsage(1)); err != nil {
		t.Error(err)
	}
}

func wantRefused(t *testing.T, err error, want string) {
	t.Helper()
	if !errors.Is(err, rpc.ErrPayload) {
		t.Errorf("%v is not an ErrPayload", err)
		return
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("%q does not say %q", err, want)
	}
}
