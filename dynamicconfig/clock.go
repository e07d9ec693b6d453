// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import "time"

// now is the wall clock, for what people read.
func now() time.Time { return time.Now() }
