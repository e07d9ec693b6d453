// SPDX-License-Identifier: Apache-2.0

package elsewhere

import (
	"time"

	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/stage"
)

const (
	// longestNo is the longest time for which an owner's refusal stands: other
	// hosts give back tokens meanwhile, which the owner could not foresee.
	longestNo = time.Second

	// longestPause is longer than any pause.
	longestPause = time.Minute
)

// Refusal says until when asking is known not to help events of this cost or more
// whose callers wait no longer. It does not change; nil is none.
type Refusal struct {
	until   stage.Instant
	retry   stage.Instant // when the owner may have the tokens, or else until
	n       int64
	longest time.Duration
}

// Refuse is the owner's refusal of q, which may be granted after retry; 0 if the owner
// did not say.
func Refuse(q stage.Request, retry time.Duration) *Refusal {
	stands := retry
	if retry == 0 || retry > longestNo {
		stands = longestNo
	}
	r := &Refusal{n: q.N, longest: q.Longest, until: q.Now.Add(jittered(q.Now, stands))}
	if r.retry = r.until; retry > 0 {
		r.retry = q.Now.Add(retry)
	}
	return r
}

// Pause is a Refusal of every event for d.
func Pause(now stage.Instant, d time.Duration) *Refusal {
	return &Refusal{until: now.Add(d), retry: now.Add(d), longest: stage.Forever}
}

// Stands reports whether r stands for q.
func (r *Refusal) Stands(q stage.Request) bool {
	return r.Holds(q.Now) && q.N >= r.n && q.Longest <= r.longest
}

// Holds reports whether r stands for some events at now. An Instant that a caller chose
// far in the future does not make it stand for longer than usual.
func (r *Refusal) Holds(now stage.Instant) bool {
	return r != nil && now < r.until && r.until.Sub(now) <= longestPause
}

// Until is when r ends.
func (r *Refusal) Until() stage.Instant { return r.until }

// RetryAfter is how long a caller should wait that is refused at now, where the bucket
// says otherwise: until the first of the two may have the tokens.
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
