// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/internal/sim/scenario"
)

// Job is one run of many.
type Job struct {
	Scenario *scenario.Scenario
	Options  Options
}

// Sweep carries out jobs, as many at once as there are processors, and
// returns their results in the order of jobs. It calls done after each, one
// call at a time; nil is allowed. The first error, or the end of ctx, ends it.
func Sweep(ctx context.Context, jobs []Job, done func(finished int)) ([]*measure.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results, errs := make([]*measure.Result, len(jobs)), make([]error, len(jobs))
	var (
		mu             sync.Mutex // protects following fields
		next, finished int
		workers        sync.WaitGroup
	)
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1, next <= len(jobs) && ctx.Err() == nil
	}
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		workers.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				results[i], errs[i] = jobs[i].Options.Run(ctx, jobs[i].Scenario)
				if errs[i] != nil {
					cancel()
				}
				mu.Lock()
				finished++
				if done != nil {
					done(finished)
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	// What failed by itself says more than what was cancelled because of it.
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return results, nil
}
