// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/limiter"
)

// foreign is a Limiter as a service might have one: an x/time/rate Limiter
// that knows nothing of Steppers.
type foreign struct{ *rate.Limiter }

var _ limiter.Limiter = foreign{}

func newForeign(limit rate.Limit, burst int) foreign {
	return foreign{rate.NewLimiter(limit, burst)}
}

func (f foreign) Reserve() limiter.Reservation { return f.ReserveN(time.Now(), 1) }

func (f foreign) ReserveN(t time.Time, n int) limiter.Reservation {
	return foreignReservation{f.Limiter.ReserveN(t, n)}
}

func (f foreign) Try() limiter.Reservation { return f.TryN(time.Now(), 1) }

func (f foreign) TryN(t time.Time, n int) limiter.Reservation {
	r := f.Limiter.ReserveN(t, n)
	if r.OK() && r.DelayFrom(t) > 0 {
		r.CancelAt(t)
		r = rate.NewLimiter(0, 0).ReserveN(t, 1) // not OK
	}
	return foreignReservation{r}
}

func (f foreign) WaitN(ctx context.Context, n int) error { return f.Limiter.WaitN(ctx, n) }

func (f foreign) TryAcquire(n int) (func(), bool) { return func() {}, f.AllowN(time.Now(), n) }

func (f foreign) Acquire(ctx context.Context, n int, _ ...limiter.AcquireOption) (func(), error) {
	return func() {}, f.WaitN(ctx, n)
}

func (f foreign) SetDemand(float64) {}

func (f foreign) Charge(n int) { f.Limiter.ReserveN(time.Now(), n) }

type foreignReservation struct{ *rate.Reservation }

func (r foreignReservation) Used(used bool) {
	if !used {
		r.Cancel()
	}
}
