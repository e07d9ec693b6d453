// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"log/slog"
	"reflect"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/background"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
)

// Limiter is two limiters behind a mode, with the methods of one. Use New. It is safe
// for concurrent use. SetDemand does nothing: call it on the limiter of a Group.
type Limiter struct {
	*base
	pair *Pair
}

// base is a limiter.Limiter. Other packages cannot replace a field of an
// unexported type.
type base = limiter.Limiter

// Staged is a limiter that can be used as a stage: *limiter.Limiter,
// *limiter.Bucket and *Limiter.
type Staged interface{ Stage() stage.Stage }

// New returns a Limiter that migrates from old to new and starts in mode. A mode
// that does not exist counts as disabled. A limiter that is nil, also as a nil pointer,
// refuses everything. The Limiter does not compare slots in flight: see SlotsPair.
func New(old, new Staged, mode dynamicconfig.Mode) *Limiter {
	stages := [2]stage.Stage{}
	for i, l := range [2]Staged{old, new} {
		if v := reflect.ValueOf(l); v.IsValid() && (v.Kind() != reflect.Pointer || !v.IsNil()) {
			stages[i] = l.Stage()
		}
	}
	p := NewPair(stage.Now(), stages[0], stages[1], mode, background.New(maxBackground, slog.New(slog.DiscardHandler)).Run)
	return &Limiter{limiter.FromStage(p), p}
}

// maxBackground is the most requests to a remote shadow that run at a time.
const maxBackground = 64

// Limiter returns l as a *limiter.Limiter, for code that takes one.
func (l *Limiter) Limiter() *limiter.Limiter { return l.base }

// Mode is the mode in force.
func (l *Limiter) Mode() dynamicconfig.Mode { return l.pair.Mode() }

// SetMode changes the mode. The limiter that begins to answer has no more
// tokens than the limiter that answered before, so a change of mode gives
// callers no second burst.
func (l *Limiter) SetMode(mode dynamicconfig.Mode) { l.pair.SetMode(stage.Now(), mode) }

// Counts returns the counts since New, in all modes: they only grow, as metrics do. What was counted
// in one mode is the difference: note Counts when you call SetMode, and later use Since.
func (l *Limiter) Counts() stage.Divergence { return l.pair.Counts() }

// Migrator returns the stage.Migrator with which a Group carries out the
// migrations of its rules:
//
//	limiter.NewGroup(snapshot, hosts, limiter.WithMigration(shadow.Migrator()))
func Migrator() stage.Migrator {
	return stage.Migrator{
		Stages: func(now stage.Instant, old, new stage.Stage, mode dynamicconfig.Mode, background func(func()) bool) stage.Migration {
			return NewPair(now, old, new, mode, background)
		},
		Slots: func(old, new stage.Slots, mode dynamicconfig.Mode) stage.SlotsMigration {
			return NewSlotsPair(old, new, mode)
		},
	}
}
