// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"context"
	"strings"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/internal/fan"
)

// Forward answers Claims for any key, whichever host owns it, by asking the
// owners. A claim whose owner did not answer is refused, with the reason. Only if
// no owner answers is that an error.
type Forward struct {
	// Claimant asks the owners.
	Claimant *Claimant
}

var _ rpc.Decider = Forward{}

// Update asks the owners of the keys in payload, which is Claims. The caller does
// not matter: each claim names its host. The errors are ErrPayload, those of a few
// owners, or ctx's.
func (f Forward) Update(ctx context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
	c, err := Decode(payload)
	if err != nil {
		return nil, err
	}
	timeout := fan.Within(ctx, cmp.Or(max(f.Claimant.Timeout, 0), DefaultTimeout))
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
