// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"context"
	"math"
	"time"
)

// AsLongAsTheRule is the Longest of an Ask whose caller would wait as long as the
// rule of the key lets it.
const AsLongAsTheRule time.Duration = math.MaxInt64

// Engine decides about asks. Implementations are safe for concurrent use. Package
// limiter/engine has the one that decides by a host's limits.
type Engine interface {
	// Decide decides one ask. It does not itself wait for tokens, but for a Wait. When ctx has ended,
	// a Take or a Hold takes nothing, and is Limited: the caller has gone.
	Decide(ctx context.Context, a Ask) Decision
}

// Ask is what an Engine decides about.
type Ask struct {
	Kind Kind

	// Key is the full key; not for Settle, Release and Wait.
	Key string

	// Cost is in tokens, at least 0 and for Charge at least 1. Release ignores it.
	Cost int64

	// Longest is how long the caller would wait for tokens, for Take and Hold; 0
	// and less: not at all. The rule's max_wait bounds it. Where the rule has none,
	// its max_debt and at least rule.DefaultMaxWait bound what other
	// programs say, and AsLongAsTheRule.
	Longest time.Duration

	// Own: Longest is this program's own setting, and not what another program says.
	Own bool

	// Held is that of an earlier Decision, for Settle, Release and Wait.
	Held any
}

// Kind is what an Ask is for.
type Kind uint8

const (
	// Take takes tokens if they are there in time. Release may give them back if
	// the caller leaves before its Wait is over.
	Take Kind = iota
	// Hold takes tokens that Settle or Release may give back.
	Hold
	// Settle says what the event of a Hold did cost. Less than was taken gives the
	// rest back, and more goes into debt.
	Settle
	// Release says that the event of a Hold, or of a Take that had to wait, did not
	// happen: the tokens go back as if they had never been taken.
	Release
	// Charge takes tokens that are used already, into debt if need be.
	Charge
	// Wait waits for the Wait of a Take that holds something, or until nothing limits its
	// key any more. If ctx ends before, it releases what is held, and is Limited.
	Wait
)
