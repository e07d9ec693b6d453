// SPDX-License-Identifier: Apache-2.0

package stage

import "github.com/headgate/headgate/dynamicconfig"

// Migration is a pair of stages, the old and the new one: one answers, and the other may be
// measured. It is safe for concurrent use.
type Migration interface {
	Stage

	// SetMode changes which stage answers, and whether the other is measured. The stage
	// that begins to answer has no more tokens than the stage that answered before.
	SetMode(now Instant, mode dynamicconfig.Mode)

	// Reset says that the caller has filled the buckets of both stages: what was taken
	// before does not matter any more.
	Reset()

	// Counts is how the two answered so far while both were asked.
	Counts() Divergence
}

// SlotsMigration is Migration for slots in flight.
type SlotsMigration interface {
	Slots

	// SetMode changes which slots answer, and whether the others are measured.
	// Slots that are held stay held.
	SetMode(mode dynamicconfig.Mode)

	// Counts is how the two answered so far while both were asked.
	Counts() Divergence
}

// Divergence is the cost in tokens, or the slots, that callers asked for while a migration
// measured, by which side allowed it: both, only the old one, only the new one, or neither.
// While a key is over its limit, two limiters refuse different events, even if both are
// alike: compare OnlyOld with OnlyNew.
type Divergence struct {
	Both, OnlyOld, OnlyNew, Neither int64

	// Skipped is the cost, of none of the others, for which a remote stage was not
	// measured, because too much ran in the background.
	Skipped int64
}

// Since is what was counted after earlier.
func (d Divergence) Since(earlier Divergence) Divergence {
	return Divergence{
		d.Both - earlier.Both, d.OnlyOld - earlier.OnlyOld, d.OnlyNew - earlier.OnlyNew,
		d.Neither - earlier.Neither, d.Skipped - earlier.Skipped,
	}
}

// Plus is the sum of both.
func (d Divergence) Plus(other Divergence) Divergence {
	return d.Since(Divergence{-other.Both, -other.OnlyOld, -other.OnlyNew, -other.Neither, -other.Skipped})
}

// Migrator makes Migrations: package shadow has one.
type Migrator struct {
	// Stages returns a Migration that is in mode. background runs what takes
	// time, or returns false if too much is under way. If it returns nil, the side that answers decides alone.
	Stages func(now Instant, old, new Stage, mode dynamicconfig.Mode, background func(func()) bool) Migration

	// Slots is Stages for slots in flight.
	Slots func(old, new Slots, mode dynamicconfig.Mode) SlotsMigration
}
