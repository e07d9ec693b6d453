// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"maps"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig/internal/glob"
)

// None is a duration that is stated to be none, where 0 stands for the
// default: Rule.Learning, Recalculate, MaxWait and MaxDebt may be None. It is
// below 0, so that what is to last that long is over already.
const None time.Duration = -1

// Soft is the Rule.Enforce of a limit that is only reported: nothing is refused.
const Soft = -1.0

// Rule says what a key's limit is and how it is shared. Rules are values;
// do not change one that is part of a dynamicconfig.Snapshot. The fields from Refresh to
// Parent are for keys whose algorithm leases the limit out; those from MaxWait
// on say how one event is decided, and are not for slots in flight.
type Rule struct {
	// Key is an exact key or a glob. In a glob `*` stands for any run of
	// bytes, `?` for one byte, `[a-z]` and `[!a-z]` for a class, and `\`
	// takes the next byte literally. `*` matches `/` and `:` too.
	Key string

	// Limit is the cluster-wide capacity in events/s; finite, ≥ 0.
	// A zero Limit allows no events. With InFlight it is a whole number of
	// slots, at most MaxSlots.
	Limit rate.Limit

	// InFlight: Limit and SafeCapacity count slots, each taken by one event
	// from its beginning to its end, and not events/s.
	InFlight bool

	// Burst is the cluster-wide number of tokens a bucket may hold;
	// finite, ≥ 1, or 0 when Limit is 0 and with InFlight. Default: one
	// second of Limit, at least 1.
	Burst float64

	// Algorithm names how the limit is shared. When a Migration is set it
	// is ignored.
	Algorithm string

	// Parameters reach the algorithm; nil without any. The algorithm says
	// what they mean. There are none beside a Migration.
	Parameters map[string]string

	// Migration, when not nil, runs two algorithms side by side.
	Migration *Migration

	// Fallback rules while there is no valid grant.
	Fallback Fallback

	// SafeCapacity is the events/s (InFlight: slots) of one host under
	// FallbackSafe; ≥ 0.
	SafeCapacity rate.Limit

	// Lease is how long a grant may be used without a newer one; > 0.
	Lease time.Duration

	// IdleAfter is how long a key goes unused before a host forgets it
	// (once its buckets are full again); > 0.
	IdleAfter time.Duration

	// MaxKeys bounds how many keys may match a glob at once on one host, and
	// how many exact or auto keys an owner makes because they are asked for; > 0.
	MaxKeys int

	// Shared: all matching keys share one bucket, whose key is the pattern. That key means
	// the bucket even where the pattern does not match itself; only a rule with just this
	// Key comes before it.
	Shared bool

	// Private: keys hold personal data. Logs and status show a hash in place of
	// what the wildcards of Key match. See Shown.
	Private bool

	// Description is for people.
	Description string

	// Refresh is after how long who holds a lease should ask again; > 0, at
	// most half of Lease. Default: the cluster's UpdateInterval, at most
	// half of Lease.
	Refresh time.Duration

	// Learning is for how long an owner that is new to a key hands back what
	// hosts say they have; > 0, or None. Default: Lease.
	Learning time.Duration

	// Recalculate is for how long asking again gets the same answer; > 0, at
	// most Lease, or None. Default: 5s, at most Lease.
	Recalculate time.Duration

	// Overcommit is the part of the capacity that may be leased beyond it,
	// so that newcomers need not wait for what others still hold; in [0, 1],
	// default 0.
	Overcommit float64

	// Priority is the band of linked hosts that claim keys of this rule.
	// Higher bands are served first. Default 0.
	Priority int64

	// Priorities names the algorithm within a band, by its priority; nil
	// without any, at most MaxBands. Other bands use Algorithm.
	Priorities map[int64]string

	// OneBand: all hosts are one band, whatever their priority is.
	OneBand bool

	// Parent: the capacity is what the cluster above leases to this one, at
	// most Limit.
	Parent bool

	// MaxWait is the longest that an event waits for its turn; what would
	// wait longer is refused at once, and takes nothing. Callers may ask for
	// less. 0: as long as they like; None: not at all.
	MaxWait time.Duration

	// MaxDebt, when more than 0, lets events borrow: one that finds the
	// bucket out of debt happens at once, whatever it costs, and those after
	// it wait until the debt is paid. It is how long the debt that one leaves
	// behind may take to pay. 0 or None: events wait for their own tokens.
	MaxDebt time.Duration

	// MaxCost is the most tokens that one event may cost; finite, ≥ 1. It is
	// more than Burst only beside MaxDebt. 0: Burst.
	MaxCost float64

	// Enforce is the part of what is over the limit that is refused, in
	// (0, 1], or Soft; the rest is let through, takes no tokens, and is
	// counted as soft. 0, the default, is 1. See Enforced.
	Enforce float64

	// AskTimeout is how long an event waits for the answer of the key's owner
	// before Fallback decides; MinAskTimeout to MaxAskTimeout, default
	// DefaultAskTimeout. It is for algorithms that ask for each event: of those
	// that headgate has, exact and auto. Under another one it is 0. Higher means
	// fewer events that fall back when owners are slow, and events that wait for
	// longer when owners are gone.
	AskTimeout time.Duration

	// Override is what holds for the rule now, and is part of the fields above already;
	// nil if nothing does. See dynamicconfig.Snapshot.At. A dynamicconfig.Config ignores it.
	Override *Override
}

// Bypassed reports whether an Override lets everything through.
func (r *Rule) Bypassed() bool { return r.Override != nil && r.Override.Bypass }

// Algorithms are those of the rule, the old one of a migration first.
func (r *Rule) Algorithms() []string {
	if m := r.Migration; m != nil {
		return []string{m.From, m.To}
	}
	return []string{r.Algorithm}
}

// Answering is which of Algorithms answers; below 0 if none does.
func (r *Rule) Answering() int {
	if r.Migration == nil {
		return 0
	}
	return r.Migration.Mode.Answering()
}

// Enforced is the part of what is over the limit that is refused, in [0, 1].
func (r *Rule) Enforced() float64 {
	switch {
	case r.Enforce == Soft:
		return 0
	case r.Enforce > 0 && r.Enforce <= 1:
		return r.Enforce
	}
	return 1
}

// Costliest is the most tokens that one event may cost.
func (r *Rule) Costliest() float64 {
	if r.MaxCost > 0 {
		return r.MaxCost
	}
	return r.Burst
}

// MostDebt is the deepest debt, in tokens, that a charge may leave: a burst, what
// waits and debts borrow from the future, and one event of the largest cost.
// Without a bound, one wrong charge could close a key for years.
func (r *Rule) MostDebt() float64 { return r.MostDebtOf(float64(r.Limit), r.Burst) }

// MostDebtOf is MostDebt for a part of the rule's limit: rate events/s and burst events.
func (r *Rule) MostDebtOf(rate, burst float64) float64 {
	borrowed := 0.0
	if longest := max(r.MaxDebt, r.MaxWait); longest > 0 {
		borrowed = rate * longest.Seconds()
	}
	return burst + borrowed + r.Costliest()
}

// DefaultMaxWait is the longest wait of another program's event if the rule of its key
// has neither max_wait nor max_debt. It is quotaservice's.
const DefaultMaxWait = time.Second

// BucketKey is the key of the bucket by which key, which r matches, is decided: all keys of a
// shared rule have one, the rule's pattern. A nil Rule returns key.
func (r *Rule) BucketKey(key string) string {
	if r != nil && r.Shared {
		return r.Key
	}
	return key
}

// LongestWait is the longest that an event of another program waits for its turn:
// MaxWait, or, if the rule has none, MaxDebt and at least DefaultMaxWait. A nil Rule has
// DefaultMaxWait.
func (r *Rule) LongestWait() time.Duration {
	switch {
	case r == nil:
		return DefaultMaxWait
	case r.MaxWait != 0:
		return max(r.MaxWait, 0) // which may be None
	}
	return max(r.MaxDebt, DefaultMaxWait) // events wait for the debts that the rule lets others make
}

// Clone is r with maps and a Migration of its own. Empty maps become nil.
func (r Rule) Clone() Rule {
	if r.Migration != nil {
		m := *r.Migration
		r.Migration = &m
	}
	r.Parameters, r.Priorities = cloned(r.Parameters), cloned(r.Priorities)
	return r
}

func cloned[K comparable, V any](m map[K]V) map[K]V {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(m)
}

// Migration moves a key from one algorithm to another while traffic flows.
type Migration struct {
	// From and To name the old and the new algorithm.
	From, To string

	// Mode is the stage.
	Mode Mode
}

// Mode is the migration stage of a key.
type Mode uint8

const (
	// ModeDisabled bypasses the limit: all is allowed, nothing is counted.
	ModeDisabled Mode = iota
	// ModeOld uses the old limiter only.
	ModeOld
	// ModeOldShadowNew answers with the old limiter and measures the new.
	ModeOldShadowNew
	// ModeNewShadowOld answers with the new limiter and measures the old.
	ModeNewShadowOld
	// ModeNew uses the new limiter only.
	ModeNew
)

// Answering is which limiter answers: 0 is the old one, 1 the new one, and -1 none.
func (m Mode) Answering() int {
	switch m {
	case ModeOld, ModeOldShadowNew:
		return 0
	case ModeNew, ModeNewShadowOld:
		return 1
	default:
		return -1
	}
}

// Fallback rules a key while a host has no valid grant for it.
type Fallback uint8

const (
	// FallbackEven gives each host the limit divided by the hosts.
	FallbackEven Fallback = iota
	// FallbackOpen allows everything.
	FallbackOpen
	// FallbackClosed allows nothing.
	FallbackClosed
	// FallbackSafe gives each host the rule's SafeCapacity.
	FallbackSafe
)

// IsGlob reports whether r's Key has a wildcard, so that many keys may match
// it. A Key whose wildcards are all escaped is not a glob.
func (r *Rule) IsGlob() bool {
	g, err := glob.Compile(r.Key)
	return err == nil && !g.Exact()
}
