// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"testing"

	"github.com/headgate/headgate/rpc/edge"
)

// A host that has lent its part away has some 1e-11 events/s of it, which is no limit that a
// program can use.
func TestNumbersThatArithmeticHasLeftOfNoneAreZero(t *testing.T) {
	limit, burst, left := bucketOf(edge.Policy{Known: true}, 2.2737367544323206e-11, 1e-8, -1e-8)
	if *limit != 0 || *burst != 0 || *left != 0 {
		t.Errorf("%v, %v, %v", *limit, *burst, *left)
	}
	const lowest = 1e-4 / 3600 // that a rule may have
	if limit, _, _ := bucketOf(edge.Policy{Known: true}, lowest, 1, 1); *limit != lowest {
		t.Errorf("the lowest limit of a rule is shown as %v", *limit)
	}
}
