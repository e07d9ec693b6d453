// SPDX-License-Identifier: Apache-2.0

package doormanconfig_test

import (
	"fmt"

	"github.com/headgate/headgate/dynamicconfig/doormanconfig"
)

func ExampleImport() {
	limits, err := doormanconfig.Import("resources.yaml", []byte(`
resources:
  - identifier_glob: "*"
    capacity: 500
    safe_capacity: 5
    algorithm: {kind: PROPORTIONAL_SHARE, lease_length: 60, refresh_interval: 16}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s", limits)
	// Output:
	// # Made of a Doorman resource config by `headgate limits import --from doorman`.
	// #
	// # Capacities are taken for events per second. Where one is of what may be in flight at once,
	// # write it as in `limit: 100 in-flight`.
	// #
	// # In Doorman, * and ? do not match a /. Here they do, so names that no resource matches there
	// # because of a / have a limit here.
	// defaults:
	//   # Doorman shares alike whatever the priority: its servers ask with 1 for clients that say 0.
	//   # Remove this line to serve higher priorities first.
	//   one_band: true
	//   recalculate: 0s # each request is decided anew, so that new clients do not wait
	// limits:
	//   - key: "*"
	//     limit: 500/s
	//     fallback: safe
	//     safe_capacity: 5/s
	//     algorithm: proportional-share
	//     lease: 60s
	//     refresh: 16s
}
