// SPDX-License-Identifier: Apache-2.0

// Package static is a list of hosts that is known beforehand, from flags, a
// file read at start, or a test:
//
//	members, err := static.New(
//		ringpop.Host{Address: "10.0.0.1:7933"},
//		ringpop.Host{Address: "10.0.0.2:7933"},
//	)
//	if err != nil {
//		return err
//	}
//	err = live.Run(ctx, members, nil)
//
// Out of scope: a list that changes (package hosted), and whether the hosts
// are up.
package static
