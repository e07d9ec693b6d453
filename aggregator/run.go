// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
)

// start is what Steps count time from.
var start = time.Now()

var _ rpc.Decider = (*Aggregator)(nil)

// scratch holds the columns of one call.
type scratch struct {
	usage  rpc.Usage
	grants rpc.Grants
}

var scratches sync.Pool

// Update implements rpc.Decider for the built-in payload, rpc.UsageTypeURL.
func (a *Aggregator) Update(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, ok := scratches.Get().(*scratch)
	if !ok {
		s = new(scratch)
	}
	defer scratches.Put(s)

	if err := (rpc.Columnar{}).DecodeUsage(payload, &s.usage); err != nil {
		a.metrics.refused.Inc(1)
		a.log.Warn("a host's report is refused", "host", host, "error", err)
		return nil, fmt.Errorf("aggregator: update from %q: %w", host, err)
	}
	if err := a.Step(time.Since(start), host, &s.usage, &s.grants); err != nil {
		a.log.Warn("a host's report is refused", "host", host, "error", err)
		return nil, err
	}
	return (rpc.Columnar{}).EncodeGrants(&s.grants, s.usage.Len())
}

// Run forgets what is too old, once per update_interval, until ctx ends.
func (a *Aggregator) Run(ctx context.Context) {
	for {
		timer := time.NewTimer(a.settings.Load().average.Interval)
		select {
		case <-timer.C:
			a.GC(time.Since(start))
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}
