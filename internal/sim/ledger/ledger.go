// SPDX-License-Identifier: Apache-2.0

// Package ledger keeps what each host decided, from four sides that must agree. It does not
// compare them. It does not know what decided.
package ledger

import (
	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// Ledger has what each host decided, from four sides that must agree.
type Ledger struct {
	// Rows are by key, in the order of Result.Keys, and host.
	Rows [][]Row
}

// Row is about one key and one host, with all processes that ran on it. All are
// costs.
type Row struct {
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

// Books fill a Ledger; nil Books do nothing.
type Books struct {
	to *Ledger
	of map[string]int // row by name of the bucket
}

// New returns the Books of to, or nil if that is nil.
func New(to *Ledger, buckets []*measure.Bucket, hosts, seconds int) *Books {
	if to == nil {
		return nil
	}
	b := &Books{to: to, of: make(map[string]int)}
	to.Rows = make([][]Row, len(buckets))
	for i, bucket := range buckets {
		b.of[bucket.Name] = i
		to.Rows[i] = make([]Row, hosts)
		for h := range to.Rows[i] {
			to.Rows[i][h].Seconds = make([]measure.Second, seconds)
		}
	}
	return b
}

// row is that of a key at a host.
func (b *Books) row(bucket string, host int) *Row { return &b.to.Rows[b.of[bucket]][host] }

// Offers counts an event that a limiter begins to decide on.
func (b *Books) Offers(bucket string, host int, cost int64) {
	if b != nil {
		b.row(bucket, host).Offered += cost
	}
}

// Loses counts an event whose process ended before it was decided.
func (b *Books) Loses(bucket string, host int, cost int64) {
	if b != nil {
		b.row(bucket, host).Lost += cost
	}
}

// Decides counts an event that was decided.
func (b *Books) Decides(bucket string, second int, d measure.Decision) {
	if b == nil {
		return
	}
	r := b.row(bucket, d.Host)
	s := &r.Seconds[second]
	s.Offered += d.Cost
	if d.Admitted {
		r.Admitted += d.Cost
		s.Admitted += d.Cost
	} else {
		r.Refused += d.Cost
	}
}

// Ends counts what the limiters of a process have counted, before they are gone.
func (b *Books) Ends(host int, group *limiter.Group, now stage.Instant) {
	if b == nil || group == nil {
		return
	}
	for key := range b.of {
		status, ok := group.InspectAt(now.Time(), key)
		if !ok || len(status.Shares) == 0 {
			continue
		}
		r, share := b.row(key, host), status.Shares[len(status.Shares)-1]
		r.Allowed += share.Allowed
		r.Rejected += share.Rejected
	}
}

// Answers counts a report whose answer the host took in.
func (b *Books) Answers(host int, r *usage.Report) {
	if b == nil {
		return
	}
	for i, key := range r.Keys {
		if _, ok := b.of[key]; ok {
			row := b.row(key, host)
			row.AnsweredAllowed += r.Allowed[i]
			row.AnsweredRejected += r.Rejected[i]
		}
	}
}
