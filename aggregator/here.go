// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"cmp"
	"context"
	"fmt"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// A host asks its own Aggregator by these, without messages.
var (
	_ usage.Here  = (*Aggregator)(nil)
	_ ask.Here    = (*Aggregator)(nil)
	_ claims.Here = (*Aggregator)(nil)
)

// ReportHere implements usage.Here: it is Update for a report of this process.
func (a *Aggregator) ReportHere(ctx context.Context, host string, r *usage.Report, g *usage.Grants) error {
	if err := cmp.Or(a.admit(ctx, host, "report"), a.stays()); err != nil {
		return err
	}
	return a.Step(Now(), host, r, g)
}

// ClaimHere implements claims.Here: it is Update for claims of this process.
func (a *Aggregator) ClaimHere(ctx context.Context, host string, c *claims.Claims) (*claims.Leases, error) {
	if err := cmp.Or(a.admit(ctx, host, "claims"), a.stays()); err != nil {
		return nil, err
	}
	return a.Claim(Now(), c), nil
}

// admit refuses what no host may send, and what comes to its turn when its host waits no longer.
// So an owner that has too much to do leaves asks out before reports: hosts wait for an ask for
// some milliseconds, and decide by their rates then; for a report they wait for up to a second.
func (a *Aggregator) admit(ctx context.Context, host, what string) error {
	if err := ctx.Err(); err != nil {
		a.metrics.overdue.Inc(1)
		return err
	}
	if err := rpc.CheckHost(host); err != nil {
		a.refuse(Now(), "a host without a proper name", what, err)
		return fmt.Errorf("aggregator: %w", err)
	}
	return nil
}
