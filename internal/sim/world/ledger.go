// SPDX-License-Identifier: Apache-2.0

package world

import (
	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// Ledger has what each host decided, from four sides that must agree. Set
// Options.Ledger to fill one.
type Ledger struct {
	// Rows are by key, in the order of Result.Keys, and host.
	Rows [][]LedgerRow
}

// LedgerRow is about one key and one host, with all processes that ran on it. All are
// costs.
type LedgerRow struct {
	// Offered is what arrived at the limiter. Lost is what a process began to decide
	// and did not, because it ended.
	Offered, Lost int64

	// Admitted and Refused are what callers were told.
	Admitted, Refused int64

	// Allowed and Rejected are what the limiter itself counted.
	Allowed, Rejected int64

	// AnsweredAllowed and AnsweredRejected are what the host reported to owners that
	// answered.
	AnsweredAllowed, AnsweredRejected int64

	// Seconds are what was offered and admitted in each second.
	Seconds []measure.Second
}

// books fills a ledger; nil books do nothing.
type books struct {
	to *Ledger
	of map[string]int // row by name of the bucket
}

func newBooks(to *Ledger, buckets []*measure.Bucket, hosts, seconds int) *books {
	if to == nil {
		return nil
	}
	b := &books{to: to, of: make(map[string]int)}
	to.Rows = make([][]LedgerRow, len(buckets))
	for i, bucket := range buckets {
		b.of[bucket.Name] = i
		to.Rows[i] = make([]LedgerRow, hosts)
		for h := range to.Rows[i] {
			to.Rows[i][h].Seconds = make([]measure.Second, seconds)
		}
	}
	return b
}

// row is that of a key at a host.
func (b *books) row(bucket string, host int) *LedgerRow { return &b.to.Rows[b.of[bucket]][host] }

// offers counts an event that a limiter begins to decide on.
func (b *books) offers(k *key, h *host, cost int64) {
	if b != nil {
		b.row(k.bucket.Name, h.number).Offered += cost
	}
}

// loses counts an event whose process ended before it was decided.
func (b *books) loses(k *key, h *host, cost int64) {
	if b != nil {
		b.row(k.bucket.Name, h.number).Lost += cost
	}
}

// decides counts an event that was decided.
func (b *books) decides(k *key, second int, d measure.Decision) {
	if b == nil {
		return
	}
	r := b.row(k.bucket.Name, d.Host)
	s := &r.Seconds[second]
	s.Offered += d.Cost
	if d.Admitted {
		r.Admitted += d.Cost
		s.Admitted += d.Cost
	} else {
		r.Refused += d.Cost
	}
}

// ends counts what the limiters of a process have counted, before they are gone.
func (b *books) ends(h *host, now stage.Instant) {
	if b == nil || h.group == nil {
		return
	}
	for key := range b.of {
		status, ok := h.group.InspectAt(now.Time(), key)
		if !ok || len(status.Shares) == 0 {
			continue
		}
		r, share := b.row(key, h.number), status.Shares[len(status.Shares)-1]
		r.Allowed += share.Allowed
		r.Rejected += share.Rejected
	}
}

// answers counts a report whose answer the host took in.
func (b *books) answers(h *host, r *usage.Report) {
	if b == nil {
		return
	}
	for i, key := range r.Keys {
		if _, ok := b.of[key]; ok {
			row := b.row(key, h.number)
			row.AnsweredAllowed += r.Allowed[i]
			row.AnsweredRejected += r.Rejected[i]
		}
	}
}
