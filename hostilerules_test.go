// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
)

const (
	ownedKeys   = 500
	hostsPerKey = 20
)

// hostileRules are what is in force before and after: an interval is 500 ms, and
// whoever is silent for two of them does not count any more.
var hostileRules = fmt.Sprintf(`
defaults:
  update_interval: 500ms
  new_data_weight: 1
  decay_after: 700ms
  gc_after: 900ms
  max_owned_keys: %d
  max_hosts_per_key: %d
  max_keys: 100
  lease: 1s
limits:
  - {key: "honest:average", limit: 1000/s, burst: 100, algorithm: request-weighted, learning: 0s}
  - {key: "honest:pool", limit: 1000/s, burst: 100, algorithm: elastic}
  - {key: "honest:weighed", limit: 1000/s, burst: 100, algorithm: favour}
  - {key: "honest:lease", limit: 1000/s, algorithm: fair-share, learning: 0s, recalculate: 0s}
  - {key: "honest:exact", limit: 1000/s, burst: 100, algorithm: exact}
  - {key: "a:*", limit: 1000/s, algorithm: elastic}
  - {key: "b:*", limit: 1000/s, algorithm: request-weighted}
  - {key: "c:*", limit: 1000/s, algorithm: auto}
  - {key: "d:*", limit: 100/s, algorithm: exact}
  - {key: "e:*", limit: 20 in-flight, algorithm: fair-share}
  - {key: "f:*", limit: 100/s, algorithm: first-come}
  - {key: "g:0", limit: 100/s, algorithm: gossip}
  - {key: "g:1", limit: 100/s, algorithm: gossip}
`, ownedKeys, hostsPerKey)

// hostileChanges are made to hostileRules while messages come.
func hostileChanges(t *testing.T) (all []*dynamicconfig.Snapshot) {
	t.Helper()
	for _, change := range []*strings.Replacer{
		strings.NewReplacer("1000/s", "1000000000/s", "100/s", "0/s"),
		strings.NewReplacer("update_interval: 500ms", "update_interval: 100ms"),
		strings.NewReplacer("algorithm: elastic}", "algorithm: elastic, parent: true}", "20 in-flight", "1000 in-flight"),
		strings.NewReplacer("algorithm: elastic}", "algorithm: elastic, parameters: {overcommit: 1, horizon: 1s}}", "burst: 100", "burst: 1000000"),
		strings.NewReplacer(`"a:*", limit: 1000/s, algorithm: elastic`, `"a:*", limit: 1/h, algorithm: auto`, `"b:*"`, `"a*"`),
		strings.NewReplacer("algorithm: auto", "algorithm: exact, max_wait: 10s", "algorithm: exact}", "algorithm: auto}", `"d:*"`, `"d:1*"`),
		strings.NewReplacer("algorithm: fair-share", "algorithm: proportional-share, parent: true, priorities: {5: static, 0: none}"),
		strings.NewReplacer(`"b:*", limit: 1000/s, algorithm: request-weighted`, `"b:*", limit: 10/s, migrate: {from: elastic, to: request-weighted, mode: new-shadow-old}`),
		strings.NewReplacer(`"honest:`, `"gone:`, `"a:*"`, `"*"`),
		strings.NewReplacer("learning: 0s", "parent: true", "algorithm: request-weighted}", "algorithm: request-weighted-even-floor, parent: true}"),
		strings.NewReplacer("lease: 1s", "lease: 600ms", "algorithm: favour", "algorithm: favour, parameters: {repay: 1s}", "algorithm: gossip", "algorithm: drop-ratio"),
		strings.NewReplacer("algorithm: auto", "algorithm: no-such"), // which is refused
		strings.NewReplacer(fmt.Sprint("max_owned_keys: ", ownedKeys), "max_owned_keys: 100", fmt.Sprint("max_hosts_per_key: ", hostsPerKey), "max_hosts_per_key: 3"),
		strings.NewReplacer("1000/s, burst: 100", "0/s", "1000/s", "0/s"),
	} {
		text := change.Replace(hostileRules)
		if text == hostileRules {
			t.Fatal("a change changes nothing")
		}
		all = append(all, limits(t, text), limits(t, hostileRules))
	}
	return all
}
