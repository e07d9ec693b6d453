// SPDX-License-Identifier: Apache-2.0

// Package meshusage is the message family by which hosts that all hold the bucket of a key report
// to each other what they used of it. A Report is answered with the number of the process that
// received it. Package limiter/mesh sends and receives them; a Report has no owner, so there is
// nothing to split or to forward. It does not know what a bucket has, and keeps no state.
package meshusage

import (
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/internal/wire"
)

// Report is what one host used of keys whose bucket every host holds. Counts are of all that was used, so that a message which
// is lost, late or delivered twice does no harm.
type Report struct {
	// From is the sender's number: chosen at random, not 0, and the same for as
	// long as the process runs.
	From uint64

	// Version counts the rounds of From. A receiver that has a later one ignores
	// this one.
	Version uint64

	// After is the round up to which the receiver has all that it is to count; at
	// most Version. If it does not know a key yet, all Tokens count if the key was
	// Born later. If the key is older, none do, and the receiver begins with Left.
	After uint64

	// Rows are about different keys.
	Rows []Used
}

// Used is how much a host used of one key.
type Used struct {
	// Key is the full key, `group:name`; 1 to rpc.MaxKeyLength bytes.
	Key string

	// Born is the round in which the host began to count Tokens; at most
	// Version.
	Born uint64

	// Tokens is how many it used since then; at most rpc.MaxTokens. It is lower
	// than before when some were given back.
	Tokens uint64

	// Left is how many the host thinks that there are; finite, below 0 in debt.
	Left float64
}

// Check reports what in r is against the contract, naming the first such row,
// or nil. The error is an ErrPayload. Repeated keys are not looked for.
func (r *Report) Check() error {
	switch {
	case r.From == 0:
		return rpc.Refuse("the sender's number is 0; choose another")
	case r.After > r.Version:
		return rpc.Refuse("round %d comes after round %d", r.Version, r.After)
	}
	if err := wire.AtMost("rows", len(r.Rows), rpc.MaxMeshRows); err != nil {
		return err
	}
	for i := range r.Rows {
		row, used := wire.Row{Number: i}, &r.Rows[i]
		row.Name("the key", used.Key)
		if used.Born > r.Version {
			row.Fail("counted since round %d, and it is round %d", used.Born, r.Version)
		}
		if used.Tokens > rpc.MaxTokens {
			row.Fail("%d tokens used; count at most 2^53", used.Tokens)
		}
		row.Value("the number of tokens left", used.Left, -wire.Finite, wire.Finite)
		if row.Err != nil {
			return row.Err
		}
	}
	return nil
}
