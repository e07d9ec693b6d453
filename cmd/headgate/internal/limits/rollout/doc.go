// SPDX-License-Identifier: Apache-2.0

// Package rollout looks at what a change of limits rejects after it was stored, and takes it back
// if that is too much. Watch does that for one change. Steps makes a change in steps, each
// enforced for a larger part than the one before, and watches each of them.
//
// A decider is asked what was rejected, and it stores each step.
//
// Out of scope: how a change is made, checked and confirmed (package change).
package rollout
