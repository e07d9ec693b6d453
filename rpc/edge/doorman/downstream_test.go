// SPDX-License-Identifier: Apache-2.0

package doorman

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

// FuzzWhatServersAboveGive: what passes is within the contract of leases.
func FuzzWhatServersAboveGive(f *testing.F) {
	const now = 1_800_000_000
	for _, capacity := range []float64{0, 10, -1, math.NaN(), math.Inf(1), math.MaxFloat64, math.SmallestNonzeroFloat64} {
		for _, expiry := range []int64{now + 60, now, now - 1, 0, math.MaxInt64, math.MinInt64, now + 1<<40} {
			f.Add(capacity, 1.0, expiry, int64(5), int64(60), int64(30), int32(3))
		}
	}
	f.Add(1.0, math.NaN(), int64(now+60), int64(-5), int64(math.MinInt64), int64(math.MaxInt64), int32(-1))
	f.Add(1.0, 1.0, int64(now+2), int64(math.MaxInt64), int64(math.MaxInt64), int64(-1), int32(9))
	f.Fuzz(func(t *testing.T, capacity, safe float64, expiry, refresh, length, learning int64, kind int32) {
		r := &doormanpb.ServerCapacityResourceResponse{
			ResourceId:   new("k"),
			Gets:         &doormanpb.Lease{ExpiryTime: &expiry, RefreshInterval: &refresh, Capacity: &capacity},
			SafeCapacity: &safe,
			Algorithm:    &doormanpb.Algorithm{Kind: doormanpb.Algorithm_Kind(kind).Enum(), LeaseLength: &length, RefreshInterval: &refresh},
		}
		if learning >= 0 {
			r.Algorithm.LearningModeDuration = &learning
		}
		at := time.Unix(now, 250_000_000)
		lease, err := given(r, 3, at)
		if err != nil {
			return
		}
		if err := (&claims.Leases{Rows: []claims.Lease{lease}}).Check(1); err != nil {
			t.Error(err)
		}
		if lease.Amount != capacity || lease.Lasts <= 0 {
			t.Errorf("%+v of %v", lease, capacity)
		}
		// It ends no later than the server above believes.
		if end := at.Add(lease.Lasts); end.After(time.Unix(expiry, 0)) && expiry < now+1<<33 {
			t.Errorf("it ends at %v, after %v", end, time.Unix(expiry, 0))
		}
	})
}

func TestUpstreamKeepsFewConnections(t *testing.T) {
	u, err := NewUpstream([]string{"127.0.0.1:1", "127.0.0.1:2"}, UpstreamOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for i := range 50 {
		if _, err := u.connection(fmt.Sprint("127.0.0.1:", i%25+1)); err != nil {
			t.Fatal(err)
		}
		if len(u.conns) > 2+maxStrangers {
			t.Fatalf("%d connections", len(u.conns))
		}
	}
	kept := make(map[string]bool)
	for _, c := range u.conns {
		kept[c.address] = true
	}
	if !kept["127.0.0.1:1"] || !kept["127.0.0.1:2"] {
		t.Errorf("of its own addresses, only %v are kept", kept)
	}
}
