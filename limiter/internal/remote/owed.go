// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"

	"github.com/headgate/headgate/limiter/internal/elsewhere"
	"github.com/headgate/headgate/limiter/stage"
)

// debts sends a Remote what it is owed, in the background.
type debts struct {
	line
	owed elsewhere.Owed
}

// Owes reports whether there is something to send to the remote. Safe for concurrent
// use.
func (d *debts) Owes() bool { return !d.owed.None() }

// waits reports whether the latest send failed less than retryEvery ago. A retryAt that is further
// ahead comes from a caller that stated a time to come, and does not count.
func (d *debts) waits(now stage.Instant) bool {
	left := stage.Instant(d.retryAt.Load()).Sub(now)
	return left > 0 && left <= retryEvery
}

// atOnce is how many Operations a sender sends before it begins anew: one that had no answer,
// and one for the rest. What callers add meanwhile does not keep a host that stops.
const atOnce = 2

// Flush sends what is owed in the background.
func (d *debts) Flush(now stage.Instant) {
	if !d.begin() {
		return
	}
	sends := d.host.Background(func() {
		failed := false
		defer func() { d.end(now, failed) }()
		for range atOnce {
			op := d.next()
			if op == nil {
				return
			}
			_, err := d.do(context.Background(), *op)
			if failed = d.heard(now, err); failed {
				return
			}
		}
	})
	if !sends {
		d.owed.End()
	}
}

// begin reports whether something is owed, and lets the caller send it until end.
func (d *debts) begin() bool { return !d.owed.None() && d.owed.Begin() }

// next is the Operation to send; nil if there is none.
func (d *debts) next() *stage.Operation { return d.owed.Next(d.Key(), d.Terms().Rule) }

// heard notes how the Operation to send ended, and whether it is to be sent again later.
func (d *debts) heard(now stage.Instant, err error) (failed bool) {
	if err != nil && !errors.Is(err, stage.ErrNonsense) {
		d.failed(now, err, false)
		return true
	}
	if d.owed.Done(); err == nil {
		d.answers(now)
	}
	return false
}

// end ends what begin began.
func (d *debts) end(now stage.Instant, failed bool) {
	if d.owed.End(); !failed {
		d.Flush(now) // what was added when there seemed to be nothing more
	}
}
