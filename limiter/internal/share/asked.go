// SPDX-License-Identifier: Apache-2.0

package share

// Asked counts the events that a host's own tokens did not cover, where the host has a
// grant and its key's owner can be asked for more.
type Asked struct {
	// Asks is how often the owner was asked for an event, or ahead for a loan. Granted
	// is how often it granted that. Withheld is how many events it was not asked for,
	// because the host had asked too often.
	Asks, Granted, Withheld int64

	// Lent is how many tokens the owner lent beside events and ahead of them.
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
