// SPDX-License-Identifier: Apache-2.0

// Package shadow moves a key from one stage to another while traffic flows.
//
//	              ┌──────────────┐
//	Take ──┬────▶ │ primary: old │ ──▶ the answer
//	       │      └──────────────┘
//	       │      ┌──────────────┐
//	       └────▶ │ shadow:  new │ ──▶ counted: both, only old, only new, neither
//	              └──────────────┘
//
// A Pair asks one or both of two stages. Its mode says which: `old`,
// `old-shadow-new`, `new-shadow-old`, `new`, or `disabled`, in which all requests
// pass. The mode may change at any time. A SlotsPair is the same for slots in
// flight. A Limiter is a Pair with the methods of limiter.Limiter, and Migrator
// gives a limiter.Group a Pair for each key that its rules migrate.
//
//	p := shadow.NewPair(now, old, new, dynamicconfig.ModeOldShadowNew, background)
//	v, receipt := p.Take(ctx, request) // the old stage answers
//	p.Settle(now, receipt, actual)     // settles both stages
//	c := p.Counts()                    // how often did they agree?
//	p.SetMode(now, dynamicconfig.ModeNew)
//
// New does this for two limiters, such as the *rate.Limiter that a service has
// and the one that replaces it:
//
//	measured := shadow.New(limiter.FromRate(old), group.For(key), dynamicconfig.ModeOldShadowNew)
//	measured.Allow() // the old limiter answers
//
// The package only compares answers. It knows no rules and no keys, and it does not decide when to
// change the mode. A Pair decides without a lock; one lock serialises changes of its mode.
package shadow
