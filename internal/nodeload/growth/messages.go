// SPDX-License-Identifier: Apache-2.0

package growth

import (
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/nodeload/workload"
	"github.com/headgate/headgate/rpc/usage"
)

// perCall is how many keys a host reports to one owner at a time: as many as
// an owner among 50 has of 100,000.
const perCall = 2_000

// reports are what a host says of keys, in calls.
func reports(keys []string) ([]*anypb.Any, error) {
	var all []*anypb.Any
	for len(keys) > 0 {
		n := min(perCall, len(keys))
		u := usageOf(keys[:n])
		payload, err := usage.Columnar{}.EncodeReport(&u)
		if err != nil {
			return nil, err
		}
		all, keys = append(all, payload), keys[n:]
	}
	return all, nil
}

// usageOf is what a host has to say that used each of keys once.
func usageOf(keys []string) usage.Report {
	n := len(keys)
	return usage.Report{
		Algorithm: algorithm.NameElastic,
		Keys:      keys,
		Allowed:   fill(n, int64(1)),
		Rejected:  make([]int64, n),
		Elapsed:   fill(n, interval),
		Weight:    make([]float64, n),
		Wants:     fill(n, 1/interval.Seconds()),
	}
}

// evenGrants gives a host the even share of n keys that so many hosts use.
func evenGrants(n, hosts int) (*anypb.Any, error) {
	share := 1 / float64(hosts)
	g := usage.Grants{
		Weight: fill(n, share), Burst: fill(n, workload.Burst*share), Used: make([]float64, n), Tokens: fill(n, workload.Burst*share),
		Lease: fill(n, 10*interval),
	}
	return usage.Columnar{}.EncodeGrants(&g, n)
}

func fill[T any](n int, v T) []T {
	column := make([]T, n)
	for i := range column {
		column[i] = v
	}
	return column
}
