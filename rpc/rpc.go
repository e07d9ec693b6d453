// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/anypb"
)

// Decider answers what hosts report. The transport to a remote owner, the
// in-memory network and the aggregator are all Deciders, so one stands in
// for another.
//
// Implementations are safe for concurrent use, return before ctx ends or
// promptly after, and neither keep nor change payload once they returned.
type Decider interface {
	// Update hands over what host has to say and returns what the decider
	// answers. The payload's type URL chooses who handles it: see Mux.
	Update(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error)
}

// Codec is the limiting host's half of one payload type: it turns usage into
// a payload, and the answer to it into grants. Columnar is the built-in one.
// An algorithm with a request and a response of its own brings a Codec, and
// registers the Decider that understands it with a Mux.
//
// Implementations are safe for concurrent use.
type Codec interface {
	// EncodeUsage returns the payload for u. It does not keep u.
	EncodeUsage(u *Usage) (*anypb.Any, error)

	// DecodeGrants returns the grants in payload, which answers u: grant i
	// is for u.Keys[i]. An answer that does not fit u is refused whole.
	DecodeGrants(payload *anypb.Any, u *Usage) (*Grants, error)
}

// Usage is what one host did with some keys under one algorithm, in columns:
// row i of each column is about Keys[i]. All columns have equal length.
type Usage struct {
	// Algorithm is the name that the keys' rules give.
	Algorithm string

	// Keys are full keys, `group:name`, without repeats.
	Keys []string

	// Allowed and Rejected count cost (events, tokens) since the last
	// report that was answered; each in [0, MaxCount].
	Allowed, Rejected []int64

	// Elapsed is the time over which they were counted; in (0, MaxElapsed].
	Elapsed []time.Duration

	// Weight is the part of the limit that the host now has, in [0, 1];
	// 0 when it has no valid grant. A new owner learns from it.
	Weight []float64

	// Wants is the host's demand in events/s, measured or stated: what it
	// would use if it could; finite, ≥ 0. A nil column states none, and
	// demand follows from the counts.
	Wants []float64

	// Cost is the largest cost that was asked for at once lately, ≥ 0. A nil
	// column says nothing, as if all were 1.
	Cost []float64
}

// Len is the number of keys.
func (u *Usage) Len() int { return len(u.Keys) }

// Grants answer a Usage, in columns: row i of each column is about its key i.
type Grants struct {
	// Weight is the host's part of the limit, in [0, 1].
	Weight []float64

	// Burst is how many tokens the host's bucket may hold; finite, ≥ 0.
	Burst []float64

	// Used is what the whole cluster uses of the key, in events/s; finite, ≥ 0.
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

	// Unanswered are the rows whose owners did not answer who was asked,
	// which only a Forward has; increasing, and their Lease is 0. Their usage
	// was not taken in, so that it is to be reported again.
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
	// a host lets through, by chance.
	FloorDrop
)

// Bounds that both sides check; a message beyond them is refused whole.
const (
	// MaxKeyLength is the longest key, in bytes.
	MaxKeyLength = 1024
	// MaxCount is the largest count in one report.
	MaxCount = 1 << 53
	// MaxElapsed is the longest period of one report.
	MaxElapsed = 24 * time.Hour
	// MaxLease is the longest lease.
	MaxLease = 24 * time.Hour
	// MaxKeys is the most keys in one message.
	MaxKeys = 1 << 16
)
