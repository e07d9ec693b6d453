// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"time"

	"github.com/headgate/headgate/internal/exactbucket"
)

// NameExact is the name under which rules have a Bucket decide. It is no
// Algorithm: nothing is shared.
const NameExact = "exact"

// Never is longer than any wait.
const Never = exactbucket.Never

// Bucket is a token bucket that holds the whole limit of a key, for a decider
// that is asked per event. It loses no fraction of a token, however often it is
// asked.
//
// The zero Bucket allows nothing; use NewBucket. Times count from any fixed
// point. A time before the latest one counts as the latest. Not safe for
// concurrent use.
type Bucket struct{ account }

// account hides the embedded field and shows its methods: Take, Give, Charge,
// Lower, Level, Full, Rate and Burst.
type account = exactbucket.Bucket

// Verdict is the answer of a Bucket's Take.
type Verdict = exactbucket.Verdict

// BucketRule is how a Bucket fills, and which callers wait.
type BucketRule struct {
	// Limit is how the bucket fills and how much it holds. A Rate of 0 never
	// fills it. NaN and negative numbers count as 0.
	Limit

	// MaxWait bounds how long a caller may have to wait for its tokens. 0 does
	// not bound it; below 0, no caller waits.
	MaxWait time.Duration

	// MaxDebt, above 0, is how long the bucket may need to come out of debt.
	// With it, a caller borrows the missing tokens and goes on at once; the
	// next caller waits. Without it, each caller waits for its own tokens.
	MaxDebt time.Duration

	// MaxCost is the most that is taken at once; 0 is the burst. Without
	// MaxDebt it is at most the burst.
	MaxCost float64
}

// NewBucket returns a full bucket at now.
func NewBucket(now time.Duration, rule BucketRule) Bucket {
	return Bucket{exactbucket.New(now, rule.account())}
}

// Rule changes how b fills at now, and keeps the tokens as far as there is room.
// Under a lower rate or burst, a debt that is deeper than callers can make under
// rule becomes less in proportion.
func (b *Bucket) Rule(now time.Duration, rule BucketRule) {
	level, rate, burst := b.Level(now), b.Rate(), b.Burst()
	b.account.Rule(now, rule.account())
	if less := min(b.Rate()/rate, b.Burst()/burst); less > 0 && less < 1 {
		borrowed := b.Rate() * max(rule.MaxWait, rule.MaxDebt, 0).Seconds()
		if least := min(level*less, -b.Burst()-max(rule.MaxCost, b.Burst())-borrowed); level < least {
			b.Give(now, least-level)
		}
	}
}

func (r BucketRule) account() exactbucket.Rule {
	return exactbucket.Rule{Rate: r.Rate, Burst: r.Burst, MaxWait: r.MaxWait, MaxDebt: r.MaxDebt, MaxCost: r.MaxCost}
}
