// SPDX-License-Identifier: Apache-2.0

package etcd

import "time"

// now is the wall clock, for the times of versions.
func now() time.Time { return time.Now() }
