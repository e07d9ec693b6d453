// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"errors"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

// SlotsPair is two Slots behind a mode. Use NewSlotsPair. It is safe for
// concurrent use.
//
// A side that begins to answer knows only the slots that it gave as the shadow.
// After a jump from ModeOld to ModeNew, callers may hold the slots of both
// limits. To avoid that, stay in the modes that measure for as long as a caller
// holds its slots.
type SlotsPair struct {
	phase
	sides [2]stage.Slots // old and new
}

var _ stage.SlotsMigration = (*SlotsPair)(nil)

// NewSlotsPair returns a SlotsPair that migrates from old to new and starts in
// mode. A mode that does not exist counts as disabled. Neither old nor new may be nil.
func NewSlotsPair(old, new stage.Slots, mode dynamicconfig.Mode) *SlotsPair {
	p := &SlotsPair{sides: [2]stage.Slots{old, new}}
	p.SetMode(mode)
	return p
}

// SetMode changes the mode. Slots that are held stay held.
func (p *SlotsPair) SetMode(mode dynamicconfig.Mode) {
	p.mode.Store(uint32(existing(mode)))
}

// TryAcquire implements stage.Slots. If both sides have the slots, the shadow
// holds them for as long as the primary does.
func (p *SlotsPair) TryAcquire(now stage.Instant, n int64) (stage.Hold, error) {
	in := roles[p.Mode()]
	if in.primary == none {
		return stage.Hold{}, nil
	}
	held, err := p.sides[in.primary].TryAcquire(now, n)
	return p.measure(now, in.shadow, n, held, err)
}

// Acquire implements stage.Slots. The shadow is asked once, when the primary's
// wait is over. If another side answers by then, the error is stage.ErrMoved.
func (p *SlotsPair) Acquire(ctx context.Context, n, priority int64) (stage.Hold, error) {
	in := roles[p.Mode()]
	if err := ctx.Err(); err != nil || in.primary == none {
		return stage.Hold{}, err
	}
	held, err := p.sides[in.primary].Acquire(ctx, n, priority)
	if err != nil && ctx.Err() != nil { // a caller that left was not refused
		return held, err
	}
	now := roles[p.Mode()]
	switch {
	case now.primary == in.primary:
		return p.measure(stage.Now(), now.shadow, n, held, err)
	case err != nil:
		return held, err
	}
	held.Void()
	return stage.Hold{}, stage.ErrMoved
}

// measure asks the shadow for n slots after the primary has answered. If the
// primary returned ErrMoved, measure does not ask the shadow: the caller asks again, and the
// shadow may be the one that answers then.
func (p *SlotsPair) measure(now stage.Instant, shadow role, n int64, held stage.Hold, err error) (stage.Hold, error) {
	if shadow == none || errors.Is(err, stage.ErrMoved) {
		return held, err
	}
	beside, refused := p.sides[shadow].TryAcquire(now, n)
	if errors.Is(refused, stage.ErrMoved) {
		return held, err
	}
	p.compare(shadow, err == nil, refused == nil, n)
	if err != nil {
		beside.Release()
		return held, err
	}
	return held.With(beside), nil
}

// Level implements stage.Slots. It returns the primary's level.
func (p *SlotsPair) Level(now stage.Instant) stage.Level {
	if in := roles[p.Mode()]; in.primary != none {
		return p.sides[in.primary].Level(now)
	}
	return unlimited
}
