// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
)

// bounded reports whether parts under f are of what no other host holds. If not,
// claimants get their parts whatever others have.
func bounded(f algorithm.Form) bool { return f != algorithm.FormNone && f != algorithm.FormStatic }

// unbound is what own gets of capacity under f, which does not bound it by what others hold.
func unbound(f algorithm.Form, capacity float64, own Band) float64 {
	if f == algorithm.FormStatic {
		return min(capacity, own.Wants)
	}
	return own.Wants
}

// part is what own, which is in t, gets of capacity under f: in O(log hosts) what the
// weigher of that form makes of all.
func part(f algorithm.Form, capacity float64, t tree, own Band) float64 {
	if !bounded(f) {
		return unbound(f, capacity, own)
	}
	all := t.all()
	if f == algorithm.FormDemand {
		return capacity * account.Ratio(own.Wants, all.wants)
	}
	if all.wants <= capacity {
		return own.Wants
	}
	if f == algorithm.FormFair {
		return min(own.Wants, t.level(capacity)*float64(own.Clients))
	}
	level := capacity / all.clients
	even := level * float64(own.Clients)
	if own.Wants <= even {
		return own.Wants
	}
	below, above := t.cut(level)
	left := max(level*below.clients-below.wants, 0)
	more := max(above.wants-level*above.clients, own.Wants-even)
	return min(even+(own.Wants-even)/more*left, own.Wants)
}
