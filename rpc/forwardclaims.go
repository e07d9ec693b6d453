// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/protobuf/types/known/anypb"
)

// ForwardClaims answers Claims for any key, whoever owns it, by asking the
// owners: what Forward is to Usage. A claim whose owner did not answer is
// refused, with the reason; only when no owner answers is that an error.
type ForwardClaims struct {
	// Claimant asks the owners.
	Claimant *Claimant
}

var _ Decider = ForwardClaims{}

// Update asks the owners of the keys in payload, which is Claims. Who calls
// does not matter: each claim names its host. The errors are ErrPayload,
// those of the only owners, or ctx's.
func (f ForwardClaims) Update(ctx context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
	claims, err := DecodeClaims(payload)
	if err != nil {
		return nil, err
	}
	claimant := *f.Claimant
	if claimant.Timeout <= 0 {
		claimant.Timeout = DefaultClaimTimeout
	}
	claimant.Timeout = within(ctx, claimant.Timeout)
	leases, errs := claimant.Claim(ctx, claims)
	failed := 0
	for i, err := range errs {
		if err != nil {
			failed++
			leases.Rows[i] = Lease{Refused: reason(err)}
		}
	}
	if failed > 0 && failed == len(claims.Rows) {
		return nil, distinct(errs)
	}
	return EncodeLeases(leases, len(claims.Rows))
}

// reason is err as a Lease may carry it.
func reason(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), MaxReasonLength)], "")
}

// distinct joins errs, each of which may stand for many rows, but names no
// more than a few.
func distinct(errs []error) error {
	const few = 8
	var all []error
	for _, err := range errs {
		if len(all) == few {
			break
		}
		if len(all) == 0 || all[len(all)-1].Error() != err.Error() {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}
