// SPDX-License-Identifier: Apache-2.0

package sql

import "time"

// now is the wall clock, for the times of versions.
func now() time.Time { return time.Now() }
