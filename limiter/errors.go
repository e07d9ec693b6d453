// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"errors"

	"github.com/headgate/headgate/limiter/stage"
)

// Errors that callers distinguish with errors.Is. A wait returns them.
var (
	// ErrNever: waiting does not help; the cost is above the burst of this host, or the limit is zero.
	ErrNever = stage.ErrNever

	// ErrTooManyWaiters: too many callers wait for slots of the key on this host.
	ErrTooManyWaiters = stage.ErrTooManyWaiters

	// ErrUnmatched: no rule matches the key, and config denies such keys.
	ErrUnmatched = errors.New("no rule matches the key and unmatched keys are denied; add a rule")

	// ErrTooManyKeys: the key's rule has its max_keys on this host already.
	ErrTooManyKeys = errors.New("too many keys for the rule; raise its max_keys or make it shared")

	// ErrInFlight: the key's rule limits how much is in flight, and not a rate.
	ErrInFlight = errors.New("the rule limits slots in flight, not events; use Acquire or TryAcquire, and release")

	// ErrTooLong: the wait would be longer than the rule's max_wait, or the debt more than
	// its max_debt, or this host has no part of the limit now.
	ErrTooLong = errors.New("the wait would exceed the rule's max_wait or max_debt; ask for less, or try again later")

	// ErrFailed: the key's owner, or its remote bucket, has not answered, and the fallback is closed.
	ErrFailed = errors.New("the key's owner has not answered and the rule's fallback is closed; try again later")

	// ErrDropped: the limit rejects a part of all events by chance, and this was one.
	ErrDropped = errors.New("the limit rejects a part of all events by chance, and this one; try again later")

	// ErrInvalidKey: the key is empty or longer than rpc.MaxKeyLength. The zero Limiter has an empty key, and
	// so has the Limiter that FromRate and FromStage return for nil.
	ErrInvalidKey = errors.New("a key has 1 to 1024 bytes")
)

// noPart is the ErrTooLong of a host that has no part of the limit, and may get one with a report.
type noPart struct{}

func (noPart) Error() string { return "this host has no part of the limit now; try again later" }

func (noPart) Is(target error) bool { return target == ErrTooLong }
