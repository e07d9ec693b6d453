// SPDX-License-Identifier: Apache-2.0

package rpc

// MaxGossip is the most rows in one Gossip.
const MaxGossip = 4096

// Gossip is what one host tells another of what it used of keys whose bucket
// every host holds. Counts are of all that was used, so that a message which
// is lost, late or delivered twice does no harm.
type Gossip struct {
	// From is who tells: a number at random and not 0, which a process keeps.
	From uint64

	// Version counts the rounds of From. Who has heard of a later one ignores
	// this.
	Version uint64

	// After is the round up to which the listener has heard all that it is to
	// count; at most Version. Of a key that it knows nothing of, and that was
	// Born later, all that is Used counts; of an older one nothing does, and
	// Left tells where to begin.
	After uint64

	// Rows are about different keys.
	Rows []Used
}

// Used is how much a host used of one key.
type Used struct {
	// Key is the full key, `group:name`; 1 to MaxKeyLength bytes.
	Key string

	// Born is the round in which the host began to count Tokens; at most
	// Version.
	Born uint64

	// Tokens is how many it used since then; at most MaxTokens. It is lower
	// than before when some were given back.
	Tokens uint64

	// Left is how many the host thinks that there are; finite, below 0 in debt.
	Left float64
}

// Check reports what in g is against the contract, naming the first such row,
// or nil. The error is an ErrPayload. Repeated keys are not looked for.
func (g *Gossip) Check() error {
	switch {
	case g.From == 0:
		return refuse("the sender's number is 0; choose another")
	case g.After > g.Version:
		return refuse("round %d comes after round %d", g.Version, g.After)
	case len(g.Rows) > MaxGossip:
		return refuse("%d rows in one message; send at most %d", len(g.Rows), MaxGossip)
	}
	for i := range g.Rows {
		row := &g.Rows[i]
		if err := checkKey(i, len(row.Key)); err != nil {
			return err
		}
		switch {
		case row.Born > g.Version:
			return refuse("row %d: counted since round %d, and it is round %d", i, row.Born, g.Version)
		case row.Tokens > MaxTokens:
			return refuse("row %d: %d tokens used; count at most 2^53", i, row.Tokens)
		case !finite(row.Left):
			return refuse("row %d: %v tokens are left; that is finite", i, row.Left)
		}
	}
	return nil
}
