// SPDX-License-Identifier: Apache-2.0

package doorman

import (
	"time"

	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

// Who is refused has nothing for a while, and asks again in it.
const (
	refusedFor     = 20 * time.Second
	refusedRefresh = 10 * time.Second
)

// answer is the lease on the wire, and the safe capacity of one client if there is
// one; the lease is for so many clients. The lease counts from now, when the claim
// was sent: it ends no later than the owner believes, by the clock of this host. Only
// a lease that ends within the current second is said to end with the second, because
// it would otherwise end before it begins.
func answer(l *claims.Lease, clients float64, now time.Time) (*doormanpb.Lease, *float64) {
	lasts, refresh := times(l)
	gets := &doormanpb.Lease{
		ExpiryTime:      new(max(now.Add(lasts).Unix(), now.Unix()+1)),
		RefreshInterval: new(seconds(refresh)),
		Capacity:        new(l.Amount),
	}
	if l.Unknown || l.Refused != "" {
		return gets, nil
	}
	return gets, new(l.Safe / max(clients, 1))
}

// times are how long the lease lasts and after how long to refresh it, or
// those of having nothing.
func times(l *claims.Lease) (lasts, refresh time.Duration) {
	if l.Lasts <= 0 {
		return refusedFor, refusedRefresh
	}
	return l.Lasts, l.Refresh
}

// seconds rounds down, but not below one.
func seconds(d time.Duration) int64 { return max(int64(d/time.Second), 1) }

// algorithmOf instructs a server downstream how to share what it got. Its leases
// end before its own does, even if it refreshes that one at the last moment;
// and each level up to the clients refreshes twice as often.
func algorithmOf(l *claims.Lease) *doormanpb.Algorithm {
	lasts, refresh := times(l)
	a := &doormanpb.Algorithm{
		Kind:            kindOf(l).Enum(),
		LeaseLength:     new(seconds(lasts - refresh)),
		RefreshInterval: new(seconds(refresh / 2)),
	}
	if l.Refused == "" { // a refused client received none
		a.LearningModeDuration = new(int64(l.Learns / time.Second))
	}
	return a
}

// kindOf is the algorithm, or the nearest that Doorman knows.
func kindOf(l *claims.Lease) doormanpb.Algorithm_Kind {
	switch {
	case l.Unknown || l.Algorithm == "none":
		return doormanpb.Algorithm_NO_ALGORITHM
	case l.Algorithm == "static":
		return doormanpb.Algorithm_STATIC
	case l.Algorithm == "fair-share":
		return doormanpb.Algorithm_FAIR_SHARE
	}
	return doormanpb.Algorithm_PROPORTIONAL_SHARE
}
