// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// DefaultClaimTimeout is how long a Claimant waits for an owner when nobody
// says otherwise. To ask again costs little, and who waits for an owner that
// died does not hear of the next.
const DefaultClaimTimeout = time.Second

// Claimant asks the owners of keys for leases, on behalf of any host: any
// node can so answer for any key. Its fields do not change once it is in use.
// Safe for concurrent use.
type Claimant struct {
	// Host names the asking node, not who claims: that is in each row.
	Host string

	// Placement says who owns which key.
	Placement Placement

	// Peers finds the owners.
	Peers Peers

	// Self is the address under which the Placement knows this very host,
	// and Local its Decider, which is asked in process. A nil Local: ask by
	// way of Peers.
	Self  string
	Local Decider

	// Timeout bounds each call; default DefaultClaimTimeout. Higher means
	// that one hung owner holds up the answers of the others for longer.
	Timeout time.Duration

	// MaxCalls bounds the calls of one Claim at once; default DefaultMaxCalls.
	MaxCalls int
}

// Claim asks the owners of claims' keys, all at once, and returns their
// leases by row. An owner that is slow, unreachable, panics or answers
// nonsense costs its own rows only: their Lease is zero, and the error says
// why. The errors are nil if there are none; otherwise each row has its own or
// nil. Errors name the owner and wrap the cause.
//
// Claims that are against the contract are refused whole, an ErrPayload for
// every row. Claim returns when all have answered, or when ctx or the
// Timeout ends, and leaves no goroutine behind. It does not keep claims.
func (c *Claimant) Claim(ctx context.Context, claims *Claims) (*Leases, []error) {
	n := len(claims.Rows)
	leases := &Leases{Rows: make([]Lease, n)}
	if n == 0 {
		return leases, nil
	}
	if err := claims.Check(); err != nil {
		errs := make([]error, n)
		for i := range errs {
			errs[i] = err
		}
		return leases, errs
	}
	parts := c.split(claims)
	failed := make([]error, len(parts))
	c.each(len(parts), func(i int) { failed[i] = c.ask(ctx, claims, &parts[i], leases) })

	var errs []error
	for i, err := range failed {
		if err == nil {
			continue
		}
		if errs == nil {
			errs = make([]error, n)
		}
		for _, row := range parts[i].rows {
			errs[row] = err
		}
	}
	return leases, errs
}

// claimsPart is the rows that go to one owner in one call.
type claimsPart struct {
	owner string
	rows  []int // increasing
	bytes int
}

// split groups rows by owner, at most DefaultKeysPerCall and about 3 MiB in
// each part.
func (c *Claimant) split(claims *Claims) []claimsPart {
	if len(claims.Rows) == 1 {
		return []claimsPart{{owner: c.Placement.Owner(claims.Rows[0].Key), rows: []int{0}}}
	}
	open := make(map[string]int) // owner to its newest part
	var parts []claimsPart
	for row := range claims.Rows {
		claim := &claims.Rows[row]
		owner, size := c.Placement.Owner(claim.Key), claim.maxSize()
		part, ok := open[owner]
		if !ok || len(parts[part].rows) == DefaultKeysPerCall || parts[part].bytes+size > maxBytesPerCall {
			part = len(parts)
			open[owner] = part
			parts = append(parts, claimsPart{owner: owner})
		}
		parts[part].rows = append(parts[part].rows, row)
		parts[part].bytes += size
	}
	return parts
}

// each calls do for 0 to n-1, as many at once as MaxCalls allows, and returns
// after the last. A single one needs no goroutine.
func (c *Claimant) each(n int, do func(int)) {
	if n == 1 {
		do(0)
		return
	}
	calls := c.MaxCalls
	if calls <= 0 {
		calls = DefaultMaxCalls
	}
	todo := make(chan int, n)
	for i := range n {
		todo <- i
	}
	close(todo)
	var wg sync.WaitGroup
	for range min(calls, n) {
		wg.Go(func() {
			for i := range todo {
				do(i)
			}
		})
	}
	wg.Wait()
}

// ask makes the call for one part and puts its answers where they belong.
func (c *Claimant) ask(ctx context.Context, claims *Claims, p *claimsPart, leases *Leases) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("claim %d keys at %q: %w", len(p.rows), p.owner, err)
		}
	}()
	defer recovered(&err)
	if p.owner == "" {
		return ErrNoOwner
	}
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = DefaultClaimTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	request := claims
	if len(p.rows) != len(claims.Rows) {
		request = &Claims{Rows: make([]Claim, len(p.rows))}
		for i, row := range p.rows {
			request.Rows[i] = claims.Rows[row]
		}
	}
	payload, err := EncodeClaims(request)
	if err != nil {
		return err
	}
	owner, err := c.owner(p.owner)
	if err != nil {
		return err
	}
	payload, err = Ask(ctx, owner, c.Host, payload)
	if err != nil {
		return err
	}
	answer, err := DecodeLeases(payload, len(p.rows))
	if err != nil {
		return err
	}
	for i, row := range p.rows {
		leases.Rows[row] = answer.Rows[i]
	}
	return nil
}

func (c *Claimant) owner(address string) (Decider, error) {
	if c.Local != nil && address == c.Self {
		return c.Local, nil
	}
	return c.Peers.Peer(address)
}
