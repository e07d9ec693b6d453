// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"fmt"
	"testing"
)

func BenchmarkMatch(b *testing.B) {
	var c Config
	for i := range 1000 {
		c.Rules = append(c.Rules, Rule{Key: fmt.Sprintf("service-%d:*", i), Limit: 1})
	}
	c.Rules = append(c.Rules, Rule{Key: "exact:key", Limit: 1})
	s, err := c.Snapshot()
	if err != nil {
		b.Fatal(err)
	}
	suffixes := Config{}
	for i := range 1000 { // nothing to go by at the beginning of the key
		suffixes.Rules = append(suffixes.Rules, Rule{Key: fmt.Sprintf("*:method-%d", i), Limit: 1})
	}
	bad, err := suffixes.Snapshot()
	if err != nil {
		b.Fatal(err)
	}
	for _, bb := range []struct {
		name, key string
		s         *Snapshot
		want      bool
	}{
		{"exact", "exact:key", s, true},
		{"last-of-1000-globs", "service-999:orders", s, true},
		{"none-of-1000-globs", "service-1000:orders", s, false},
		{"last-of-1000-suffixes", "frontend:method-999", bad, true},
		{"none-of-1000-suffixes", "frontend:method-1000", bad, false},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := bb.s.Match(bb.key); ok != bb.want {
					b.Fatal(ok)
				}
			}
		})
	}
}
