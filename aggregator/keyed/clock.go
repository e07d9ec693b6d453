// SPDX-License-Identifier: Apache-2.0

package keyed

import "time"

// clock is the time for states.
func clock() time.Time { return time.Now() }
