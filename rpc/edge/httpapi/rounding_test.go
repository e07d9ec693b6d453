// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"testing"

	"github.com/headgate/headgate/rpc/edge"
)

// Under auto, a host that has used its part has some 1e-11 events/s of it: the key's owner has the
// tokens. That is no limit, and nothing left is no news.
func TestAPartWithoutARate(t *testing.T) {
	p := edge.Policy{Known: true, Limit: 100, Burst: 200}
	if limit, burst, left := bucketOf(p, 2.2737367544323206e-11, 2, -1e-8); *limit != 100 || *burst != 200 || left != nil {
		t.Errorf("%v, %v, %v", *limit, *burst, left)
	}
	if limit, burst, left := bucketOf(p, 25, 50, -1e-8); *limit != 100 || *burst != 200 || *left != 0 {
		t.Errorf("a quarter: %v, %v, %v", *limit, *burst, *left)
	}
	const lowest = 1e-4 / 3600 // that a rule may have
	if _, _, left := bucketOf(p, lowest, 1, 1); left == nil {
		t.Error("nothing is left under the lowest limit of a rule")
	}
}
