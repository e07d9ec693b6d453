// SPDX-License-Identifier: Apache-2.0

package scenario

// What may go wrong in mishaps, in the order of Action.Odds.
var mishapNames = [3]string{"spike", "lose", "elect"}

// The places of mishaps in Action.Odds.
const (
	MishapSpike = iota
	MishapLose
	mishapElect
)
