// SPDX-License-Identifier: Apache-2.0

package elsewhere

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/headgate/headgate/limiter/internal/budget"
	"github.com/headgate/headgate/limiter/stage"
)

// Failures log the calls that did not bring what they should: at most one warning of a kind per second of the clock, as
// calls that fail together may have begun at any time. Set Log. Keys are as logs may show them. Safe for concurrent use.
type Failures struct {
	Log *slog.Logger

	silent   budget.Budget // warnings of those that do not answer
	warned   atomic.Bool   // since a remote bucket answered last
	unlogged atomic.Int64  // failures since the last warning of them
	nonsense budget.Budget // warnings of answers that make no sense
	noBucket budget.Budget // warnings of owners that have no bucket for a key
	panics   budget.Budget // log lines about them
}

// Failed notes that a call brought no answer. first says that the one before was answered.
func (f *Failures) Failed(key, algorithm string, err error, first bool) {
	switch {
	case errors.Is(err, stage.ErrNonsense): // that says nothing about other keys
		if first && f.nonsense.Spend(stage.Now(), 1, 1) {
			f.Log.Warn("the answer of a key's owner, or of its remote bucket, makes no sense; the key falls back", "key", key, "algorithm", algorithm, "error", err)
		}
	case errors.Is(err, stage.ErrNoBucket): // nor does that
		if first && f.noBucket.Spend(stage.Now(), 1, 1) {
			f.Log.Warn("a key's owner has no bucket for the key; the key falls back", "key", key, "algorithm", algorithm, "error", err)
		}
	case errors.Is(err, stage.ErrBusy): // this host is busy; the remote may be well
	case !f.warned.Load() && f.silent.Spend(stage.Now(), 1, 1): // also if another remote answers again, or the first failure came too soon after a warning
		f.warned.Store(true)
		args := []any{"key", key, "algorithm", algorithm, "others", f.unlogged.Swap(0), "error", err}
		if errors.Is(err, context.DeadlineExceeded) {
			args = append(args, "hint", "if it is up, the network takes longer than ask_timeout, or than the timeout for Redis: raise that, or choose elastic, which asks nothing")
		}
		f.Log.Warn("a key's owner, or its remote bucket, does not answer; its keys fall back", args...)
	default:
		f.unlogged.Add(1)
	}
}

// Answers notes that the remote answers again for a key.
func (f *Failures) Answers(key, algorithm string) {
	if f.warned.Load() && f.warned.Swap(false) {
		f.Log.Info("a key's owner, or its remote bucket, answers again", "key", key, "algorithm", algorithm)
	}
}

// Panicked notes that the code of a Remote has panicked.
func (f *Failures) Panicked(key string, err error) {
	if f.panics.Spend(stage.Now(), 1, 1) {
		f.Log.Error("a remote bucket panicked", "key", key, "panic", err)
	}
}
