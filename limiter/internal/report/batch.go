// SPDX-License-Identifier: Apache-2.0

package report

import (
	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/internal/columns"
	"github.com/headgate/headgate/limiter/internal/ledger"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// Batch is what a host reports at one time about its keys of one algorithm.
type Batch struct {
	// Usage goes to the owners; row i is about Usage.Keys[i].
	Usage usage.Report

	room   columns.Columns // Usage's are their beginning
	rows   []row
	at     stage.Instant // when the report was made
	filled int           // rows before it have their wants
	early  bool
}

// row is where an answer goes, and what it settles.
type row struct {
	subject *Subject
	usage   bucket.Usage // counters at the time of the report
	tokens  float64      // at that time
	number  uint32       // which of the Subject's reports it is
	// beside is how many tokens Allowed has that the Subject did not allow: see ledger.Ledger.Charge. Below 0, it is how
	// many are missing that the Subject allowed: callers still wait for them, and a later report has them.
	beside int32
}

// charge is how many tokens the owner is charged with beside what the Subject allowed.
func (r *row) charge() int64 { return int64(max(r.beside, 0)) }

// awaited is for how many of the tokens that the Subject allowed callers still wait. The host pays for them out of its
// grants, and reports them when they have filled in. If the owner were told at once, it would take over a debt of
// any depth, of which it forgets what is deeper than charges can make.
func (r *row) awaited() int64 { return int64(max(-r.beside, 0)) }

// upTo is what the Part of r, a row of b, had counted at the time of the report.
func (b *Batch) upTo(r *row) ledger.Reading { return ledger.Reading{Usage: r.usage, At: b.at} }

// fit makes room for n rows.
func (b *Batch) fit(n int) {
	if cap(b.rows) < n {
		b.rows = append(make([]row, 0, n), b.rows...)
	}
	b.room.Fit(n)
}

// grow makes room for more rows, in steps that leave little room unused.
func (b *Batch) grow() {
	n := len(b.rows)
	b.fit(n + max(n/4, min(n, together)))
}

// finish gives Usage its columns.
func (b *Batch) finish() {
	algorithm := b.Usage.Algorithm
	clear(b.rows[len(b.rows):cap(b.rows)]) // an earlier Batch may have left pointers
	b.Usage = b.room.First(len(b.rows))
	b.Usage.Algorithm = algorithm
}

// prefetch reads from some rows, their Subjects and Parts, unless they lie side by side: see ahead. A row may
// begin in one cache line and end in the next. The result keeps the compiler from leaving that out.
//
//go:noinline
func (b *Batch) prefetch(rows []int) (sum int64) {
	if rows[len(rows)-1]-rows[0] < 4*len(rows) {
		return 0
	}
	for _, at := range rows {
		row := &b.rows[at]
		sum += int64(row.number) + read(row.subject)
		if row.subject.Part().Asking() {
			sum++
		}
	}
	return sum
}
