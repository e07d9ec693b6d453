// SPDX-License-Identifier: Apache-2.0

package demand

// Class is how often the demand of a key in use is looked at. That bounds how long a
// change goes unnoticed.
type Class uint8

const (
	// None is no Class.
	None Class = iota
	// Quick is of keys that ask their owner, with quickDemand events/s at least: there
	// are a few events in each turn, so a turn without any means something. Until the host
	// reports that its burst is over, other hosts lack what it holds. From calmDemand on,
	// nearly all that a host holds is a rate, and reports by chance would do more harm.
	Quick
	// Usual is of all other keys.
	Usual
	// Slow is of keys with less than slowDemand, in cost/s: less than an event in each
	// look says little, and to look at a key that was not used recently is to fetch it
	// from memory.
	Slow

	quickDemand = 20
	calmDemand  = 500
	slowDemand  = 5
)

// Class is that of a key whose demand d is. asks says that the host asks the key's owner.
func (d *Estimate) Class(asks bool) Class {
	switch wants := max(d.Reported(), d.Recent()); {
	case wants < slowDemand:
		return Slow
	case d.isQuick(wants, asks):
		return Quick
	}
	return Usual
}

// Sooner is the class of a key of class c that asks its owner and of which its host wants so
// much by now: c, or one that is looked at more often. The host has begun a burst, and a look at a
// slow key would not see its end in time.
func (d *Estimate) Sooner(c Class, wants float64) Class {
	switch {
	case c == None || wants < quickDemand*d.Unit():
		return c
	case d.isQuick(wants, true):
		return Quick
	}
	return min(c, Usual)
}

// isQuick reports whether the key is Quick if its host wants so much.
func (d *Estimate) isQuick(wants float64, asks bool) bool {
	unit := d.Unit()
	return asks && wants >= quickDemand*unit && wants < calmDemand*unit
}
