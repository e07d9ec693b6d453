// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/limiter/internal/events"
	"github.com/headgate/headgate/limiter/internal/keys"
	"github.com/headgate/headgate/limiter/stage"
)

// Event is something that happened to a key of a Group.
type Event struct {
	Kind EventKind

	// Reason is the Decision's. Events that are not decisions have the zero Reason.
	Reason Reason

	// Key is the full key. Rule is the key of the rule that matched; empty when none did.
	Key, Rule string

	// Cost is in tokens; 0 where nothing was asked for.
	Cost int64

	// Wait is how long the caller was asked to wait.
	Wait time.Duration

	// At is when it happened; At.Time is the wall time.
	At stage.Instant
}

// EventKind is what kind of Event it is.
type EventKind uint8

const (
	// EventServed is an event that was allowed at once. Its Reason is Soft
	// if it was over a limit that is not enforced, and Bypassed if an override
	// lets everything through.
	EventServed EventKind = iota
	// EventWaited is an event that was allowed after a wait.
	EventWaited
	// EventTimedOut is an event that was refused because there were too few tokens now, or
	// within the wait that was possible. Its Reason is Limited, or Failed, InFlight or Canceled.
	EventTimedOut
	// EventTooLarge is an event that was refused because of its cost.
	EventTooLarge
	// EventNoBucket is an event that was refused because its key has no
	// limiter: the Reason says why.
	EventNoBucket
	// EventCreated is a key that came to life.
	EventCreated
	// EventRemoved is a key that was forgotten. What is decided about an event that was under way then
	// may come after it.
	EventRemoved
	// EventFallbackEntered is a key whose grant has run out, or whose bucket
	// elsewhere does not answer; under Auto, one without a grant whose owner does not
	// answer asks either. A new key begins in its fallback without it. Of a migration,
	// each side has this event and the next.
	EventFallbackEntered
	// EventFallbackLeft is a key that has a grant again, or whose remote bucket answers again.
	// There is no such event for a key that becomes idle, is removed, or whose rule changes.
	EventFallbackLeft
)

var eventNames = []string{"served", "waited", "timed-out", "too-large", "no-bucket", "created", "removed", "fallback-entered", "fallback-left"}

// String is the kind in words.
func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("event(%d)", k)
}

// bus carries what happens to keys to the listeners.
type bus struct{ *events.Bus[Event] }

// Decided implements keys.Listener.
func (b bus) Decided(now stage.Instant, key, rule string, n int64, v stage.Verdict) {
	e := Event{Kind: EventTimedOut, Reason: v.Reason, Key: key, Rule: rule, Cost: n, At: now}
	switch v.Reason {
	case Granted, Soft, Bypassed:
		if e.Kind, e.Wait = EventServed, v.Wait; v.Wait > 0 {
			e.Kind = EventWaited
		}
	case TooCostly, InvalidCost:
		e.Kind = EventTooLarge
	case Unmatched, TooManyKeys, InvalidKey:
		e.Kind = EventNoBucket
	}
	b.Send(e)
}

// Changed implements keys.Listener.
func (b bus) Changed(now stage.Instant, change keys.Change, key, rule string) {
	b.Send(Event{Kind: EventCreated + EventKind(change), Key: key, Rule: rule, At: now})
}
