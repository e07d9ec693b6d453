// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"math"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/headgate/headgate/rpc/headgatepb"
)

var algorithmNames = []string{
	"elastic", "request-weighted", "even-floor", "auto", "exact", "drop-ratio", "fair-share", "proportional-share", "static", "none", "even", "gossip",
	"first-come", "favour", "", "no-such", strings.Repeat("a", 128), strings.Repeat("a", 129), "Elastic", "ELASTIC\x00", "measured auto", "measured measured auto", "measured request-weighted", "measured ",
}

func (f *forger) usage() proto.Message {
	n := f.rows()
	u := &headgatepb.Usage{Algorithm: pick(f, algorithmNames...), ElapsedMs: uint32(pick(f, 0, 1, 100, 1000, 86_400_000, 86_400_001, f.count()))}
	if f.legal {
		u.Algorithm = pick(f, "elastic", "request-weighted", "auto", "fair-share", "favour")
		u.ElapsedMs = uint32(1 + f.IntN(1000))
	}
	u.Keys, u.KeyLengths = f.keys(n)
	u.Allowed, u.Rejected = column(f, n, f.used), column(f, n, f.used)
	for range n {
		weight := f.half()
		if f.legal || f.IntN(4) > 0 {
			bits := math.Float32bits(f.Float32())
			weight = []byte{byte(bits >> 16), byte(bits >> 24)}
		}
		u.Weights = append(u.Weights, weight...)
	}
	if f.IntN(3) > 0 {
		for range n {
			u.Wants = append(u.Wants, f.half()...)
		}
	}
	if f.IntN(3) == 0 {
		u.Weights = nil
	}
	if f.IntN(6) == 0 {
		u.ElapsedMsEach = column(f, n, func() uint32 { return uint32(f.count()) })
	}
	if f.IntN(3) == 0 {
		u.Costs = column(f, n, func() float32 { return pick(f, f.float32(), 1, 1000*f.Float32()) })
	}
	return u
}

// used is a count that is most often within its bounds.
func (f *forger) used() uint64 {
	if !f.legal && f.IntN(20) == 0 {
		return f.count()
	}
	return pick(f, 0, 1, 1<<53, f.Uint64N(1000), f.Uint64N(1<<53))
}

// amount is a number that is most often within its bounds.
func (f *forger) amount() float64 {
	if !f.legal && f.IntN(20) == 0 {
		return f.number()
	}
	return pick(f, 0, 1, 1<<53, 1<<52, 1e-9, 1000*f.Float64(), 1e15*f.Float64())
}

func (f *forger) claims() proto.Message {
	rows := make([]*headgatepb.Claim, f.rows())
	for i := range rows {
		c := &headgatepb.Claim{
			Key: []byte(f.key()), Host: []byte(f.host()), Has: f.amount(),
			Keep: f.IntN(5) == 0, Release: f.IntN(8) == 0, Headroom: f.IntN(2) == 0,
		}
		for range min(pick(f, 0, 1, 1, 1, 2, 3, 20, 64, 65), f.bands()) {
			c.Bands = append(c.Bands, &headgatepb.Band{
				Priority: pick(f, 0, 1, 5, -1, math.MaxInt64, math.MinInt64, f.Int64N(100)), Clients: pick(f, 1, 1, 1, f.Uint64N(100), f.count()), Wants: f.amount(),
			})
		}
		rows[i] = c
	}
	return &headgatepb.Claims{Rows: rows}
}

// bands is at most how many a claim has.
func (f *forger) bands() int {
	if f.legal {
		return 64
	}
	return 65
}

// caller is one of some that send batches, or of very many.
func (f *forger) caller() uint64 { return pick(f, 0, 1, 2, f.Uint64N(100), f.Uint64()) }

func (f *forger) batch() uint64 { return pick(f, 0, 1, f.Uint64N(200), f.count()) }

func (f *forger) takes() proto.Message {
	n := f.rows()
	t := &headgatepb.Takes{Caller: f.caller(), Batch: f.batch()}
	if f.IntN(4) == 0 {
		t.Settled = f.Uint64N(t.Batch/2 + 1)
	}
	if f.IntN(4) == 0 {
		t.Withdrawn = column(f, f.IntN(f.bands()+1), f.batch)
	}
	t.Keys, t.KeyLengths = f.keys(n)
	t.Tokens = column(f, n, func() float64 { return f.amount() * pick(f, 1., 1, -1) })
	t.Waits = column(f, n, func() uint64 { return pick(f, 0, 1, 2, 2, 1_000_000, 86_400_000_002, f.count()) })
	if f.IntN(3) == 0 {
		t.Told = column(f, n, func() float32 { return pick(f, f.float32(), -1000*f.Float32(), 1000*f.Float32()) })
		t.ToldMs = column(f, n, func() uint32 { return pick(f, 0, 100, 1000, 86_400_000, uint32(f.count()), f.Uint32N(5000)) })
		t.ToldBy = column(f, n, f.Uint32)
	}
	t.Auto = column(f, n, func() bool { return f.IntN(2) == 0 })
	if f.IntN(3) == 0 {
		t.Measured = column(f, n, func() bool { return f.IntN(2) == 0 })
	}
	if f.IntN(3) == 0 {
		t.More = column(f, n, f.amount)
		t.Wants = column(f, n, f.amount)
	}
	if f.IntN(6) == 0 { // 1 more than the part of the limit that is handed over as rates
		t.Handed = column(f, n, func() float64 { return pick(f, f.amount(), 0, 1, 1+f.Float64(), 2) })
	}
	return t
}

// question asks what an operator may ask.
func (f *forger) question() proto.Message {
	q := &headgatepb.Question{Kind: pick(f, "key", "trace", "untrace", "reset", "no-such"), About: []byte(f.key())}
	if !f.legal {
		q.Kind = pick(f, q.Kind, "", strings.Repeat("q", 64), strings.Repeat("q", 65))
		q.About = []byte(pick(f, f.key(), strings.Repeat("k", 4096), strings.Repeat("k", 4097)))
	}
	return q
}

func (f *forger) gossip() proto.Message {
	n := f.rows()
	g := &headgatepb.Gossip{From: f.caller(), Version: f.batch()}
	g.From = max(g.From, 1)
	if !f.legal && f.IntN(20) == 0 {
		g.From = 0
	}
	g.After = f.Uint64N(g.Version/2 + 1)
	g.Keys, g.KeyLengths = f.keys(n)
	g.Ages = column(f, n, func() uint64 { return min(pick(f, 0, f.Uint64N(g.Version/2+1), f.batch()), g.Version) })
	g.Used, g.Left = column(f, n, f.used), column(f, n, f.float32)
	return g
}

// custom is a message of the service's own payload.
func (f *forger) custom() proto.Message {
	s := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	for range f.rows() {
		s.Fields[strings.ToValidUTF8(f.key(), "?")] = pick(f, structpb.NewNumberValue(f.number()), structpb.NewNullValue(), structpb.NewStringValue(f.host()))
	}
	return s
}
