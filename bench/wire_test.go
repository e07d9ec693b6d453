// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"math"
	"testing"
	"time"

	theirs "github.com/uber/cadence/common/quotas/global/algorithm"
	theirrpc "github.com/uber/cadence/common/quotas/global/rpc"
	"github.com/uber/cadence/common/quotas/global/shared"
	"github.com/uber/cadence/common/types"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/bench/plainpb"
	"github.com/headgate/headgate/rpc/usage"
)

// wire turns one report into bytes and back, and the answer to it. Each step
// takes what the step before it left.
type wire struct {
	by                                                   string
	encodeUsage, decodeUsage, encodeGrants, decodeGrants func() error
	out, back                                            func() int // bytes
}

// BenchmarkWire is the four steps of a report of 10,000 keys of 24 bytes, one
// by one and all together, with the bytes of each way.
func BenchmarkWire(b *testing.B) {
	n := size(10_000, 20)
	var all []wire
	for _, name := range ours {
		all = append(all, columnar(name, n))
	}
	for _, name := range ours {
		all = append(all, plain(name, n))
	}
	all = append(all, thrift(n))
	for _, step := range []struct {
		name string
		run  func(wire) []func() error
	}{
		{"encode-usage", func(w wire) []func() error { return []func() error{w.encodeUsage} }},
		{"decode-usage", func(w wire) []func() error { return []func() error{w.decodeUsage} }},
		{"encode-grants", func(w wire) []func() error { return []func() error{w.encodeGrants} }},
		{"decode-grants", func(w wire) []func() error { return []func() error{w.decodeGrants} }},
		{"all", func(w wire) []func() error {
			return []func() error{w.encodeUsage, w.decodeUsage, w.encodeGrants, w.decodeGrants}
		}},
	} {
		for _, w := range all {
			b.Run(fmt.Sprintf("keys=%d/step=%s/by=%s", n, step.name, w.by), func(b *testing.B) {
				// What the step takes must be there.
				for _, f := range []func() error{w.encodeUsage, w.decodeUsage, w.encodeGrants, w.decodeGrants} {
					if err := f(); err != nil {
						b.Fatal(err)
					}
				}
				steps := step.run(w)
				b.ReportAllocs()
				for b.Loop() {
					for _, f := range steps {
						if err := f(); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(n), "keys/op")
				if step.name == "all" {
					b.ReportMetric(float64(w.out())/float64(n), "out-B/key")
					b.ReportMetric(float64(w.back())/float64(n), "back-B/key")
				}
			})
		}
	}
}

// grantsFor is an answer to u; an elastic one has tokens, and not what is used.
func grantsFor(u *usage.Report) *usage.Grants {
	g := &usage.Grants{Floor: usage.FloorUnused}
	for i := range u.Keys {
		g.Weight = append(g.Weight, float64(i%8)/8)
		g.Burst = append(g.Burst, float64(i%200))
		g.Used = append(g.Used, float64(i)*1.5)
		g.Lease = append(g.Lease, 10*time.Second)
		if u.Algorithm == elastic {
			g.Floor, g.Used[i] = usage.FloorNone, 0
			g.Tokens = append(g.Tokens, float64(i%200)/2)
		}
	}
	return g
}

// columnar is headgate's.
func columnar(name string, n int) wire {
	var (
		codec     usage.Columnar
		u         = reportOf(name, n)
		g         = grantsFor(u)
		got       usage.Report // kept between calls, as at a decider
		out, back *anypb.Any
		err       error
	)
	return wire{
		by:           name,
		encodeUsage:  func() error { out, err = codec.EncodeReport(u); return err },
		decodeUsage:  func() error { return codec.DecodeReport(out, &got) },
		encodeGrants: func() error { back, err = codec.EncodeGrants(g, n); return err },
		decodeGrants: func() error { _, err = codec.DecodeGrants(back, u); return err },
		out:          func() int { return len(out.GetValue()) },
		back:         func() int { return len(back.GetValue()) },
	}
}

// plain is a message per key, which names it both ways.
func plain(name string, n int) wire {
	var (
		u         = reportOf(name, n)
		g         = grantsFor(u)
		out, back []byte
		err       error
	)
	return wire{
		by: "protobuf-" + name,
		encodeUsage: func() error {
			m := &plainpb.Usage{Algorithm: u.Algorithm, Keys: make([]*plainpb.KeyUsage, n)}
			for i, key := range u.Keys {
				m.Keys[i] = &plainpb.KeyUsage{
					Key:       key,
					Allowed:   uint64(u.Allowed[i]),
					Rejected:  uint64(u.Rejected[i]),
					ElapsedMs: uint32(u.Elapsed[i].Milliseconds()),
					Weight:    float32(u.Weight[i]),
				}
				if u.Wants != nil {
					m.Keys[i].Wants = float32(u.Wants[i])
				}
			}
			out, err = proto.Marshal(m)
			return err
		},
		decodeUsage: func() error { return proto.Unmarshal(out, new(plainpb.Usage)) },
		encodeGrants: func() error {
			m := &plainpb.Grants{Floor: uint32(g.Floor), Keys: make([]*plainpb.KeyGrant, n)}
			for i, key := range u.Keys {
				m.Keys[i] = &plainpb.KeyGrant{
					Key:     key,
					Weight:  float32(g.Weight[i]),
					Burst:   float32(g.Burst[i]),
					Used:    float32(g.Used[i]),
					LeaseMs: uint32(g.Lease[i].Milliseconds()),
				}
				if g.Tokens != nil {
					m.Keys[i].Tokens = float32(g.Tokens[i])
				}
			}
			back, err = proto.Marshal(m)
			return err
		},
		decodeGrants: func() error { return proto.Unmarshal(back, new(plainpb.Grants)) },
		out:          func() int { return len(out) },
		back:         func() int { return len(back) },
	}
}

// thrift is Cadence's, from and to the maps that its client and its decider
// work with.
func thrift(n int) wire {
	var (
		u         = reportOf(requestWeighted, n)
		load      = make(map[shared.GlobalKey]theirrpc.Calls, n)
		answer    = make(map[theirs.Limit]theirs.HostUsage, n)
		helper    testing.T // two of its steps are exported to tests only
		out, back *types.Any
		err       error
	)
	for i, key := range u.Keys {
		load[shared.GlobalKey(key)] = theirrpc.Calls{Allowed: int(u.Allowed[i]), Rejected: int(u.Rejected[i])}
		answer[theirs.Limit(key)] = theirs.HostUsage{Weight: theirs.HostWeight(i%8) / 8, Used: theirs.PerSecond(math.Sqrt(float64(i)))}
	}
	return wire{
		by: "cadence",
		encodeUsage: func() error {
			out, err = theirrpc.TestUpdateToAny(&helper, "10.0.0.1:7933", interval, load)
			return err
		},
		decodeUsage:  func() error { _, err = theirrpc.AnyToAggregatorUpdate(out); return err },
		encodeGrants: func() error { back, err = theirrpc.AggregatorWeightsToAny(answer); return err },
		decodeGrants: func() error { _, err = theirrpc.TestAnyToWeights(&helper, back); return err },
		out:          func() int { return len(out.Value) },
		back:         func() int { return len(back.Value) },
	}
}
