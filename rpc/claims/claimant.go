// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"context"
	"time"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/internal/fan"
)

// DefaultTimeout is the default of how long a Claimant waits for an owner. To ask
// again costs little, and a host that waits for an owner that died does not learn
// of the next one.
const DefaultTimeout = time.Second

// Here answers the claims of its own process, as the Decider of this host answers
// those of others, but without making messages of them. It is safe for concurrent
// use.
type Here interface {
	// ClaimHere returns the leases of c's rows. The caller has checked c, which
	// ClaimHere does not keep.
	ClaimHere(ctx context.Context, host string, c *Claims) (*Leases, error)
}

// Claimant asks the owners of keys for leases, on behalf of any host: any
// node can so answer for any key. Its fields do not change once it is in use.
// Safe for concurrent use.
type Claimant struct {
	// Host names the asking node, and not the claimants: each row names its own.
	Host string

	// Placement says who owns which key.
	Placement rpc.Placement

	// Peers finds the owners.
	Peers rpc.Peers

	// Self is the address under which the Placement knows this very host. For
	// keys that it owns, Here is asked without a message; if that is nil, Peers.
	Self string
	Here Here

	// Timeout bounds each call; default DefaultTimeout. Higher means
	// that one hung owner holds up the answers of the others for longer.
	Timeout time.Duration
}

// Claim asks the owners of c's keys, all at once, and returns their
// leases by row. An owner that is slow, unreachable, panics or answers
// nonsense costs its own rows only: their Lease is zero, and the error has the
// reason. The errors are nil if there are none; otherwise each row has its own or
// nil. Errors name the owner and wrap the cause.
//
// Claims that are against the contract are refused whole, an ErrPayload for
// every row. Claim returns when all have answered, or when ctx or the
// Timeout ends, and leaves no goroutine behind. It does not keep c.
func (a *Claimant) Claim(ctx context.Context, c *Claims) (*Leases, []error) {
	leases := &Leases{Rows: make([]Lease, len(c.Rows))}
	var errs []error
	done := func(rows []int, answer *Leases, err error) {
		if err != nil && errs == nil {
			errs = make([]error, len(c.Rows))
		}
		for i, row := range rows {
			if err != nil {
				errs[row] = err
			} else {
				leases.Rows[row] = answer.Rows[i]
			}
		}
	}
	if err := c.Check(); err != nil {
		done(fan.UpTo(len(c.Rows)), nil, err)
	} else {
		a.each(ctx, c, a.timeout(), done)
	}
	return leases, errs
}

// timeout is Timeout, or its default.
func (a *Claimant) timeout() time.Duration { return cmp.Or(max(a.Timeout, 0), DefaultTimeout) }

// each calls done with the answer of each owner. c is checked.
func (a *Claimant) each(ctx context.Context, c *Claims, timeout time.Duration, done func(rows []int, answer *Leases, err error)) {
	parts := fan.Split(len(c.Rows), rpc.KeysPerCall, a.Placement,
		func(i int) string { return c.Rows[i].Key }, func(i int) int { return c.Rows[i].maxSize() })
	fan.Each(len(parts), func(i int) (answer *Leases, err error) {
		owner, c := parts[i].Owner, &Claims{Rows: fan.Pick(c.Rows, parts[i].Rows)}
		err = fan.Call(ctx, "claim", len(c.Rows), "", owner, timeout, func(ctx context.Context) (err error) {
			answer, err = a.ask(ctx, owner, c)
			return err
		})
		return answer, err
	}, func(i int, answer *Leases, err error) { done(parts[i].Rows, answer, err) })
}

// ask asks one owner.
func (a *Claimant) ask(ctx context.Context, address string, c *Claims) (*Leases, error) {
	if a.Here != nil && address == a.Self {
		leases, err := a.Here.ClaimHere(ctx, a.Host, c)
		if err == nil {
			err = leases.Check(len(c.Rows)) // algorithms are anybody's
		}
		return leases, err
	}
	owner, err := a.Peers.Peer(address)
	if err != nil {
		return nil, err
	}
	answer, err := rpc.Ask(ctx, owner, a.Host, c.payload())
	if err != nil {
		return nil, err
	}
	return DecodeLeases(answer, len(c.Rows))
}
