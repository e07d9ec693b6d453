// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"math"

	"golang.org/x/time/rate"

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
	counted       int64        // what the Rate that answers had allowed by then
	remote        string       // the algorithm, if the tokens were elsewhere
	since         int64        // what was used here since they were elsewhere
	slots         *share.Slots // retired; nil if there were none
	wants         [2]float64   // events/s, and slots, that the service stated; or Measured
}

// nothing is the remains of a key that had no rule before.
var nothing = remains{tokens: math.Inf(1), wants: [2]float64{share.Measured, share.Measured}}

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

// tokensAt is what is left for a new bucket.
func (r *remains) tokensAt(now stage.Instant) float64 {
	return r.tokens + float64(r.limit)*max(now.Sub(r.at), 0).Seconds()
}

// none reports whether nothing is lost by forgetting r, which may be nil: its
// bucket would be full by now, no slots are held, and no demand is stated.
func (r *remains) none(now stage.Instant) bool {
	return r == nil || !r.stated() && (r.slots == nil || !r.slots.Census().Busy()) && (r.limit <= 0 || r.tokensAt(now) >= r.burst)
}

// left returns the remains that the State after st begins with: st's own remains, or its
// level if more is missing there. With parts, the next State needs to know how much was
// used, because a grant lends fewer tokens than its bucket holds.
func (st *State) left(now stage.Instant, hosts int, parts bool) remains {
	left := nothing
	if st.remains != nil {
		left = *st.remains
	}
	left.slots = st.holds()
	if !math.IsInf(left.tokens, 1) {
		left.tokens, left.at = st.earlier(now).Tokens, now
		left.since += st.since(now)
		left.counted = st.allowed()
	}
	if first := st.pair[0]; first == nil || slotsOf(first) != nil {
		return left
	}
	level, tells := st.own(now)
	if !tells {
		return left
	}
	if !level.Remote {
		lately := st.lately(now, st.Stage.Level(now), hosts)
		if r := st.answering(); r != nil && lately > level.Missing() { // more than a grant's bucket can show
			level = r.Rests(now)
			level.Tokens = level.Burst - float64(lately)
		} else if parts {
			level.Tokens = max(level.Tokens, level.Burst-float64(lately))
		}
	}
	more := math.IsInf(left.tokens, 1) || level.Missing() > left.missing() || level.Missing() == left.missing() && left.remote == ""
	if level.Limit < rate.Inf && (more || level.Remote) {
		left.tokens, left.burst, left.limit, left.at = level.Tokens, level.Burst, level.Limit, now
		left.ruled = st.rule.rule.Limit
		left.remote, left.since = "", 0
		if level.Remote {
			left.remote = st.rule.shares[answering(st.rule.rule)].Algorithm
		}
	}
	return left
}

// remainder returns the part of kept, which st left, that next must remember; nil if
// there is none.
func (st *State) remainder(now stage.Instant, kept remains, next *State) *remains {
	first := st.pair[0]
	if first != nil && next.pair[0] != first {
		if wants, stated := first.Part().Common().Stated(); stated {
			kept.wants[unit(first)] = wants
		}
	}
	switch {
	case next.Slots != nil:
		kept.slots = nil
	case next.pair[0] != nil:
		kept.follow(next.rule.rule.Limit)
		// A bucket elsewhere knows what was used, or has been charged with it. A bucket
		// here shows it, until the grant changes, but not that a bucket elsewhere knows it.
		shows := kept.remote == "" && (next.answering() == nil || !next.answering().Granted())
		if level := next.Stage.Level(now); kept.missing() == 0 || level.Remote || shows && level.Missing() >= kept.missing() {
			kept.tokens = math.Inf(1)
		}
		kept.counted = next.allowed()
	}
	if next.pair[0] != nil {
		kept.wants[unit(next.pair[0])] = share.Measured
	}
	if kept.slots == nil && math.IsInf(kept.tokens, 1) && !kept.stated() {
		return nil
	}
	return &kept
}

// earlier is the level that st's remains have after what st allowed since; its
// tokens are infinite if there is none. What st allowed makes no debt.
func (st *State) earlier(now stage.Instant) stage.Level {
	left := st.remains
	if left == nil || math.IsInf(left.tokens, 1) {
		return stage.Level{Limit: rate.Inf, Tokens: math.Inf(1)}
	}
	filled := min(left.tokensAt(now), left.burst)
	used := float64(st.since(now))
	return stage.Level{
		Limit: left.limit, Burst: left.burst, Tokens: max(filled-used, min(filled, 0)), Remote: left.remote != "",
	}
}

// since is what st allowed since its remains were as they are, as far as its own limit
// has not filled it in again while the remains were full. What nothing limited does not
// count.
func (st *State) since(now stage.Instant) int64 {
	if st.remains == nil || st.Stage == nil {
		return 0
	}
	limit := st.Stage.Level(now).Limit
	if limit >= rate.Inf {
		return 0
	}
	used := float64(max(st.allowed()-st.remains.counted, 0))
	filled := float64(limit) * max(now.Sub(st.remains.at), 0).Seconds()
	full := max(st.remains.tokensAt(now)-st.remains.burst, 0)
	return int64(max(math.Ceil(used-min(filled, full)-1e-6), 0))
}

// allowed is what the Rate that answers has ever allowed, here and elsewhere.
func (st *State) allowed() int64 {
	r := st.answering()
	if r == nil {
		return 0
	}
	return r.Bucket().Allowed() + st.pair[answering(st.rule.rule)].Part().Admitted()
}

// state states the demand of a key that has no parts, which is st's.
func (st *State) state(wants float64) *State {
	kept := nothing
	if st.remains != nil {
		kept = *st.remains
	}
	kept.wants = [2]float64{wants, wants}
	next := &State{Stage: st.Stage, Reason: st.Reason, rule: st.rule, used: st.used, remains: &kept}
	next.touched.Store(true)
	return next
}

// unit is the index in remains.wants of what s limits.
func unit(s *report.Subject) int {
	if slotsOf(s) != nil {
		return 1
	}
	return 0
}

// level is what st, which has a Stage, says about the tokens that are left, or else what
// its remains say.
func (st *State) level(now stage.Instant) stage.Level {
	level, tells := st.own(now)
	if earlier := st.earlier(now); !tells && earlier.Limit < rate.Inf {
		return earlier
	}
	return level
}

// own is level without the remains: what is unlimited says nothing, so there it is the
// level that rests. tells is false if nothing is limited.
func (st *State) own(now stage.Instant) (level stage.Level, tells bool) {
	if level = st.Stage.Level(now); level.Limit < rate.Inf {
		return level, true
	}
	if r := st.answering(); r != nil {
		if rests := r.Rests(now); !math.IsInf(rests.Tokens, 1) {
			return rests, true
		}
	}
	return level, false
}

// due returns how many tokens to charge a bucket elsewhere with that takes over from st:
// known if its algorithm is asked, because that bucket knows the rest already, and else
// used.
func (st *State) due(now stage.Instant, hosts int) (known, used int64, asked string) {
	if st.pair[0] != nil && st.Stage != nil {
		known = st.lately(now, st.Stage.Level(now), hosts)
	}
	earlier, left := st.earlier(now), st.remains
	switch {
	case left == nil:
		return known, known, ""
	case left.remote == "":
		return known, max(known, earlier.Missing()), ""
	}
	since := min(left.since+st.since(now), earlier.Missing())
	earlier.Tokens += float64(since) // what all hosts used
	before := evenly(earlier, hosts)
	return max(known-before, since), max(known, before+since), left.remote
}

// lately is what this host has used of late, as far as the parts of st, whose level
// it is, would not have filled in again. Of a bucket elsewhere it is an even part of
// what all hosts used. A grant's bucket does not tell what was used: the grant may lend
// fewer tokens than the bucket holds, or the bucket may be small and full. So a host with
// a grant has used at least what its fallback lacks by use, and no more than all parts
// ever allowed or took over.
func (st *State) lately(now stage.Instant, level stage.Level, hosts int) int64 {
	used, r := evenly(level, hosts), st.answering()
	if level.Remote || r == nil {
		return used
	}
	allowed := int64(0)
	for _, p := range st.parts() {
		allowed += rateOf(p.Part()).Bucket().Allowed() + p.Part().Admitted()
		if r := remoteOf(p.Part()); r != nil {
			allowed += r.TookOver()
		}
	}
	switch rests := r.Rests(now).Missing(); {
	case !r.Granted():
		return max(used, min(rests, allowed))
	case level.Limit < rate.Inf:
		return max(min(used, max(rests, allowed)), min(r.Spent(now), allowed))
	default:
		return rests
	}
}

// evenly is what is missing at level; of a bucket elsewhere, one host's even part.
func evenly(level stage.Level, hosts int) int64 {
	if level.Remote {
		return (level.Missing() + int64(hosts) - 1) / int64(hosts)
	}
	return level.Missing()
}

// stated is the demand that was stated in a unit, for kept or for what remains of
// earlier parts; Measured if none was.
func (st *State) stated(kept []*report.Subject, unit int) float64 {
	if len(kept) > 0 {
		if wants, ok := kept[0].Part().Common().Stated(); ok {
			return wants
		}
	} else if left := st.remains; left != nil {
		return left.wants[unit]
	}
	return share.Measured
}
