// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/rowset"
	"github.com/headgate/headgate/internal/sum"
)

// weighed is an account whose rates are the parts that a Weigh makes of all demands.
type weighed struct {
	Account

	kept *account.Kept
}

// Configure implements account.Account.
func (k *weighed) Configure(then time.Duration, c *account.Config) {
	k.Account.Configure(then, c)
	if c.Rule != nil {
		k.kept = account.NewKept(c.Algorithm.Weigher, c.Settings)
	}
}

// Report implements account.Account. Without a part, host goes on with what it has, which counts
// as before: also if the weigher panics.
func (k *weighed) Report(now time.Duration, limit algorithm.Limit, host uint32, r *account.Report) (account.Grant, bool) {
	weighed := false
	defer func() {
		if !weighed {
			k.unanswered(now, limit, host, r)
		}
	}()
	part, known := k.partOf(now, limit, host, r)
	switch {
	case !known:
		return account.Grant{}, false
	case !account.Valid(part):
		return account.Grant{Weight: part}, true // the owner says whose defect that is
	}
	weighed, k.part = true, part
	return k.Account.Report(now, limit, host, r)
}

// unanswered takes in r, to which host gets no answer.
func (k *weighed) unanswered(now time.Duration, limit algorithm.Limit, host uint32, r *account.Report) {
	if i := k.rows.Find(host); i != rowset.None {
		k.rows.At(i).current = false
	}
	elsewhere := r.Elsewhere
	r.Elsewhere = true
	k.Account.Report(now, limit, host, r)
	r.Elsewhere = elsewhere
}

// partOf is the part of the limit that the weigher gives host, which says r; false if host has
// neither been weighed nor had a grant yet.
func (k *weighed) partOf(now time.Duration, limit algorithm.Limit, host uint32, r *account.Report) (part float64, known bool) {
	if !(rounded(r.Wants, limit) > 0 && limit.Rate > 0) {
		return 0, true
	}
	if k.kept.Stale(now, host, int(k.users)) {
		k.divide(now, limit, host, r)
	}
	part, known = k.kept.Part(host)
	i := k.rows.FindAt(k.found, host)
	return part, known || i != rowset.None && k.rows.At(i).current
}

// divide weighs all hosts, and the one that says r now.
func (k *weighed) divide(now time.Duration, limit algorithm.Limit, says uint32, r *account.Report) {
	for i, row := range k.rows.All {
		if host := k.rows.Host(i); host != says {
			k.kept.Add(host, algorithm.Demand{Wants: float64(row.wants), Has: row.weight, Clients: 1})
		}
	}
	k.kept.Add(says, algorithm.Demand{Wants: rounded(r.Wants, limit), Has: r.Has, Clients: 1})
	k.kept.Divide(now, limit.Rate)
}

// rounded is what a row has of wants.
func rounded(wants float64, limit algorithm.Limit) float64 {
	return float64(sum.Grains(reasonable(wants, limit)))
}
