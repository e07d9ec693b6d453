// SPDX-License-Identifier: Apache-2.0

package usage_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/usage"
)

const benchKeys = 10_000

func perKey(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchKeys, "ns/key")
}

func BenchmarkEncodeUsage(b *testing.B) {
	u := sampleUsage(benchKeys)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (usage.Columnar{}).EncodeReport(u); err != nil {
			b.Fatal(err)
		}
	}
	perKey(b)
}

func BenchmarkDecodeUsage(b *testing.B) {
	payload, err := usage.Columnar{}.EncodeReport(sampleUsage(benchKeys))
	if err != nil {
		b.Fatal(err)
	}
	u := &usage.Report{}
	b.ReportAllocs()
	for b.Loop() {
		if err := (usage.Columnar{}).DecodeReport(payload, u); err != nil {
			b.Fatal(err)
		}
	}
	perKey(b)
}

// BenchmarkDecodeUsageGenerated is what reading the generated message costs,
// before anything is checked or a key is made of it.
func BenchmarkDecodeUsageGenerated(b *testing.B) {
	payload, err := usage.Columnar{}.EncodeReport(sampleUsage(benchKeys))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		var m headgatepb.Usage
		if err := proto.Unmarshal(payload.Value, &m); err != nil {
			b.Fatal(err)
		}
	}
	perKey(b)
}

func BenchmarkEncodeGrants(b *testing.B) {
	g := sampleGrants(benchKeys)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (usage.Columnar{}).EncodeGrants(g, benchKeys); err != nil {
			b.Fatal(err)
		}
	}
	perKey(b)
}

func BenchmarkDecodeGrants(b *testing.B) {
	u := sampleUsage(benchKeys)
	payload, err := usage.Columnar{}.EncodeGrants(sampleGrants(benchKeys), benchKeys)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (usage.Columnar{}).DecodeGrants(payload, u); err != nil {
			b.Fatal(err)
		}
	}
	perKey(b)
}

type modulo []string

func (m modulo) Owner(key string) string { return m[int(key[len(key)-1])%len(m)] }

func BenchmarkSplit(b *testing.B) {
	u, ring := sampleUsage(benchKeys), modulo{"a", "b", "c", "d", "e"}
	b.ReportAllocs()
	for b.Loop() {
		if parts := usage.Split(u, ring); len(parts) != len(ring) {
			b.Fatal(len(parts))
		}
	}
	perKey(b)
}
