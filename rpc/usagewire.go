// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of headgate.v1.Usage.
const (
	usageAlgorithm = iota + 1
	usageElapsed
	usageKeys
	usageKeyLengths
	usageAllowed
	usageRejected
	_
	usageElapsedEach
	_
	usageCosts
	usageWeights
	usageWants
)

// usageSize is how many bytes each field takes; 0 for one that is left out.
type usageSize struct {
	message                   int // all of it
	keys, lengths             int
	allowed, rejected, weight int
	elapsed                   uint64 // milliseconds, when all rows have the same
	elapsedEach, wants, cost  int
}

// measureUsage checks u and measures it in the one pass.
func measureUsage(u *Usage) (s usageSize, err error) {
	if err := u.checkShape(); err != nil {
		return s, err
	}
	if !utf8.ValidString(u.Algorithm) {
		return s, refuse("the algorithm's name is not valid UTF-8: %.100q", u.Algorithm)
	}
	var anyAllowed, anyRejected int64
	var anyWeight bool
	same := true
	for i, key := range u.Keys {
		if err := checkKey(i, len(key)); err != nil {
			return s, err
		}
		if err := checkUsed(i, u.Allowed[i], u.Rejected[i], u.Weight[i]); err != nil {
			return s, err
		}
		if err := checkElapsed(i, u.Elapsed[i]); err != nil {
			return s, err
		}
		s.keys += len(key)
		s.lengths += protowire.SizeVarint(uint64(len(key)))
		s.allowed += protowire.SizeVarint(uint64(u.Allowed[i]))
		s.rejected += protowire.SizeVarint(uint64(u.Rejected[i]))
		anyAllowed |= u.Allowed[i]
		anyRejected |= u.Rejected[i]
		anyWeight = anyWeight || weight16(u.Weight[i]) != 0
		same = same && u.Elapsed[i] == u.Elapsed[0]
	}
	if err := checkAmounts("wants", u.Wants); err != nil {
		return s, err
	}
	if err := checkAmounts("cost", u.Cost); err != nil {
		return s, err
	}
	s.wants, s.cost = 2*len(u.Wants), 4*len(u.Cost)
	if anyAllowed == 0 {
		s.allowed = 0
	}
	if anyRejected == 0 {
		s.rejected = 0
	}
	if anyWeight {
		s.weight = 2 * len(u.Keys)
	}
	switch {
	case len(u.Keys) == 0:
	case same:
		s.elapsed = elapsedMillis(u.Elapsed[0])
		s.message += 1 + protowire.SizeVarint(s.elapsed)
	default:
		for _, d := range u.Elapsed {
			s.elapsedEach += protowire.SizeVarint(elapsedMillis(d))
		}
	}
	for _, length := range [...]int{len(u.Algorithm), s.keys, s.lengths, s.allowed, s.rejected, s.weight, s.elapsedEach, s.wants, s.cost} {
		s.message += headerSize(length) + length
	}
	return s, nil
}

// appendUsage appends u, which measured s, in the order of its fields.
func appendUsage(b []byte, u *Usage, s usageSize) []byte {
	if u.Algorithm != "" {
		b = append(appendHeader(b, usageAlgorithm, len(u.Algorithm)), u.Algorithm...)
	}
	if s.elapsed != 0 {
		b = protowire.AppendTag(b, usageElapsed, protowire.VarintType)
		b = protowire.AppendVarint(b, s.elapsed)
	}
	if s.keys != 0 {
		b = appendHeader(b, usageKeys, s.keys)
		for _, key := range u.Keys {
			b = append(b, key...)
		}
		b = appendHeader(b, usageKeyLengths, s.lengths)
		for _, key := range u.Keys {
			b = protowire.AppendVarint(b, uint64(len(key)))
		}
	}
	if s.allowed != 0 {
		b = appendCounts(b, usageAllowed, u.Allowed, s.allowed)
	}
	if s.rejected != 0 {
		b = appendCounts(b, usageRejected, u.Rejected, s.rejected)
	}
	if s.elapsedEach != 0 {
		b = appendHeader(b, usageElapsedEach, s.elapsedEach)
		for _, d := range u.Elapsed {
			b = protowire.AppendVarint(b, elapsedMillis(d))
		}
	}
	if s.cost != 0 {
		b = appendFloats(b, usageCosts, u.Cost, size32)
	}
	if s.weight != 0 {
		b = appendHalves(b, usageWeights, u.Weight, weight16)
	}
	if s.wants != 0 {
		b = appendHalves(b, usageWants, u.Wants, size16)
	}
	return b
}

// usageFields is a Usage message taken apart and not yet checked.
type usageFields struct {
	algorithm, keys, has, wants            []byte
	elapsed                                uint64
	lengths, allowed, rejected, each, cost packed
}

func splitUsage(message []byte) (m usageFields, err error) {
	for len(message) > 0 {
		var f field
		if f, message, err = nextField(message); err != nil {
			return m, err
		}
		switch {
		case f.number == usageAlgorithm && f.kind == protowire.BytesType:
			m.algorithm = f.bytes
			if !utf8.Valid(f.bytes) { // as in any proto3 string
				return m, refuse("the algorithm's name is not valid UTF-8: %.100q", f.bytes)
			}
		case f.number == usageElapsed && f.kind == protowire.VarintType:
			m.elapsed = f.value
		case f.number == usageKeys && f.kind == protowire.BytesType:
			m.keys = f.bytes
		case f.number == usageKeyLengths && f.isVarints():
			m.lengths.add(f.bytes)
		case f.number == usageAllowed && f.isVarints():
			m.allowed.add(f.bytes)
		case f.number == usageRejected && f.isVarints():
			m.rejected.add(f.bytes)
		case f.number == usageWeights && f.kind == protowire.BytesType:
			m.has = f.bytes
		case f.number == usageElapsedEach && f.isVarints():
			m.each.add(f.bytes)
		case f.number == usageWants && f.kind == protowire.BytesType:
			m.wants = f.bytes
		case f.number == usageCosts && f.isFloats():
			m.cost.add(f.bytes)
		}
	}
	return m, nil
}

// readUsage reads message into u, over the memory that u has.
func readUsage(message []byte, u *Usage) error {
	m, err := splitUsage(message)
	if err != nil {
		return err
	}
	n := m.lengths.varints()
	if n > MaxKeys {
		return refuse("%d keys in one message; send at most %d", n, MaxKeys)
	}
	if len(m.algorithm) > MaxAlgorithmLength {
		return refuse("the algorithm's name has %d bytes; use at most %d", len(m.algorithm), MaxAlgorithmLength)
	}
	if u.Algorithm != string(m.algorithm) { // most often it is the one before
		u.Algorithm = string(m.algorithm)
	}
	if err := readKeys(&m, u, n); err != nil {
		return err
	}
	if u.Allowed, err = readCounts("allowed", &m.allowed, u.Allowed, n); err != nil {
		return err
	}
	if u.Rejected, err = readCounts("rejected", &m.rejected, u.Rejected, n); err != nil {
		return err
	}
	if u.Weight, err = halves("weights", m.has, u.Weight[:0], n); err != nil {
		return err
	}
	for i := range n {
		if err := checkUsed(i, u.Allowed[i], u.Rejected[i], u.Weight[i]); err != nil {
			return err
		}
	}
	if u.Wants, err = readWants(m.wants, u.Wants, n); err != nil {
		return err
	}
	if u.Cost, err = amounts("cost", &m.cost, u.Cost, n); err != nil {
		return err
	}
	return readElapsed(&m, u, n)
}

// readKeys cuts the keys out of one string, so that they cost one allocation.
func readKeys(m *usageFields, u *Usage, n int) error {
	all := string(m.keys)
	u.Keys = slices.Grow(u.Keys[:0], n)
	for i := range n {
		length, ok := m.lengths.next()
		if !ok {
			return refuse("row %d: the key's length is not a varint", i)
		}
		if length == 0 || length > MaxKeyLength {
			return keyError(i, length)
		}
		if length > uint64(len(all)) {
			return refuse("row %d: the key has %d bytes, but only %d are left; lengths and keys must agree", i, length, len(all))
		}
		u.Keys = append(u.Keys, all[:length])
		all = all[length:]
	}
	if len(all) != 0 || len(m.lengths.raw) != 0 {
		return refuse("%d bytes of keys and %d of lengths are left after %d keys; lengths and keys must agree", len(all), len(m.lengths.raw), n)
	}
	return nil
}

func readCounts(name string, c *packed, out []int64, n int) ([]int64, error) {
	if len(c.raw) == 0 {
		return zeros(out, n), nil
	}
	if values := c.varints(); values != n {
		return out, refuse("%d values of %s for %d keys; send one for each, or leave the column out", values, name, n)
	}
	out = slices.Grow(out[:0], n)[:n]
	for i := range out {
		v, ok := c.next()
		if !ok || v > MaxCount {
			return out, refuse("row %d: %s is %d; counts are varints in [0, 2^53]", i, name, v)
		}
		out[i] = int64(v)
	}
	if len(c.raw) != 0 {
		return out, refuse("%s ends in a varint that is cut short", name)
	}
	return out, nil
}

// readWants is nil if there are none.
func readWants(raw []byte, out []float64, n int) ([]float64, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	out, err := halves("wants", raw, out, n)
	if err == nil {
		err = checkAmounts("wants", out)
	}
	return out, err
}

func readElapsed(m *usageFields, u *Usage, n int) error {
	u.Elapsed = zeros(u.Elapsed, n)
	if len(m.each.raw) != 0 {
		return readMillis("elapsed", &m.each, u.Elapsed, MaxElapsed, checkElapsed)
	}
	all := period(m.elapsed, MaxElapsed)
	if n > 0 {
		if err := checkElapsed(0, all); err != nil {
			return err
		}
	}
	for i := range u.Elapsed {
		u.Elapsed[i] = all
	}
	return nil
}
