// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of headgate.v1.Grants.
const (
	grantsWeights = iota + 1
	grantsBursts
	grantsUsed
	grantsLease
	grantsLeaseEach
	grantsFloor
	grantsTokens
	grantsUnanswered
)

// grantsSize is how many bytes each field takes; 0 for one that is left out.
type grantsSize struct {
	message              int // all of it
	weights, burst, used int
	lease                uint64 // milliseconds, when all rows have the same
	leaseEach, tokens    int
	unanswered           int
}

// measureGrants checks g and measures it in the one pass.
func measureGrants(g *Grants, n int) (s grantsSize, err error) {
	if err := g.Check(n); err != nil {
		return s, err
	}
	same := true
	for i := range n {
		if s.weights == 0 && weight32(g.Weight[i]) != 0 {
			s.weights = 4 * n
		}
		if s.burst == 0 && size32(g.Burst[i]) != 0 {
			s.burst = 4 * n
		}
		if s.used == 0 && size32(g.Used[i]) != 0 {
			s.used = 4 * n
		}
		same = same && g.Lease[i] == g.Lease[0]
	}
	switch {
	case n == 0:
	case same:
		if s.lease = leaseMillis(g.Lease[0]); s.lease != 0 {
			s.message += 1 + protowire.SizeVarint(s.lease)
		}
	default:
		for _, d := range g.Lease {
			s.leaseEach += protowire.SizeVarint(leaseMillis(d))
		}
	}
	s.tokens = 4 * len(g.Tokens)
	for _, row := range g.Unanswered {
		s.unanswered += protowire.SizeVarint(uint64(row))
	}
	for _, length := range [...]int{s.weights, s.burst, s.used, s.leaseEach, s.tokens, s.unanswered} {
		s.message += headerSize(length) + length
	}
	if g.Floor != FloorNone {
		s.message += 2
	}
	return s, nil
}

// appendGrants appends g, which measured s, in the order of its fields.
func appendGrants(b []byte, g *Grants, s grantsSize) []byte {
	if s.weights != 0 {
		b = appendFloats(b, grantsWeights, g.Weight, weight32)
	}
	if s.burst != 0 {
		b = appendFloats(b, grantsBursts, g.Burst, size32)
	}
	if s.used != 0 {
		b = appendFloats(b, grantsUsed, g.Used, size32)
	}
	if s.lease != 0 {
		b = protowire.AppendTag(b, grantsLease, protowire.VarintType)
		b = protowire.AppendVarint(b, s.lease)
	}
	if s.leaseEach != 0 {
		b = appendHeader(b, grantsLeaseEach, s.leaseEach)
		for _, d := range g.Lease {
			b = protowire.AppendVarint(b, leaseMillis(d))
		}
	}
	if g.Floor != FloorNone {
		b = protowire.AppendTag(b, grantsFloor, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(g.Floor))
	}
	if s.tokens != 0 {
		b = appendFloats(b, grantsTokens, g.Tokens, size32)
	}
	if s.unanswered != 0 {
		b = appendHeader(b, grantsUnanswered, s.unanswered)
		for _, row := range g.Unanswered {
			b = protowire.AppendVarint(b, uint64(row))
		}
	}
	return b
}

// grantsFields is a Grants message taken apart and not yet checked.
type grantsFields struct {
	weights, bursts, used, each, tokens packed
	unanswered                          packed
	lease, floor                        uint64
}

func splitGrants(message []byte) (m grantsFields, err error) {
	for len(message) > 0 {
		var f field
		if f, message, err = nextField(message); err != nil {
			return m, err
		}
		switch {
		case f.number == grantsWeights && f.isFloats():
			m.weights.add(f.bytes)
		case f.number == grantsBursts && f.isFloats():
			m.bursts.add(f.bytes)
		case f.number == grantsUsed && f.isFloats():
			m.used.add(f.bytes)
		case f.number == grantsLease && f.kind == protowire.VarintType:
			m.lease = f.value
		case f.number == grantsLeaseEach && f.isVarints():
			m.each.add(f.bytes)
		case f.number == grantsFloor && f.kind == protowire.VarintType:
			m.floor = f.value
		case f.number == grantsTokens && f.isFloats():
			m.tokens.add(f.bytes)
		case f.number == grantsUnanswered && f.isVarints():
			m.unanswered.add(f.bytes)
		}
	}
	return m, nil
}

// readGrants reads message as the answer about n keys.
func readGrants(message []byte, n int) (*Grants, error) {
	m, err := splitGrants(message)
	if err != nil {
		return nil, err
	}
	if err := checkFloor(m.floor); err != nil {
		return nil, err
	}
	g := &Grants{Floor: Floor(m.floor), Lease: make([]time.Duration, n)}
	if g.Weight, err = floats("weights", &m.weights, nil, n); err != nil {
		return nil, err
	}
	if g.Burst, err = floats("bursts", &m.bursts, nil, n); err != nil {
		return nil, err
	}
	if g.Used, err = floats("used", &m.used, nil, n); err != nil {
		return nil, err
	}
	for i := range n {
		if !isGrant(g.Weight[i], g.Burst[i], g.Used[i]) {
			return nil, grantError(i, g.Weight[i], g.Burst[i], g.Used[i])
		}
	}
	if g.Tokens, err = amounts("tokens", &m.tokens, nil, n); err != nil {
		return nil, err
	}
	if err := readLeases(&m, g); err != nil {
		return nil, err
	}
	if err := readUnanswered(&m.unanswered, g); err != nil {
		return nil, err
	}
	return g, nil
}

func readLeases(m *grantsFields, g *Grants) error {
	if len(m.each.raw) != 0 {
		return readMillis("lease", &m.each, g.Lease, MaxLease, checkLease)
	}
	all := period(m.lease, MaxLease)
	if err := checkLease(0, all); err != nil {
		return err
	}
	for i := range g.Lease {
		g.Lease[i] = all
	}
	return nil
}

// readUnanswered reads the rows without an answer; there are mostly none.
func readUnanswered(c *packed, g *Grants) error {
	if len(c.raw) == 0 {
		return nil
	}
	n := c.varints()
	if n > len(g.Lease) {
		return refuse("%d rows of %d are unanswered; name each once", n, len(g.Lease))
	}
	g.Unanswered = make([]int, n)
	for i := range g.Unanswered {
		row, ok := c.next()
		if !ok {
			return refuse("unanswered: row number %d is not a varint", i)
		}
		g.Unanswered[i] = int(min(row, MaxKeys)) // no row is MaxKeys
	}
	if len(c.raw) != 0 {
		return refuse("unanswered ends in a varint that is cut short")
	}
	return checkUnanswered(g.Unanswered, g.Lease)
}

// readMillis reads a column of milliseconds into out, which has a row for
// each key.
func readMillis(name string, c *packed, out []time.Duration, bound time.Duration, check func(int, time.Duration) error) error {
	if values := c.varints(); values != len(out) {
		return refuse("%d values of %s for %d keys; send one for each", values, name, len(out))
	}
	for i := range out {
		v, ok := c.next()
		if !ok {
			return refuse("row %d: %s is not a varint", i, name)
		}
		out[i] = period(v, bound)
		if err := check(i, out[i]); err != nil {
			return err
		}
	}
	if len(c.raw) != 0 {
		return refuse("%s ends in a varint that is cut short", name)
	}
	return nil
}
