// SPDX-License-Identifier: Apache-2.0

// Package workload says which keys are decided about, under which rule and by which
// hosts, wherever nodeload measures. It does not know what is measured.
package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/ringpop"
)

// The limit of each key is far above what its hosts use, as limits mostly are.
const (
	limit = 1000

	// Burst of each key.
	Burst = 1000
)

// Snapshot is what all hosts are configured with. They use so many keys.
func Snapshot(keys int, interval time.Duration, algorithm string) (*dynamicconfig.Snapshot, error) {
	return dynamicconfig.Config{
		Name:       "nodeload",
		Properties: dynamicconfig.Properties{UpdateInterval: interval, MaxKeys: max(keys, 1)},
		Rules: []dynamicconfig.Rule{{
			Key: "load:*", Limit: limit, Burst: Burst, Algorithm: algorithm, MaxKeys: keys,
			// A key that is used rarely is still in use.
			IdleAfter: max(time.Hour, 10*interval),
		}},
	}.Snapshot()
}

// Keys are names of 24 bytes, which most names are about as long as.
func Keys(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("load:domain-%012d", i)
	}
	return all
}

// Members are the hosts at addresses, of which the node under test is the
// first. They are placed by their numbers, so that the node owns the same
// keys in every run.
func Members(addresses []string) []ringpop.Host {
	hosts := make([]ringpop.Host, len(addresses))
	for i, address := range addresses {
		hosts[i] = ringpop.Host{Address: address, Identity: fmt.Sprintf("host-%d", i)}
	}
	return hosts
}

// Pause waits for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
