// SPDX-License-Identifier: Apache-2.0

// Package claims is the message family by which hosts lease amounts of a key's
// capacity from its owner. Claims say what hosts have and want, and are answered
// with Leases.
//
//	claimant := &claims.Claimant{Host: self, Placement: ring, Peers: client}
//	leases, errs := claimant.Claim(ctx, &claims.Claims{Rows: []claims.Claim{
//		{Key: "db:queries", Host: "worker-7", Bands: []claims.Band{{Clients: 1, Wants: 50}}},
//	}})
//
// Out of scope: how the capacity is divided (aggregator).
package claims

import (
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/internal/wire"
)

// Claims ask the owners of keys for leases of their capacity, each row on
// behalf of one host. Rows may have different hosts; a host that claims the
// same key twice is answered twice, in order.
type Claims struct {
	Rows []Claim
}

// Claim is what one host has of one key's capacity, and what it wants.
// Amounts are in the unit of the key's limit: events/s, or slots in flight.
type Claim struct {
	// Key is the full key, `group:name`; 1 to rpc.MaxKeyLength bytes.
	Key string

	// Host names the claimant: a host, a client of the edge, a cluster below.
	// 1 to rpc.MaxKeyLength bytes. A Forward puts its caller there.
	Host string

	// Has is the amount that the host holds by an earlier lease, in
	// [0, rpc.MaxAmount]; 0 if it holds none. A new owner learns from it.
	Has float64

	// Bands are the host's wants by priority, at most rpc.MaxBands. None: it
	// wants nothing.
	Bands []Band

	// Keep asks for what the host has and no more: it does not know yet what
	// it wants. The lease is extended, the amount and the bands stay, for two leases at
	// most: then the owner divides what the host has as it divides what others want.
	Keep bool

	// Release gives back what the host has; the answer is the zero Lease.
	Release bool

	// Headroom says that more than Bands may be of use, because they were
	// measured: demand that grows is known only later. While no other host wants
	// it, the host gets somewhat more. While it gets less because others have
	// not given back what they hold, its lease says to refresh sooner.
	Headroom bool
}

// Band is what the clients of one priority want together.
type Band struct {
	// Priority orders bands; higher ones are served first.
	Priority int64

	// Clients is for how many the band speaks, in [1, rpc.MaxCount].
	Clients int64

	// Wants is what all of them want together, in [0, rpc.MaxAmount].
	Wants float64
}

// Leases answer Claims: row i is about claim i.
type Leases struct {
	Rows []Lease
}

// Lease is an amount of a key's capacity that a host may use for a time. The
// zero Lease answers a release.
type Lease struct {
	// Amount is what the host may use; finite, ≥ 0.
	Amount float64

	// Lasts is how long it may be used without a newer lease, in
	// [0, rpc.MaxLease]. 0: there is no lease, and Amount is 0.
	Lasts time.Duration

	// Refresh is after how long the host should ask again, in [0, Lasts].
	Refresh time.Duration

	// Learns is how long an owner that is new to the key learns, by the rule,
	// in [0, rpc.MaxLease]. A decider below does as the one above.
	Learns time.Duration

	// Safe is the amount that a host may use when its lease has ended and
	// no decider answers; finite, ≥ 0.
	Safe float64

	// Algorithm names how the key's capacity is shared.
	Algorithm string

	// Learning says that the owner is new to the key, and hands back what
	// hosts have.
	Learning bool

	// Unknown says that no rule matches the key: Amount is what was wanted.
	Unknown bool

	// Refused, when not empty, is why there is no lease.
	Refused string
}

// Check reports what in c is against the contract, naming the first such
// row, or nil. The error is an ErrPayload.
func (c *Claims) Check() error {
	if err := wire.AtMost("claims", len(c.Rows), rpc.MaxKeys); err != nil {
		return err
	}
	for i := range c.Rows {
		if err := c.Rows[i].check(i); err != nil {
			return err
		}
	}
	return nil
}

func (c *Claim) check(row int) error {
	r := wire.Row{Number: row}
	r.Name("the key", c.Key)
	r.Name("the host's name", c.Host)
	r.Value("has", c.Has, 0, rpc.MaxAmount)
	if len(c.Bands) > rpc.MaxBands {
		r.Fail("%d bands; send at most %d", len(c.Bands), rpc.MaxBands)
	}
	for _, b := range c.Bands {
		if b.Clients < 1 || b.Clients > rpc.MaxCount {
			r.Fail("a band of %d clients; it has 1 to 2^53", b.Clients)
		}
		r.Value("the amount that a band wants", b.Wants, 0, rpc.MaxAmount)
	}
	return r.Err
}

// Check reports what in l is against the contract as an answer to n claims,
// naming the first such row, or nil. The error is an ErrPayload.
func (l *Leases) Check(n int) error {
	if err := wire.Fits("leases", len(l.Rows), n); err != nil {
		return err
	}
	for i := range l.Rows {
		if err := l.Rows[i].check(i); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lease) check(row int) error {
	r := wire.Row{Number: row}
	r.Value("the amount", l.Amount, 0, wire.Finite)
	r.Value("the safe amount", l.Safe, 0, wire.Finite)
	r.Period("the lease", l.Lasts, 0, rpc.MaxLease)
	if l.Lasts == 0 && l.Amount != 0 {
		r.Fail("%v for ever; an amount has a lease", l.Amount)
	}
	r.Period("the time until refresh", l.Refresh, 0, l.Lasts)
	r.Period("the time to learn", l.Learns, 0, rpc.MaxLease)
	r.Text("the algorithm's name", l.Algorithm, rpc.MaxAlgorithmLength)
	r.Text("the reason", l.Refused, rpc.MaxReasonLength)
	if !utf8.ValidString(l.Algorithm) || !utf8.ValidString(l.Refused) {
		r.Fail("text that is not valid UTF-8")
	}
	return r.Err
}
