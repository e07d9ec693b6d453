// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"fmt"
)

// Store keeps versions. Implementations are safe for concurrent use, also by several
// processes. After an error that comes of a lost connection, the caller does not know
// whether the change was made: Newest tells.
type Store interface {
	// Append makes c the newest version. When it returns, the version outlives a crash.
	// The error is a *Conflict when c.Base is not the newest version.
	Append(ctx context.Context, c Change) (Version, error)

	// Newest returns the newest version without its Text, or ErrEmpty.
	Newest(ctx context.Context) (Version, error)

	// Get returns one version, or ErrNoVersion.
	Get(ctx context.Context, number int64) (Version, error)

	// List returns at most n versions without their Text, the newest first: those whose
	// number is less than before, or the newest if before is 0.
	List(ctx context.Context, before int64, n int) ([]Version, error)

	// Prune removes all versions but the newest keep, and returns how many it removed.
	// keep is 1 or more.
	Prune(ctx context.Context, keep int) (removed int64, err error)

	// Notify calls changed after what may be a change, until ctx ends. It may miss some.
	// A store without notifications reports those of this process only.
	Notify(ctx context.Context, changed func())
}

// Trier is a Store that can say beforehand if it would refuse a change. A decider can: it knows which operator may
// change what.
type Trier interface {
	// Try returns the error with which Append would refuse c, or nil. It stores nothing.
	Try(ctx context.Context, c Change) error
}

// Restore makes a new version with the text of an earlier one. c.Text is not used; a c
// without a Message gets one that names the version.
func Restore(ctx context.Context, s Store, number int64, c Change) (Version, error) {
	old, err := s.Get(ctx, number)
	if err != nil {
		return Version{}, fmt.Errorf("restore version %d: %w", number, err)
	}
	if err := old.Intact(); err != nil {
		return Version{}, err
	}
	c.Text = old.Text
	if c.Message == "" {
		c.Message = fmt.Sprintf("restore version %d", number)
	}
	return s.Append(ctx, c)
}

// CheckPrune is for implementations of Store.Prune.
func CheckPrune(keep int) error {
	if keep < 1 {
		return fmt.Errorf("keep 1 version or more, and not %d", keep)
	}
	return nil
}
