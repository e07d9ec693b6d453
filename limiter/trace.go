// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"time"

	"github.com/headgate/headgate/limiter/internal/tracing"
	"github.com/headgate/headgate/limiter/stage"
)

// Traced is one decision about a key that is traced.
type Traced struct {
	Time   time.Time
	Cost   int64 // in tokens; 0 if Reason is Forbidden
	Reason Reason

	// Why says, if Reason is Forbidden, what the caller lacks: see Denied.
	Why error

	// Wait is how long the caller was asked to wait. RetryAfter is, if the event was
	// refused, after how long the same event would be allowed if no other caller came; 0 if
	// no wait would do, or if that is not known.
	Wait, RetryAfter time.Duration

	// By is what decided: "algorithm", "fallback", or "owner" where the algorithm asked
	// the key's owner for the event.
	By string
}

// MaxTraced is how many keys of a Group can be traced at once.
const MaxTraced = tracing.MaxKeys

// Trace begins, or ends, to remember the newest 256 decisions about key, refused ones
// among them. If key is the pattern of a shared rule, these are decisions about all keys of
// the rule. Trace returns false if MaxTraced keys are traced already. While a key is
// traced, a decision about it takes a few times as long, and decisions about other keys
// that go by more than a plain bucket take a few nanoseconds more. Slots in flight are
// not traced.
func (g *Group) Trace(key string, on bool) bool { return g.keys().Trace(key, on) }

// Denied remembers, if key is traced, that a caller was refused before its limit was looked
// at, because the caller may not use the key. why says what the caller lacks. Nothing is
// counted. Denied is safe for concurrent use. While no key is traced, it does nothing.
func (g *Group) Denied(key string, why error) {
	g.keys().Denied(key, tracing.Decided{Verdict: stage.Because(stage.Forbidden), At: stage.Now(), Why: why})
}

// Traced returns the newest decisions about key, the oldest first. It returns false if
// key is not traced.
func (g *Group) Traced(key string) ([]Traced, bool) {
	decided, ok := g.keys().Traced(key)
	if !ok {
		return nil, false
	}
	all := make([]Traced, len(decided))
	for i, d := range decided {
		all[i] = Traced{Time: d.At.Time(), Cost: d.N, Reason: d.Reason, Why: d.Why, Wait: d.Wait, RetryAfter: d.RetryAfter, By: sourceNames[d.By]}
	}
	return all, true
}

var sourceNames = map[stage.Source]string{stage.ByAlgorithm: "algorithm", stage.ByFallback: "fallback", stage.ByOwner: "owner"}
