// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"math"
	"time"
	"unicode/utf8"
)

// Bounds of claims and of their answers, beside those of Usage.
const (
	// MaxAmount is the largest amount of one claim: above it, float64 loses
	// whole units. Who adds up the wants of others claims at most this much.
	MaxAmount = 1 << 53
	// MaxBands is the most bands in one claim.
	MaxBands = 64
	// MaxReasonLength is the longest reason of a refusal, in bytes.
	MaxReasonLength = 256
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
	// Key is the full key, `group:name`; 1 to MaxKeyLength bytes.
	Key string

	// Host is who claims: a host, a client of the edge, a cluster below.
	// 1 to MaxKeyLength bytes.
	Host string

	// Has is the amount that the host holds by an earlier lease, in
	// [0, MaxAmount]; 0 if it holds none. A new owner learns from it.
	Has float64

	// Bands are the host's wants by priority, at most MaxBands. None: it
	// wants nothing.
	Bands []Band

	// Keep asks for what the host has and no more: it does not know yet what
	// it wants. The lease is extended, the amount and the bands stay.
	Keep bool

	// Release gives back what the host has; the answer is the zero Lease.
	Release bool

	// Headroom says that more than Bands may be of use, because they were
	// measured: demand that grows is known only later. While nobody else wants
	// it, the host gets somewhat more. While it gets less because others have
	// not given back what they hold, it is told to refresh sooner.
	Headroom bool
}

// Band is what the clients of one priority want together.
type Band struct {
	// Priority orders bands; higher ones are served first.
	Priority int64

	// Clients is for how many the band speaks, in [1, MaxCount].
	Clients int64

	// Wants is what all of them want together, in [0, MaxAmount].
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
	// [0, MaxLease]. 0: there is no lease, and Amount is 0.
	Lasts time.Duration

	// Refresh is after how long the host should ask again, in [0, Lasts].
	Refresh time.Duration

	// Learns is how long an owner that is new to the key learns, by the rule,
	// in [0, MaxLease]. A decider below does as the one above.
	Learns time.Duration

	// Safe is the amount that a host may use when its lease has ended and
	// nobody answers; finite, ≥ 0.
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
	if len(c.Rows) > MaxKeys {
		return refuse("%d claims in one message; send at most %d", len(c.Rows), MaxKeys)
	}
	for i := range c.Rows {
		if err := c.Rows[i].check(i); err != nil {
			return err
		}
	}
	return nil
}

func (c *Claim) check(row int) error {
	if err := checkKey(row, len(c.Key)); err != nil {
		return err
	}
	if err := hostError(c.Host); err != nil {
		return refuse("row %d: %w", row, err)
	}
	if !(c.Has >= 0 && c.Has <= MaxAmount) {
		return refuse("row %d: has is %v; amounts are in [0, 2^53]", row, c.Has)
	}
	if len(c.Bands) > MaxBands {
		return refuse("row %d: %d bands; send at most %d", row, len(c.Bands), MaxBands)
	}
	for _, b := range c.Bands {
		if b.Clients < 1 || b.Clients > MaxCount {
			return refuse("row %d: a band of %d clients; bands have 1 to 2^53", row, b.Clients)
		}
		if !(b.Wants >= 0 && b.Wants <= MaxAmount) {
			return refuse("row %d: a band wants %v; amounts are in [0, 2^53]", row, b.Wants)
		}
	}
	return nil
}

// Check reports what in l is against the contract as an answer to n claims,
// naming the first such row, or nil. The error is an ErrPayload.
func (l *Leases) Check(n int) error {
	if len(l.Rows) != n {
		return refuse("%d leases for %d claims; answer every claim, in order", len(l.Rows), n)
	}
	for i := range l.Rows {
		if err := l.Rows[i].check(i); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lease) check(row int) error {
	if !(l.Amount >= 0 && l.Amount <= math.MaxFloat64) || !(l.Safe >= 0 && l.Safe <= math.MaxFloat64) {
		return refuse("row %d: an amount of %v, %v when safe; they are finite and not negative", row, l.Amount, l.Safe)
	}
	if err := checkLease(row, l.Lasts); err != nil {
		return err
	}
	if l.Lasts == 0 && l.Amount != 0 {
		return refuse("row %d: %v for ever; an amount has a lease", row, l.Amount)
	}
	if l.Refresh < 0 || l.Refresh > l.Lasts {
		return refuse("row %d: refresh after %v of a lease of %v; refresh while it lasts", row, l.Refresh, l.Lasts)
	}
	if l.Learns < 0 || l.Learns > MaxLease {
		return refuse("row %d: learns for %v; that is in [0, %v]", row, l.Learns, MaxLease)
	}
	if len(l.Algorithm) > MaxAlgorithmLength {
		return refuse("row %d: the algorithm's name has %d bytes; use at most %d", row, len(l.Algorithm), MaxAlgorithmLength)
	}
	if len(l.Refused) > MaxReasonLength {
		return refuse("row %d: the reason has %d bytes; use at most %d", row, len(l.Refused), MaxReasonLength)
	}
	if !utf8.ValidString(l.Algorithm) || !utf8.ValidString(l.Refused) {
		return refuse("row %d: text that is not valid UTF-8", row)
	}
	return nil
}
