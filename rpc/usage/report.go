// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/internal/wire"
)

// Report is what one host did with some keys under one algorithm, in columns:
// row i of each column is about Keys[i]. All columns have equal length.
type Report struct {
	// Algorithm is the name that the keys' rules give, or dynamicconfig.Measured of it.
	Algorithm string

	// Keys are full keys, `group:name`, without repeats.
	Keys []string

	// Allowed and Rejected count cost (events, tokens) since the last
	// report that was answered; each in [0, rpc.MaxCount].
	Allowed, Rejected []int64

	// Elapsed is the time over which they were counted; in (0, rpc.MaxElapsed].
	Elapsed []time.Duration

	// Weight is the part of the limit that the host now has, in [0, 1];
	// 0 when it has no valid grant. A new owner learns from it.
	Weight []float64

	// Wants is the host's demand in events/s, measured or stated: what it
	// would use if it could; finite, ≥ 0. A nil column states none, and
	// demand follows from the counts.
	Wants []float64

	// Cost is the largest cost that was recently asked for at once, ≥ 0. A nil
	// column says nothing, as if all were 1.
	Cost []float64

	// Slots are 1 + those that the host has, or has in use if that is more, of keys whose
	// limit is slots in flight; in [0, rpc.MaxCount]. Where it is 0, and with a nil column,
	// they follow from Weight, which the wire rounds.
	Slots []int64
}

// Len is the number of keys.
func (r *Report) Len() int { return len(r.Keys) }

// Grants answer a Report, in columns: row i of each column is about its key i.
type Grants struct {
	// Weight is the host's part of the limit, in [0, 1].
	Weight []float64

	// Burst is how many tokens the host's bucket may hold; finite, ≥ 0.
	Burst []float64

	// Used is what the whole cluster uses of the key, in events/s; finite, ≥ 0. Under
	// auto, it is the rate that the host may use while the owner does not answer asks.
	Used []float64

	// Lease is how long the grant may be used without a newer one. 0 means
	// that there is no grant for this key: the host goes on as it was.
	Lease []time.Duration

	// Tokens are what the host's bucket is to hold as of its report: what it
	// took since then is taken from them; finite, ≥ 0. With a nil column
	// hosts keep the tokens that they have.
	Tokens []float64

	// Floor says how much a host may take above its weight.
	Floor Floor

	// Unanswered are the rows whose owners did not answer a Forward, in
	// increasing order. Their Lease is 0. Their owners did not count what was
	// used, so the host has to report it again.
	Unanswered []int
}

// Floor is how much a host may take above its weighted part of the limit.
type Floor uint8

const (
	// FloorNone gives exactly the weighted part.
	FloorNone Floor = iota
	// FloorUnused lets a host below the even share add what the cluster
	// leaves unused, up to the even share.
	FloorUnused
	// FloorEven gives never below the even share.
	FloorEven
	// FloorDrop is no share at all: the weight is the part of its events that
	// a host lets through, by chance. No bucket limits the host meanwhile, so a later
	// grant with another floor begins with a full one.
	FloorDrop
)

// Check reports what in r is against the contract, naming the first such row, or
// nil. Repeated keys are not looked for. The error is an ErrPayload.
func (r *Report) Check() error {
	if err := wire.AtMost("keys", r.Len(), rpc.MaxKeys); err != nil {
		return err
	}
	if len(r.Algorithm) > rpc.MaxAlgorithmLength {
		return rpc.Refuse("the algorithm's name has %d bytes; use at most %d", len(r.Algorithm), rpc.MaxAlgorithmLength)
	}
	if !utf8.ValidString(r.Algorithm) {
		return rpc.Refuse("the algorithm's name is not valid UTF-8: %.100q", r.Algorithm)
	}
	if err := r.checkColumns(); err != nil {
		return err
	}
	for i, key := range r.Keys {
		if uint(len(key)-1) >= rpc.MaxKeyLength {
			row := wire.Row{Number: i}
			row.Name("the key", key)
			return row.Err
		}
	}
	return cmp.Or(
		wire.Counts("allowed", r.Allowed),
		wire.Counts("rejected", r.Rejected),
		wire.Values("the weight", r.Weight, 1),
		wire.Periods("elapsed", r.Elapsed, 1, rpc.MaxElapsed),
		wire.Values("wants", r.Wants, wire.Finite),
		wire.Values("cost", r.Cost, wire.Finite),
		wire.Counts("slots", r.Slots),
	)
}

func (r *Report) checkColumns() error {
	n := r.Len()
	if len(r.Allowed) != n || len(r.Rejected) != n || len(r.Elapsed) != n || len(r.Weight) != n ||
		r.Wants != nil && len(r.Wants) != n || r.Cost != nil && len(r.Cost) != n || r.Slots != nil && len(r.Slots) != n {
		return rpc.Refuse("columns disagree: %d keys, %d allowed, %d rejected, %d elapsed, %d weights, %d wants, %d costs, %d slots; fill every column, or leave the last three out",
			n, len(r.Allowed), len(r.Rejected), len(r.Elapsed), len(r.Weight), len(r.Wants), len(r.Cost), len(r.Slots))
	}
	return nil
}

// Check reports what in g is against the contract as an answer about n keys,
// naming the first such row, or nil. The error is an ErrPayload.
func (g *Grants) Check(n int) error {
	if g == nil {
		return rpc.Refuse("there is no answer; answer every key, in order")
	}
	if err := g.checkColumns(n); err != nil {
		return err
	}
	if g.Floor > FloorDrop {
		return rpc.Refuse("floor %d is unknown; this release knows 0 to %d", g.Floor, FloorDrop)
	}
	if err := cmp.Or(
		wire.Values("the weight", g.Weight, 1),
		wire.Values("the burst", g.Burst, wire.Finite),
		wire.Values("used", g.Used, wire.Finite),
		wire.Periods("the lease", g.Lease, 0, rpc.MaxLease),
		wire.Values("tokens", g.Tokens, wire.Finite),
	); err != nil {
		return err
	}
	last := -1
	for _, row := range g.Unanswered {
		if row <= last || row >= n {
			return rpc.Refuse("row %d is unanswered after row %d of %d; name each once, in order", row, last, n)
		}
		if g.Lease[row] != 0 {
			return rpc.Refuse("row %d: unanswered, with a lease of %v; there is no grant without an answer", row, g.Lease[row])
		}
		last = row
	}
	return nil
}

func (g *Grants) checkColumns(n int) error {
	if len(g.Weight) != n || len(g.Burst) != n || len(g.Used) != n || len(g.Lease) != n || g.Tokens != nil && len(g.Tokens) != n {
		return rpc.Refuse("the answer does not fit: %d keys, %d weights, %d bursts, %d used, %d leases, %d tokens; answer every key, in order",
			n, len(g.Weight), len(g.Burst), len(g.Used), len(g.Lease), len(g.Tokens))
	}
	return nil
}
