// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/usage"
)

// start is what Steps count time from.
var start = time.Now()

var _ rpc.Decider = (*Aggregator)(nil)

// scratch is the memory of one call.
type scratch struct {
	usage  usage.Report
	grants usage.Grants
	takes  usage.Takes
	taken  usage.Taken
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// Update implements rpc.Decider for the built-in payloads, usage.ReportTypeURL,
// claims.TypeURL and usage.TakesTypeURL.
func (a *Aggregator) Update(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	if err := a.admit(ctx, host, "message"); err != nil {
		return nil, err
	}
	name := rpc.MessageName(payload.GetTypeUrl())
	if name == rpc.MessageName(usage.TakesTypeURL) { // it may be one that was answered before
		return a.StepTakes(ctx, Now(), host, payload)
	}
	if err := a.stays(); err != nil {
		return nil, err
	}
	if name == rpc.MessageName(claims.TypeURL) {
		return a.claims(host, payload)
	}
	s := scratches.Get().(*scratch) //nolint:errcheck // nothing else is put there
	defer scratches.Put(s)

	if err := (usage.Columnar{}).DecodeReport(payload, &s.usage); err != nil {
		a.refuse(Now(), host, "report", err)
		return nil, fmt.Errorf("aggregator: update from %q: %w", host, err)
	}
	a.step(Now(), host, &s.usage, &s.grants)
	return (usage.Columnar{}).EncodeGrants(&s.grants, s.usage.Len())
}

// claims is Update for claims.TypeURL.
func (a *Aggregator) claims(host string, payload *anypb.Any) (*anypb.Any, error) {
	asked, err := claims.Decode(payload)
	if err != nil {
		a.refuse(Now(), host, "claims", err)
		return nil, fmt.Errorf("aggregator: claims from %q: %w", host, err)
	}
	return claims.EncodeLeases(a.Claim(Now(), asked), len(asked.Rows))
}

// Now is the time that a's loops and calls count in, for Moved.
func Now() time.Duration { return time.Since(start) }

// lookEvery is how soon a sweep follows an interval that has become shorter.
const lookEvery = time.Second

// Run has all forget what is too old, every interval, until ctx ends.
func (o *Owners) Run(ctx context.Context, interval func() time.Duration) {
	for last := time.Now(); ; {
		select {
		case now := <-time.After(min(interval()-time.Since(last), lookEvery)):
			if now.Sub(last) < interval() {
				continue
			}
			last = now
			o.Sweep(now)
		case <-ctx.Done():
			return
		}
	}
}

// Run sweeps a once per update_interval, until ctx ends: for an Aggregator that
// is its host's only Owner.
func (a *Aggregator) Run(ctx context.Context) {
	alone := Owners{All: []Owner{a}, Log: a.log}
	alone.Run(ctx, func() time.Duration { return a.settings.Load().Accounts.Interval })
}
