// SPDX-License-Identifier: Apache-2.0

// Package shadow moves a key from one limiter to another while traffic flows.
//
//	                 ┌──────────────┐
//	Allow() ──┬────▶ │ primary: old │ ──▶ the answer
//	          │      └──────────────┘
//	          │      ┌──────────────┐
//	          └────▶ │ shadow:  new │ ──▶ counted: both, only old, only new, neither
//	                 └──────────────┘
//
// A Limiter stands in front of two and goes through the modes `old`,
// `old-shadow-new`, `new-shadow-old`, `new` (or `disabled`: everything passes)
// at any time:
//
//	l := shadow.New(oldLimiter, newLimiter, dynamicconfig.ModeOldShadowNew)
//	if l.Allow() { … }                          // the old one answers
//	c := l.Counts()                             // what would the new one say?
//	l.SetMode(limiter.Now(), dynamicconfig.ModeNew)
//
// Slots in flight are held in both limiters while both are asked, and in the
// shadow only as far as it would have given them. They stay with who gave them
// when the mode changes.
//
// A Group of package limiter does this by itself for rules with a `migrate`.
// Comparing answers is all that this package does: it does not decide when to
// go on to the next mode.
package shadow
