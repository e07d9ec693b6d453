// SPDX-License-Identifier: Apache-2.0

package ringpop

import (
	"slices"
	"strconv"
	"unsafe"

	"github.com/dgryski/go-farm"
)

// point is one place of a host on the circle: the hash in the upper 32 bits,
// the host's position among the sorted hosts in the lower. Points with the
// same hash thus lie in the order of their addresses, as ringpop has them,
// one comparison orders two points, and a lookup reads one cache line.
type point uint64

func makePoint(hash uint32, host int) point { return point(hash)<<32 | point(uint32(host)) }

func (p point) hash() uint32 { return uint32(p >> 32) }
func (p point) host() int    { return int(uint32(p)) }

// appendPoints appends n points of h, the host at position i, unsorted.
// Their places are those of ringpop: the hash of the address with the
// point's number behind it, or of the identity, '#' and the number.
func appendPoints(points []point, h Host, i, n int) []point {
	name := make([]byte, 0, max(len(h.Address), len(h.Identity))+8)
	if h.Identity == "" {
		name = append(name, h.Address...)
	} else {
		name = append(append(name, h.Identity...), '#')
	}
	for number := range n {
		numbered := strconv.AppendInt(name, int64(number), 10)
		points = append(points, makePoint(farm.Fingerprint32(numbered), i))
	}
	return points
}

// pointsOf returns the n sorted points of each host whose position is in news.
func pointsOf(hosts []Host, news []int, n int) []point {
	points := make([]point, 0, len(news)*n)
	for _, i := range news {
		points = appendPoints(points, hosts[i], i, n)
	}
	slices.Sort(points)
	return points
}

// fingerprint hashes a key. The hash only reads its bytes, so they need no
// copy; the compiler cannot see that through assembly.
func fingerprint(key string) uint32 {
	return farm.Fingerprint32(unsafe.Slice(unsafe.StringData(key), len(key)))
}
