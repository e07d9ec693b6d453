// SPDX-License-Identifier: Apache-2.0

package elsewhere

import (
	"time"

	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/stage"
)

const (
	// longestRefusal is the longest time for which an owner's refusal stands: other
	// hosts give back tokens meanwhile, which the owner could not foresee.
	longestRefusal = time.Second

	// longestPause is longer than any pause.
	longestPause = time.Minute
)

// Refusal is until when asking is known not to help: for events like the last one that was refused, and
// for events like earlier ones. It does not change; nil is none.
type Refusal struct {
	refused
	earlier []refused // those that say something of more events, or for longer, than the last one does
}

// refused is the refusal of all events that cost n or more and whose callers wait for longest at most.
type refused struct {
	until   stage.Instant
	retry   stage.Instant // when the owner may have the tokens; until, or later
	n       int64
	longest time.Duration
}

// mostEarlier is how many earlier ones a Refusal keeps. Callers that wait ask without a budget: if each refusal
// replaced the one before, callers of two kinds would ask each time.
const mostEarlier = 7

// Refuse is the owner's refusal of q, which may be granted after retry; 0 if the owner
// did not say. before is the Refusal that there was.
func Refuse(q stage.Request, retry time.Duration, before *Refusal) *Refusal {
	stands := retry
	if retry == 0 || retry > longestRefusal {
		stands = longestRefusal
	}
	r := &Refusal{refused: refused{n: q.N, longest: q.Longest, until: q.Now.Add(jittered(q.Now, stands))}}
	r.retry = max(q.Now.Add(retry), r.until) // before that, this host would refuse without asking
	if before.Holds(q.Now) {
		r.keep(q.Now, before.refused)
	}
	for i := 0; before != nil && i < len(before.earlier); i++ {
		r.keep(q.Now, before.earlier[i])
	}
	return r
}

// keep adds e, an earlier one, to r if it stands for events for which r does not.
func (r *Refusal) keep(now stage.Instant, e refused) {
	if covered := r.n <= e.n && r.longest >= e.longest && r.until >= e.until; !covered && e.holds(now) && len(r.earlier) < mostEarlier {
		r.earlier = append(r.earlier, e)
	}
}

// Pause is a Refusal of every event for d.
func Pause(now stage.Instant, d time.Duration) *Refusal {
	return &Refusal{refused: refused{until: now.Add(d), retry: now.Add(d), longest: stage.Forever}}
}

// Stands reports whether r stands for q, and when the owner may have the tokens then: r does not
// stand for q any more by then.
func (r *Refusal) Stands(q stage.Request) (retry stage.Instant, ok bool) {
	if r == nil {
		return 0, false
	}
	if r.stands(q) {
		retry, ok = r.retry, true
	}
	for i := range r.earlier {
		if e := &r.earlier[i]; e.stands(q) && (!ok || e.retry > retry) {
			retry, ok = e.retry, true
		}
	}
	return retry, ok
}

func (r *refused) stands(q stage.Request) bool {
	return r.holds(q.Now) && q.N >= r.n && q.Longest <= r.longest
}

// Holds reports whether the last event that was refused would be at now.
func (r *Refusal) Holds(now stage.Instant) bool { return r != nil && r.holds(now) }

// holds reports whether r stands for some events at now. An Instant that a caller chose
// far in the future does not make it stand for longer than usual.
func (r *refused) holds(now stage.Instant) bool {
	return now < r.until && r.until.Sub(now) <= longestPause
}

// RetryAfter is how long a caller should wait whose event is refused at now as the last one was, where
// the bucket says otherwise: until the first of the two may have the tokens.
func (r *Refusal) RetryAfter(now stage.Instant, otherwise time.Duration) time.Duration {
	return Sooner(otherwise, r.retry.Sub(now))
}

// Sooner is the shorter of two waits. One that is not positive is not known.
func Sooner(a, b time.Duration) time.Duration {
	if b > 0 && (a <= 0 || b < a) {
		return b
	}
	return a
}

// jittered is d and up to a quarter more, so that hosts that were refused together
// do not ask together.
func jittered(now stage.Instant, d time.Duration) time.Duration {
	return d + time.Duration(bucket.Mix(uint64(now))%uint64(d/4+1))
}
