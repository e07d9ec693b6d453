// SPDX-License-Identifier: Apache-2.0

package doorman

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

// heldFor is how long a claim's Has is said to last: claims do not say, but it
// is there now. Servers ask only whether it has ended.
const heldFor = 10 * time.Second

// wanted is c as a server downstream says it.
func wanted(c *claims.Claim, now time.Time) *doormanpb.ServerCapacityResourceRequest {
	r := &doormanpb.ServerCapacityResourceRequest{ResourceId: new(c.Key)}
	if c.Has > 0 && !c.Release {
		r.Has = &doormanpb.Lease{
			ExpiryTime: new(now.Add(heldFor).Unix()), RefreshInterval: new(seconds(0)), Capacity: new(c.Has),
		}
	}
	for _, b := range bandsWanted(c) {
		r.Wants = append(r.Wants, &doormanpb.PriorityBandAggregate{
			Priority: new(b.Priority), NumClients: new(b.Clients), Wants: new(b.Wants),
		})
	}
	return r
}

// bandsWanted are at least one: Doorman divides by how many clients there are.
func bandsWanted(c *claims.Claim) []claims.Band {
	none := claims.Band{Clients: 1}
	switch {
	case c.Release:
		return []claims.Band{none}
	case c.Keep && c.Has > 0:
		keep := none
		if len(c.Bands) > 0 {
			keep.Priority, keep.Clients = c.Bands[0].Priority, c.Bands[0].Clients
		}
		keep.Wants = c.Has
		return []claims.Band{keep}
	case len(c.Bands) == 0:
		return []claims.Band{none}
	}
	return c.Bands
}

// given is what a server above answered to a claim for so many clients, checked.
func given(r *doormanpb.ServerCapacityResourceResponse, clients float64, now time.Time) (claims.Lease, error) {
	gets := r.GetGets()
	if gets == nil {
		return claims.Lease{}, errors.New("the server above answered without a lease")
	}
	if v := gets.GetCapacity(); !(v >= 0 && v <= math.MaxFloat64) {
		return claims.Lease{}, fmt.Errorf("the server above answered gets.capacity %v; it is finite and not negative", v)
	}
	lasts := until(gets.GetExpiryTime(), now)
	if lasts <= 0 {
		return claims.Lease{}, errors.New("the server above answered with a lease that has ended: compare the clocks")
	}
	return claims.Lease{
		Amount:    gets.GetCapacity(),
		Lasts:     lasts,
		Refresh:   min(wholeSeconds(gets.GetRefreshInterval()), lasts),
		Learns:    learns(r.GetAlgorithm()),
		Safe:      safe(r.GetSafeCapacity(), clients),
		Algorithm: nameOf(r.GetAlgorithm().GetKind()),
	}, nil
}

// unlimited is the safe capacity of a client that may do what it wants.
const unlimited = -1

// safe is what so many clients may use together when their leases have ended. Doorman
// says what each of them may. A safe capacity that makes no sense is none: it is no
// reason to refuse the lease beside it.
func safe(each, clients float64) float64 {
	switch {
	case each == unlimited:
		return rpc.MaxAmount
	case each > 0:
		return min(each*max(clients, 1), rpc.MaxAmount)
	}
	return 0
}

// learns is how long a new master learns: as long as leases last, unless it says.
func learns(a *doormanpb.Algorithm) time.Duration {
	if a == nil || a.LearningModeDuration == nil {
		return wholeSeconds(a.GetLeaseLength())
	}
	return wholeSeconds(a.GetLearningModeDuration())
}

// until is how long after now an expiry is, at most rpc.MaxLease.
func until(expiry int64, now time.Time) time.Duration {
	if expiry-now.Unix() > int64(rpc.MaxLease/time.Second) && expiry > 0 {
		return rpc.MaxLease
	}
	if expiry <= now.Unix() {
		return 0
	}
	return min(time.Unix(expiry, 0).Sub(now), rpc.MaxLease)
}

// wholeSeconds is n seconds, in [0, rpc.MaxLease].
func wholeSeconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), int64(rpc.MaxLease/time.Second))) * time.Second
}

func nameOf(kind doormanpb.Algorithm_Kind) string {
	switch kind {
	case doormanpb.Algorithm_STATIC:
		return "static"
	case doormanpb.Algorithm_PROPORTIONAL_SHARE:
		return "proportional-share"
	case doormanpb.Algorithm_FAIR_SHARE:
		return "fair-share"
	}
	return "none"
}
