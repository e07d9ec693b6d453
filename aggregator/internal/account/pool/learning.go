// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"math"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
)

// fresh is the value of learns for a key that is new everywhere: keys have not moved between
// owners for so long that no host holds anything of an earlier owner.
const fresh = math.MinInt64

// begin makes the pool of a key that is new here. It is full if the key is new everywhere. Else it is half full, until a
// report shows that there was an earlier owner: see learn.
func (k *holdings) begin(now time.Duration, limit algorithm.Limit) {
	k.since, k.at, k.swept, k.silent = now, now, now, now
	k.limit = limit.Rate
	k.pool = limit.Burst
	if k.learns == fresh {
		return
	}
	k.pool = limit.Burst / 2
	k.learns = now + min(learning, k.interval)
}

// learn empties the pool, when a host that is new here turns out to have a grant: this
// owner does not know what the earlier one had left.
func (k *holdings) learn(now time.Duration) {
	if now < k.since+k.interval {
		k.pool = min(k.pool, 0)
	}
}

// ungranted is what a host without a grant of this owner is charged with, of what it has used since its last report: its
// even share, or what it had before it fell silent. Its use under an earlier owner is not charged here. Nor is the use of long
// ago of a host that was cut off, as far as the limit has filled it in again since: all other hosts would pay for it.
func (k *holdings) ungranted(now time.Duration, limit algorithm.Limit, r *account.Report) float64 {
	whole, elapsed := k.whole(limit), upper(account.Seconds(r.Elapsed), account.Seconds(account.Overlap))
	switch beyond := r.Allowed - whole.Rate*elapsed; {
	case r.Has > 0 && now < max(k.learns, k.since+k.interval):
		return 0
	case now < k.learns: // fallbacks may use what the pool lacks; callers charged the rest after the fact
		return upper(beyond-whole.Burst/2, 0)
	default:
		return upper(r.Allowed*lower(recent/elapsed, 1), beyond)
	}
}

// listen notes what a host has while this new owner learns. The host gets no
// answer: it goes on with what it has, or with its fallback, and asks again.
func (k *holdings) listen(row *row, r *account.Report) {
	row.weight = lower(r.Has, upper(1-k.parts.Value(), 0)) // hosts have no more than the limit
	k.parts.Add(row.weight)
}
