// SPDX-License-Identifier: Apache-2.0

package share

import (
	"sync/atomic"

	"github.com/headgate/headgate/limiter/stage"
)

// Precharge is how many tokens a remote bucket was charged with when it took over from a Rate,
// for what the Rate had given before. Callers that give back what the Rate gave make it less.
// Safe for concurrent use.
type Precharge struct {
	tokens atomic.Int64 // below 0 once callers have given back more
	refund func(now stage.Instant, n int64)
}

// AddPrecharge says that the remote bucket has been charged with n tokens more. refund gives back
// some of them.
func (x *extras) AddPrecharge(n int64, refund func(now stage.Instant, n int64)) {
	next := &Precharge{refund: refund}
	was := x.update(func(e *extra) { e.precharge = next })
	if was.precharge != nil {
		n += max(was.precharge.tokens.Swap(0), 0)
	}
	next.tokens.Add(n)
}

// refundPrecharge has the remote bucket get n tokens back, or as many of them as the precharge
// still has.
func (e *extra) refundPrecharge(now stage.Instant, n int64) {
	if e.precharge != nil {
		if n = min(n, n+e.precharge.tokens.Add(-n)); n > 0 {
			e.precharge.refund(now, n)
		}
	}
}

// LeaveRemote says that the remote bucket is not asked any more. From then on, the Rate gives tokens
// that the bucket is not charged with, so the precharge ends. a goes on counting what the
// bucket admits.
func (x *extras) LeaveRemote(a *AdmittedRemote) {
	x.update(func(e *extra) { e.remote, e.precharge = a, nil })
}

// RefillRemote says that the remote bucket is full and has forgiven its debts, so the precharge ends.
func (x *extras) RefillRemote() {
	x.update(func(e *extra) { e.precharge, e.remoteMark = nil, e.remoteMark.Reset() })
}

// SetPaired says whether a migration asks a remote bucket, too, for each event that the Rate decides from
// now on. Then callers give tokens back to both, and the Rate does not refund the precharge.
func (x *extras) SetPaired(on bool) {
	if on || x.extra().paired {
		x.update(func(e *extra) { e.paired = on })
	}
}

// paired is the Rest of a Receipt whose tokens were taken from a remote bucket, too.
type paired struct{ Rest any }

// unpaired is the Rate's own part of a Receipt. both says that a remote bucket was asked, too.
func unpaired(receipt stage.Receipt) (own stage.Receipt, both bool) {
	if of, ok := receipt.Rest.(paired); ok {
		return stage.Receipt{N: receipt.N, Rest: of.Rest}, true
	}
	return receipt, false
}
