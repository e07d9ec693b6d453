// SPDX-License-Identifier: Apache-2.0

package doorman

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

// amends are the corrections of one request. A client of 2016 sends a request that
// was refused again as it is, for ever, and all its resources wait. So a number out
// of range is replaced by the nearest in range, and a resource that cannot be
// claimed is left out of the answer; the others are served.
type amends struct {
	resource         string // that is being read
	clamped, leftOut int64

	reason, about string // of the first correction, and the resource
}

func (a *amends) clamp(reason string, args ...any) {
	a.clamped++
	a.note(fmt.Sprintf(reason, args...))
}

func (a *amends) leaveOut(err error) {
	a.leftOut++
	a.note(err.Error())
}

func (a *amends) note(reason string) {
	if a.reason == "" {
		a.reason, a.about = reason, a.resource
	}
}

// amount is v, or the most that may be claimed. The error is that of v that is
// negative or not a number: no claim is near that.
func (a *amends) amount(field string, v float64) (float64, error) {
	switch {
	case !(v >= 0):
		return 0, fmt.Errorf("%s is %v; send a number in [0, 2^53]", field, v)
	case v > rpc.MaxAmount:
		a.clamp("%s is %v; 2^53 is the most", field, v)
		return rpc.MaxAmount, nil
	}
	return v, nil
}

// held is the capacity of a lease that has not ended, or 0. A capacity that is
// negative or not a number is 0 too.
func (a *amends) held(has *doormanpb.Lease, now time.Time) float64 {
	if has == nil || has.GetExpiryTime() <= now.Unix() {
		return 0
	}
	v, err := a.amount("has.capacity", has.GetCapacity())
	if err != nil {
		a.clamp("%v", err)
	}
	return v
}

// clients is n, or the nearest number of clients that a band may have.
func (a *amends) clients(n int64) int64 {
	in := min(max(n, 1), rpc.MaxCount)
	if in != n {
		a.clamp("num_clients is %d; it is in [1, 2^53]", n)
	}
	return in
}

// bands are all of them, or with the lowest in one, if there are too many.
func (a *amends) bands(all []claims.Band) []claims.Band {
	if len(all) <= rpc.MaxBands {
		return all
	}
	a.clamp("wants has %d priorities; the lowest become one, as %d are the most", len(all), rpc.MaxBands)
	slices.SortStableFunc(all, func(a, b claims.Band) int { return cmp.Compare(b.Priority, a.Priority) })
	last := &all[rpc.MaxBands-1]
	for _, b := range all[rpc.MaxBands:] {
		last.Clients = min(last.Clients+b.Clients, rpc.MaxCount)
		last.Wants = min(last.Wants+b.Wants, rpc.MaxAmount)
	}
	return all[:rpc.MaxBands]
}

// amended counts what was corrected in a request of host, and logs the first.
func (s *Server) amended(host string, a *amends) {
	s.metrics.clamped.Inc(a.clamped)
	s.metrics.leftOut.Inc(a.leftOut)
	if a.reason != "" && s.corrected.passes(s.now()) {
		s.log.Warn("a request was corrected", "host", host, "resource", fmt.Sprintf("%.100s", s.show(a.about)), "reason", a.reason, "clamped", a.clamped, "left_out", a.leftOut)
	}
}

// onceAMinute lets one log line a minute pass.
type onceAMinute struct{ last atomic.Int64 } // in seconds of now

func (o *onceAMinute) passes(at time.Time) bool {
	now, last := at.Unix(), o.last.Load()
	return (last == 0 || now < last || now-last >= 60) && o.last.CompareAndSwap(last, now)
}
