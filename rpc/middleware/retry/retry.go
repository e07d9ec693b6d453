// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Defaults of Options.
const (
	DefaultBase     = 100 * time.Millisecond
	DefaultMax      = 10 * time.Second
	DefaultTries    = 4
	DefaultMaxAfter = time.Minute
	DefaultRatio    = 0.1
	DefaultSpare    = 10
)

// Bounds of Options.
const (
	// MaxTries is the most Tries.
	MaxTries = 100
	// MaxTime is the longest Base, Max and MaxAfter.
	MaxTime = 24 * time.Hour
	// MaxSpare is the most Spare.
	MaxSpare = 1_000_000
)

// Options is the setup of a Retrier. A field that is zero has its default.
type Options struct {
	// Base is the longest wait before the first retry, at least a microsecond.
	// It doubles with each retry.
	Base time.Duration

	// Max bounds that; at least Base. Waits that the server asks for are
	// bounded by MaxAfter.
	Max time.Duration

	// Tries is how often a call is made at most, the first time included.
	// 1: no retries.
	Tries int

	// MaxAfter: a call which may only come again later than this is given up
	// at once.
	MaxAfter time.Duration

	// Ratio is how many retries each call adds to the budget, in (0, 1].
	// Higher means more calls that get through, and more load on a service
	// that has too much.
	Ratio float64

	// Spare is how many retries the budget holds at most, and at first; at
	// least 1.
	Spare float64
}

// Retrier makes calls again that were throttled. Use New. Safe for concurrent
// use.
type Retrier struct {
	o      Options
	budget budget
}

// New returns a Retrier. The error says all that is wrong with o.
func New(o Options) (*Retrier, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Retrier{o: o, budget: budget{ratio: o.Ratio, spare: o.Spare, left: o.Spare}}, nil
}

func (o Options) withDefaults() Options {
	if o.Base == 0 {
		o.Base = DefaultBase
	}
	if o.Max == 0 {
		o.Max = max(DefaultMax, o.Base)
	}
	if o.Tries == 0 {
		o.Tries = DefaultTries
	}
	if o.MaxAfter == 0 {
		o.MaxAfter = DefaultMaxAfter
	}
	if o.Ratio == 0 {
		o.Ratio = DefaultRatio
	}
	if o.Spare == 0 {
		o.Spare = DefaultSpare
	}
	return o
}

func (o Options) validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("retry: "+format, args...)) }
	if o.Base < time.Microsecond || o.Base > MaxTime {
		wrong("a Base of %v: use a microsecond to %v", o.Base, MaxTime)
	}
	if o.Max < o.Base || o.Max > MaxTime {
		wrong("a Max of %v: use the Base, %v, to %v", o.Max, o.Base, MaxTime)
	}
	if o.Tries < 1 || o.Tries > MaxTries {
		wrong("%d Tries: use 1 to %d", o.Tries, MaxTries)
	}
	if o.MaxAfter < 0 || o.MaxAfter > MaxTime {
		wrong("a MaxAfter of %v: use up to %v", o.MaxAfter, MaxTime)
	}
	if !(o.Ratio > 0 && o.Ratio <= 1) {
		wrong("a Ratio of %v: use more than 0, up to 1", o.Ratio)
	}
	if !(o.Spare >= 1 && o.Spare <= MaxSpare) {
		wrong("a Spare of %v: use 1 to %d", o.Spare, MaxSpare)
	}
	return errors.Join(errs...)
}

// Do calls try until it is not throttled, which is what errors by After,
// Response and Pushback say; nil and all other errors end it. It returns what
// try returned last, as it was before it was marked by After. When ctx ends
// during a wait, the error is its cause too.
func (r *Retrier) Do(ctx context.Context, try func(ctx context.Context) error) error {
	r.budget.call()
	// A factor of 1 spreads evenly over [0, twice the interval]: full jitter.
	spread := backoff.ExponentialBackOff{InitialInterval: r.o.Base / 2, MaxInterval: r.o.Max / 2, Multiplier: 2, RandomizationFactor: 1}
	spread.Reset()
	for tries := 1; ; tries++ {
		err := try(ctx)
		var throttled *Throttled
		if !errors.As(err, &throttled) {
			return err
		}
		if error(throttled) == err { //nolint:errorlint // one within others stays as it is
			err = throttled.Err
		}
		if tries >= r.o.Tries || throttled.After > r.o.MaxAfter {
			return err
		}
		wait := max(throttled.After, 0) + spread.NextBackOff()
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait || !r.budget.retry() {
			return err
		}
		if stopped := sleep(ctx, wait); stopped != nil {
			return fmt.Errorf("retry: %w, after %w", stopped, err)
		}
	}
}

// sleep waits for d. The error is the cause of ctx's end, if that is before.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
