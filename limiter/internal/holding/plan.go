// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/share"
)

// Plan is what a rule wants of each of its keys. It does not change.
type Plan struct {
	Rule    *dynamicconfig.Rule
	Terms   []*share.Terms // by algorithm, the old one first
	Answers int            // which of Terms answers; below 0 if none does
}
