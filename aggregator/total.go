// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/sum"
)

// total is the sum of demands.
type total struct{ allowed, rejected sum.Sum }

func (t *total) add(d algorithm.Rates) {
	t.allowed.Add(d.Allowed)
	t.rejected.Add(d.Rejected)
}

// replace takes old away and adds d.
func (t *total) replace(old, d algorithm.Rates) {
	if !t.allowed.ReplaceSmall(old.Allowed, d.Allowed) {
		t.allowed.Replace(old.Allowed, d.Allowed)
	}
	if !t.rejected.ReplaceSmall(old.Rejected, d.Rejected) {
		t.rejected.Replace(old.Rejected, d.Rejected)
	}
}

func (t *total) demand() algorithm.Rates {
	return algorithm.Rates{Allowed: t.allowed.Value(), Rejected: t.rejected.Value()}
}
