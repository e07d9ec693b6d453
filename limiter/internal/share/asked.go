// SPDX-License-Identifier: Apache-2.0

package share

// Asked counts the events that a host's own tokens did not cover, where the host has a
// grant and its key's owner can be asked for more.
type Asked struct {
	// Asks is how many events the owner was asked for, and Granted how many of them it
	// granted. Withheld is how many events it was not asked for, because the host had
	// asked too often.
	Asks, Granted, Withheld int64

	// Lent is how many tokens the owner lent beside the events that it granted.
	Lent int64
}

// Plus is the sum of both.
func (a Asked) Plus(b Asked) Asked {
	return Asked{a.Asks + b.Asks, a.Granted + b.Granted, a.Withheld + b.Withheld, a.Lent + b.Lent}
}

// Since is what was counted after earlier.
func (a Asked) Since(earlier Asked) Asked {
	return Asked{a.Asks - earlier.Asks, a.Granted - earlier.Granted, a.Withheld - earlier.Withheld, a.Lent - earlier.Lent}
}
