// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"strings"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/internal/fan"
)

// Forward answers Claims for any key, whichever host owns it, by asking the
// owners. It claims on behalf of its caller: who calls an edge can neither have nor
// release what another host has. A claim whose owner did not answer is refused, with
// the reason. Only if no owner answers is that an error.
type Forward struct {
	// Claimant asks the owners.
	Claimant *Claimant
}

var _ rpc.Decider = Forward{}

// Update asks the owners of the keys in payload, which is Claims, on behalf of host,
// whichever hosts the claims name. The errors are ErrPayload, those of a few owners, or
// ctx's.
func (f Forward) Update(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	if err := rpc.CheckHost(host); err != nil {
		return nil, err
	}
	c, err := Decode(payload)
	if err != nil {
		return nil, err
	}
	for i := range c.Rows {
		c.Rows[i].Host = host
	}
	timeout := fan.Within(ctx, f.Claimant.timeout())
	answers, lost, err := fan.Gather(func(done func([]int, *Leases, error)) { f.Claimant.each(ctx, c, timeout, done) })
	if err != nil {
		return nil, err
	}
	leases := &Leases{Rows: make([]Lease, len(c.Rows))}
	for _, a := range answers {
		for i, row := range a.Rows {
			leases.Rows[row] = a.Answer.Rows[i]
		}
	}
	for _, l := range lost {
		for _, row := range l.Rows {
			leases.Rows[row] = Lease{Refused: reason(l.Err)}
		}
	}
	return EncodeLeases(leases, len(c.Rows))
}

// reason is err as a Lease may carry it.
func reason(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), rpc.MaxReasonLength)], "")
}
