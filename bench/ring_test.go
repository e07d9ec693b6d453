// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"testing"

	farm "github.com/dgryski/go-farm"
	"github.com/uber/ringpop-go/hashring"
	"github.com/uber/ringpop-go/membership"

	"github.com/headgate/headgate/ringpop"
)

// BenchmarkRing looks up 4,096 keys of 24 bytes in random order, adds a host
// to so many, and builds a ring of so many; 100 points for each host.
func BenchmarkRing(b *testing.B) {
	keys := names(1 << 12)
	for _, n := range []int{10, 100, 1_000} {
		n = size(n, 20)
		var hosts []ringpop.Host
		var members []membership.Member
		for _, address := range addresses(n) {
			hosts = append(hosts, ringpop.Host{Address: address})
			members = append(members, member(address))
		}
		b.Run(fmt.Sprintf("do=lookup/hosts=%d", n), func(b *testing.B) {
			ring, err := ringpop.New(hosts, 0)
			if err != nil {
				b.Fatal(err)
			}
			old := oldRing(members)
			compare(b,
				contender{"headgate", func(i int) bool { return ring.Owner(keys[i%len(keys)]) != "" }},
				contender{"ringpop-go", func(i int) bool { _, ok := old.Lookup(keys[i%len(keys)]); return ok }},
			)
		})
		b.Run(fmt.Sprintf("do=add/hosts=%d/by=headgate", n), func(b *testing.B) {
			ring, err := ringpop.New(hosts, 0)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ring.With(ringpop.Host{Address: "10.9.9.9:7933"}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("do=add/hosts=%d/by=ringpop-go", n), func(b *testing.B) {
			ring := oldRing(members)
			b.ReportAllocs()
			for b.Loop() {
				ring.AddMembers(member("10.9.9.9:7933"))
				b.StopTimer()
				ring.RemoveMembers(member("10.9.9.9:7933"))
				b.StartTimer()
			}
		})
		b.Run(fmt.Sprintf("do=build/hosts=%d/by=headgate", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ringpop.New(hosts, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("do=build/hosts=%d/by=ringpop-go", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				oldRing(members)
			}
		})
	}
}

func oldRing(members []membership.Member) *hashring.HashRing {
	ring := hashring.New(farm.Fingerprint32, ringpop.DefaultPoints)
	ring.AddMembers(members...)
	return ring
}

// member is an address without labels.
type member string

func (m member) GetAddress() string        { return string(m) }
func (m member) Identity() string          { return string(m) }
func (member) Label(string) (string, bool) { return "", false }
