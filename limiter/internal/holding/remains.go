// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"math"
	"slices"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// remains are what a key had when its rule vanished, or changed to another kind
// of limit, or to a level that cannot show what is missing, such as a closed
// fallback's. If the rule comes back, the key has no second burst, and the demand
// that was stated. The Set's mu guards the remains of a live key.
type remains struct {
	tokens, burst float64
	limit         rate.Limit
	ruled         rate.Limit // the rule's limit, of which limit is a part
	at            stage.Instant
	counted       int64           // what the Rate that answers, or gave, had allowed by then
	returned      int64           // what a bucket elsewhere had got back by then of what that Rate counts
	gave          *report.Subject // the part that answered last, while none does; else nil
	remote        string          // the algorithm, if a bucket elsewhere knows what is missing, but for since
	here          bool            // the tokens were here nevertheless: that bucket was measured
	since         int64           // what was used here since that bucket knew all
	slots         *share.Slots    // retired; nil if there were none
	wants         [2]float64      // events/s, and slots, that the service stated; or Measured
}

// nothing is the remains of a key that had no rule before.
var nothing = remains{tokens: math.Inf(1), wants: [2]float64{share.Measured, share.Measured}}

// count has r begin with what the Rate of s has counted until now.
func (r *remains) count(s *report.Subject) {
	r.counted, r.returned = allowedBy(s), s.Rate.Returned()
}

// stated reports whether the service stated a demand.
func (r *remains) stated() bool { return max(r.wants[0], r.wants[1]) >= 0 }

// missing is how many tokens r lacks; 0 if r has none.
func (r *remains) missing() int64 {
	return stage.Level{Limit: r.limit, Burst: r.burst, Tokens: r.tokens}.Missing()
}

// follow has r fill as fast as a rule with another limit says.
func (r *remains) follow(limit rate.Limit) {
	if r.ruled > 0 && limit > 0 {
		r.limit, r.ruled = r.limit*limit/r.ruled, limit
	}
}

// gone is remains.remote if no pool knows what is missing, or if the host cannot tell.
const gone = "-"

// poolAfter is what remote, which is remains.remote, is after a change of plans from was, which
// may be nil, to next. The owner of a key has a pool under each of exact, auto and elastic
// that the key's rule mentions. Once one of them answers, those end that the rule does not
// mention. The one that answers goes on with the tokens of one that ends, unless it was
// there before.
func poolAfter(remote string, was, next *Plan) string {
	to := next.answering()
	switch {
	case !pooled(remote) || !pooled(to) || slices.Contains(next.pools(), remote):
		return remote
	case was.answering() == remote && len(was.pools()) == 1:
		return to
	default:
		return gone
	}
}

// pooled reports whether the owner of a key has one pool for this algorithm and others.
func pooled(algorithm string) bool {
	traits, _ := dynamicconfig.TraitsOf(algorithm)
	return traits.Pooled
}

// tokensAt is what is left for a new bucket.
func (r *remains) tokensAt(now stage.Instant) float64 {
	return r.tokens + float64(r.limit)*max(now.Sub(r.at), 0).Seconds()
}

// tokensFor is tokensAt for what is here or elsewhere: see before.tokensFor.
func (r *remains) tokensFor(here bool, now stage.Instant, hosts int) float64 {
	if here && r.remote != "" && !r.here {
		return min(r.tokensAt(now), r.burst) / float64(hosts)
	}
	return r.tokensAt(now)
}

// none reports whether nothing is lost by forgetting r, which may be nil: its
// bucket would be full by now, no slots are held, and no demand is stated.
func (r *remains) none(now stage.Instant) bool {
	return r == nil || !r.stated() && (r.slots == nil || !r.slots.Census().Busy()) && (r.limit <= 0 || r.tokensAt(now) >= r.burst)
}

// unit is the index in remains.wants of what s limits.
func unit(s *report.Subject) int {
	if s.Slots() != nil {
		return 1
	}
	return 0
}
