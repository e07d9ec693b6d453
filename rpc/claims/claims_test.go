// SPDX-License-Identifier: Apache-2.0

package claims_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/usage"
)

func sampleClaims() *claims.Claims {
	return &claims.Claims{Rows: []claims.Claim{
		{Key: "db:orders", Host: "a", Has: 10.5, Bands: []claims.Band{{Priority: 0, Clients: 1, Wants: 20}}},
		{Key: "db:orders", Host: "b", Bands: []claims.Band{{Priority: 7, Clients: 3, Wants: 0.25}, {Priority: -1, Clients: 1 << 53, Wants: 1 << 53}}},
		{Key: "db:\xff", Host: "\xfe", Has: 3, Keep: true},
		{Key: "k", Host: "a", Release: true},
		{Key: "k", Host: "eu-west", Bands: []claims.Band{{Clients: 3, Wants: 9}}, Headroom: true},
	}}
}

func sampleLeases() *claims.Leases {
	return &claims.Leases{Rows: []claims.Lease{
		{Amount: 9.75, Lasts: time.Minute, Refresh: 8 * time.Second, Learns: time.Minute, Safe: 4, Algorithm: "fair-share", Learning: true},
		{Amount: 5, Lasts: time.Second, Refresh: time.Second, Unknown: true},
		{Refused: "no room for another key"},
		{},
	}}
}

func TestClaimsTravel(t *testing.T) {
	payload, err := claims.Encode(sampleClaims())
	if err != nil {
		t.Fatal(err)
	}
	got, err := claims.Decode(payload)
	if err != nil {
		t.Fatal(err)
	}
	sameClaims(t, got, sampleClaims())

	payload, err = claims.EncodeLeases(sampleLeases(), 4)
	if err != nil {
		t.Fatal(err)
	}
	leases, err := claims.DecodeLeases(payload, 4)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(leases.Rows, sampleLeases().Rows) {
		t.Errorf("sent %+v\ngot  %+v", sampleLeases(), leases)
	}
}

func sameClaims(t tb, got, want *claims.Claims) {
	t.Helper()
	same := slices.EqualFunc(got.Rows, want.Rows, func(a, b claims.Claim) bool {
		return a.Key == b.Key && a.Host == b.Host && a.Has == b.Has && a.Keep == b.Keep && a.Release == b.Release && a.Headroom == b.Headroom && slices.Equal(a.Bands, b.Bands)
	})
	if !same {
		t.Fatal(fmt.Sprintf("got  %+v\nwant %+v", got, want))
	}
}

// A short lease does not become one that never ends, or none at all.
func TestDurationsOfLeasesRoundDown(t *testing.T) {
	sent := &claims.Leases{Rows: []claims.Lease{{Amount: 1, Lasts: 1, Refresh: 1}, {Amount: 1, Lasts: 1999 * time.Microsecond, Refresh: 1500 * time.Microsecond}}}
	payload, err := claims.EncodeLeases(sent, 2)
	if err != nil {
		t.Fatal(err)
	}
	got, err := claims.DecodeLeases(payload, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range got.Rows {
		if l.Lasts != time.Millisecond || l.Refresh != time.Millisecond {
			t.Errorf("row %d: %v, %v", i, l.Lasts, l.Refresh)
		}
	}
}

func TestAbsurdClaimsAreRefusedByBothSides(t *testing.T) {
	for _, row := range []struct {
		name string
		bend func(c *claims.Claim)
		want string
	}{
		{"no key", func(c *claims.Claim) { c.Key = "" }, "row 1: the key has 0 bytes"},
		{"long key", func(c *claims.Claim) { c.Key = strings.Repeat("k", 1025) }, "row 1: the key has 1025 bytes"},
		{"no host", func(c *claims.Claim) { c.Host = "" }, "row 1: the host's name has 0 bytes"},
		{"long host", func(c *claims.Claim) { c.Host = strings.Repeat("h", 1025) }, "row 1: the host's name has 1025 bytes"},
		{"has NaN", func(c *claims.Claim) { c.Has = math.NaN() }, "row 1: has is NaN"},
		{"has negative", func(c *claims.Claim) { c.Has = -math.SmallestNonzeroFloat64 }, "row 1: has is -5e-324"},
		{"has infinite", func(c *claims.Claim) { c.Has = math.Inf(1) }, "row 1: has is +Inf"},
		{"has beyond reason", func(c *claims.Claim) { c.Has = math.Nextafter(1<<53, math.Inf(1)) }, "row 1: has is 9.007199254740994e+15"},
		{"wants NaN", func(c *claims.Claim) { c.Bands[1].Wants = math.NaN() }, "row 1: the amount that a band wants is NaN"},
		{"wants negative", func(c *claims.Claim) { c.Bands[0].Wants = -1 }, "row 1: the amount that a band wants is -1"},
		{"wants infinite", func(c *claims.Claim) { c.Bands[0].Wants = math.Inf(1) }, "row 1: the amount that a band wants is +Inf"},
		{"wants beyond reason", func(c *claims.Claim) { c.Bands[0].Wants = 1e300 }, "row 1: the amount that a band wants is 1e+300"},
		{"nobody wants", func(c *claims.Claim) { c.Bands[0].Clients = 0 }, "row 1: a band of 0 clients"},
		{"too many want", func(c *claims.Claim) { c.Bands[0].Clients = 1<<53 + 1 }, "row 1: a band of 9007199254740993 clients"},
		{"too many bands", func(c *claims.Claim) { c.Bands = slices.Repeat(c.Bands[:1], rpc.MaxBands+1) }, "bands"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := sampleClaims()
			row.bend(&c.Rows[1])
			_, err := claims.Encode(c)
			wantRefused(t, err, row.want)
			got, err := claims.Decode(anyOf(t, claimsMessage(c)))
			wantRefused(t, err, row.want)
			if got != nil {
				t.Error("claims beside an error")
			}
		})
	}
	many := &claims.Claims{Rows: slices.Repeat(sampleClaims().Rows[:1], rpc.MaxKeys+1)}
	_, err := claims.Encode(many)
	wantRefused(t, err, "65537 claims")
	_, err = claims.Decode(anyOf(t, claimsMessage(many)))
	wantRefused(t, err, "65537 claims")
	negative := claimsMessage(sampleClaims())
	negative.Rows[0].Bands[0].Clients = math.MaxUint64 // -1 as an int64
	_, err = claims.Decode(anyOf(t, negative))
	wantRefused(t, err, "row 0: a band of 9007199254740993 clients")
}

func TestAbsurdLeasesAreRefusedByBothSides(t *testing.T) {
	for _, row := range []struct {
		name string
		bend func(l *claims.Lease)
		want string
	}{
		{"amount NaN", func(l *claims.Lease) { l.Amount = math.NaN() }, "row 1: the amount is NaN"},
		{"amount negative", func(l *claims.Lease) { l.Amount = -35 }, "row 1: the amount is -35"},
		{"amount infinite", func(l *claims.Lease) { l.Amount = math.Inf(1) }, "row 1: the amount is +Inf"},
		{"safe NaN", func(l *claims.Lease) { l.Safe = math.NaN() }, "the safe amount is NaN"},
		{"safe negative", func(l *claims.Lease) { l.Safe = -1 }, "the safe amount is -1"},
		{"for ever", func(l *claims.Lease) { l.Lasts, l.Refresh = 0, 0 }, "row 1: 5 for ever"},
		{"two days", func(l *claims.Lease) { l.Lasts = 48 * time.Hour }, "row 1: the lease is"},
		{"refresh after its end", func(l *claims.Lease) { l.Refresh = l.Lasts + time.Second }, "row 1: the time until refresh is 2s"},
		{"learns for two days", func(l *claims.Lease) { l.Learns = 48 * time.Hour }, "row 1: the time to learn is"},
		{"long algorithm", func(l *claims.Lease) { l.Algorithm = strings.Repeat("a", 129) }, "row 1: the algorithm's name has 129 bytes"},
		{"long reason", func(l *claims.Lease) { l.Refused = strings.Repeat("a", 257) }, "row 1: the reason has 257 bytes"},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := sampleLeases()
			row.bend(&l.Rows[1])
			_, err := claims.EncodeLeases(l, 4)
			wantRefused(t, err, row.want)
			got, err := claims.DecodeLeases(anyOf(t, leasesMessage(l)), 4)
			wantRefused(t, err, row.want)
			if got != nil {
				t.Error("leases beside an error")
			}
		})
	}
	negative := sampleLeases()
	negative.Rows[0].Lasts = -time.Second
	_, err := claims.EncodeLeases(negative, 4)
	wantRefused(t, err, "row 0: the lease is -1s")
	text := sampleLeases()
	text.Rows[2].Refused = "\xff"
	_, err = claims.EncodeLeases(text, 4)
	wantRefused(t, err, "row 2: text that is not valid UTF-8")
	for _, n := range []int{0, 3, 5} {
		_, err = claims.EncodeLeases(sampleLeases(), n)
		wantRefused(t, err, "answer every row, in order")
		_, err = claims.DecodeLeases(anyOf(t, leasesMessage(sampleLeases())), n)
		wantRefused(t, err, "answer every row, in order")
	}
}

func TestClaimsAreNotTakenForLeases(t *testing.T) {
	payload, err := claims.Encode(sampleClaims())
	if err != nil {
		t.Fatal(err)
	}
	_, err = claims.DecodeLeases(payload, 4)
	wantRefused(t, err, "expected headgate.v1.Leases")
	_, err = claims.Decode(&anypb.Any{TypeUrl: usage.ReportTypeURL})
	wantRefused(t, err, "expected headgate.v1.Claims")
	_, err = claims.Decode(nil)
	wantRefused(t, err, "expected headgate.v1.Claims")
}

// claimsMessage and leasesMessage are the generated messages, which are the
// dumb version that the codec is checked by.

func claimsMessage(c *claims.Claims) *headgatepb.Claims {
	m := &headgatepb.Claims{}
	for _, row := range c.Rows {
		to := &headgatepb.Claim{Key: []byte(row.Key), Host: []byte(row.Host), Has: row.Has, Keep: row.Keep, Release: row.Release, Headroom: row.Headroom}
		for _, b := range row.Bands {
			to.Bands = append(to.Bands, &headgatepb.Band{Priority: b.Priority, Clients: uint64(b.Clients), Wants: b.Wants})
		}
		m.Rows = append(m.Rows, to)
	}
	return m
}

func leasesMessage(l *claims.Leases) *headgatepb.Leases {
	m := &headgatepb.Leases{}
	for _, row := range l.Rows {
		m.Rows = append(m.Rows, &headgatepb.Lease{
			Amount: row.Amount, LastsMs: uint32(row.Lasts.Milliseconds()), RefreshMs: uint32(row.Refresh.Milliseconds()), LearnsMs: uint32(row.Learns.Milliseconds()),
			Safe: row.Safe, Algorithm: row.Algorithm, Learning: row.Learning, Unknown: row.Unknown, Refused: row.Refused,
		})
	}
	return m
}
