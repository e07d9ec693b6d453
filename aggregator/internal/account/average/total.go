// SPDX-License-Identifier: Apache-2.0

package average

import (
	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/internal/sum"
)

// total is the sum of demands.
type total struct{ allowed, rejected sum.Sum }

func (t *total) add(d account.Rates) {
	t.allowed.Add(d.Allowed)
	t.rejected.Add(d.Rejected)
}

// replace takes old away and adds d.
func (t *total) replace(old, d account.Rates) {
	if !t.allowed.ReplaceSmall(old.Allowed, d.Allowed) {
		t.allowed.Replace(old.Allowed, d.Allowed)
	}
	if old.Rejected != d.Rejected && !t.rejected.ReplaceSmall(old.Rejected, d.Rejected) { // as a rule, both are 0
		t.rejected.Replace(old.Rejected, d.Rejected)
	}
}

func (t *total) demand() account.Rates {
	return account.Rates{Allowed: t.allowed.Value(), Rejected: t.rejected.Value()}
}
