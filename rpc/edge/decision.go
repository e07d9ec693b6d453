// SPDX-License-Identifier: Apache-2.0

package edge

import "time"

// Decision is what became of an Ask.
type Decision struct {
	// OK: the event may happen, after Wait. Of a Settle, a Release and a Charge: it
	// is done.
	OK     bool
	Reason Reason

	// Wait is how long the caller must wait before it acts; 0 unless OK.
	Wait time.Duration

	// RetryAfter is when as many tokens may be there, if no other caller takes
	// them; 0 when OK, or when it is not known.
	RetryAfter time.Duration

	// Policy is what the rule of the key says.
	Policy Policy

	// Limit is what this host's bucket gets, in events/s, and Burst what it
	// holds at most; both are 0 when there is no bucket, and +Inf when nothing
	// is limited.
	Limit, Burst float64

	// Left is what the bucket holds now; negative in debt. Of a Settle and a Release,
	// it and what the key's rule says are not known.
	Left float64

	// Held names what a Hold took, or a Take with a Wait, for the Engine that took it.
	// Only the first Settle or Release of it does anything. nil: nothing is held.
	Held any
}

// Policy is the limit of a key over all hosts. A host's bucket is a part of it.
type Policy struct {
	// Known: there is a bucket, and a rule that says what it gets.
	Known bool

	// Limit is in events/s, and Burst in events; of slots in flight both are
	// their number.
	Limit, Burst float64

	// MaxWait is the longest that an event may wait for tokens.
	MaxWait time.Duration
}

// Reason is why a Decision is what it is.
type Reason uint8

// Reasons. Those up to Bypassed are of decisions that are OK.
const (
	// Granted: the tokens were there, or will be after Wait.
	Granted Reason = iota
	// Soft: the event is over the limit, and the rule lets it through.
	Soft
	// Bypassed: an override of the limit lets everything through for now.
	Bypassed
	// Limited: not now; the tokens are not there in time.
	Limited
	// TooCostly: never; the cost is more than one event may cost.
	TooCostly
	// Unmatched: no rule matches the key, and such keys are denied.
	Unmatched
	// TooManyKeys: the key's rule has max_keys keys already.
	TooManyKeys
	// InvalidKey: the key is empty or too long.
	InvalidKey
	// InvalidCost: the cost is out of range.
	InvalidCost
	// Failed: the bucket did not answer, and the rule's fallback is closed.
	Failed
	// InFlight: the key's rule limits slots, which are taken and released.
	InFlight
	// Forbidden: the program may not do that with the key.
	Forbidden

	// Reasons is how many there are.
	Reasons int = iota
)

var reasonNames = [Reasons]string{
	"granted", "soft", "bypassed", "limited", "too-costly", "unmatched", "too-many-keys", "invalid-key", "invalid-cost", "failed", "in-flight", "forbidden",
}

// String is the word for r on the wire and in metrics, or `unknown`.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown"
}
