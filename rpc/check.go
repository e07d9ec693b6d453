// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrPayload is wrapped by every error which says that a message does not
// hold to the contract. The message was refused whole, and sending it again
// will not help: the sender is broken, or is of another release.
var ErrPayload = errors.New("rpc: payload refused")

// MaxAlgorithmLength is the longest name of an algorithm, in bytes.
const MaxAlgorithmLength = 128

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrPayload, fmt.Errorf(format, args...))
}

// Check reports what in u is against the contract, naming the first such
// row, or nil. Repeated keys are not looked for. The error is an ErrPayload.
func (u *Usage) Check() error {
	if err := u.checkShape(); err != nil {
		return err
	}
	n := len(u.Keys)
	allowed, rejected, elapsed, weight := u.Allowed[:n], u.Rejected[:n], u.Elapsed[:n], u.Weight[:n]
	for i, key := range u.Keys {
		// All that checkRow does, in comparisons that are unsigned, so that one
		// refuses what is too low too.
		if uint(len(key)-1) >= MaxKeyLength || uint64(allowed[i]) > MaxCount || uint64(rejected[i]) > MaxCount ||
			!(weight[i] >= 0 && weight[i] <= 1) || uint64(elapsed[i]-1) >= uint64(MaxElapsed) {
			return u.checkRow(i)
		}
	}
	if err := checkAmounts("wants", u.Wants); err != nil {
		return err
	}
	return checkAmounts("cost", u.Cost)
}

// checkRow checks what every row i has.
func (u *Usage) checkRow(i int) error {
	if err := checkKey(i, len(u.Keys[i])); err != nil {
		return err
	}
	if err := checkUsed(i, u.Allowed[i], u.Rejected[i], u.Weight[i]); err != nil {
		return err
	}
	return checkElapsed(i, u.Elapsed[i])
}

// checkShape checks what is not about one row.
func (u *Usage) checkShape() error {
	if len(u.Keys) > MaxKeys {
		return refuse("%d keys in one message; send at most %d", len(u.Keys), MaxKeys)
	}
	if len(u.Algorithm) > MaxAlgorithmLength {
		return refuse("the algorithm's name has %d bytes; use at most %d", len(u.Algorithm), MaxAlgorithmLength)
	}
	return u.checkColumns()
}

func (u *Usage) checkColumns() error {
	n := len(u.Keys)
	if len(u.Allowed) != n || len(u.Rejected) != n || len(u.Elapsed) != n || len(u.Weight) != n {
		return refuse("columns disagree: %d keys, %d allowed, %d rejected, %d elapsed, %d weights; fill every column",
			n, len(u.Allowed), len(u.Rejected), len(u.Elapsed), len(u.Weight))
	}
	if err := checkOptional("wants", u.Wants, n); err != nil {
		return err
	}
	return checkOptional("costs", u.Cost, n)
}

// Check reports what in g is against the contract as an answer about n keys,
// naming the first such row, or nil. The error is an ErrPayload.
func (g *Grants) Check(n int) error {
	if len(g.Weight) != n || len(g.Burst) != n || len(g.Used) != n || len(g.Lease) != n {
		return refuse("the answer does not fit: %d keys, %d weights, %d bursts, %d used, %d leases; answer every key, in order",
			n, len(g.Weight), len(g.Burst), len(g.Used), len(g.Lease))
	}
	if err := checkOptional("tokens", g.Tokens, n); err != nil {
		return err
	}
	if err := checkFloor(uint64(g.Floor)); err != nil {
		return err
	}
	weight, burst, used, lease := g.Weight[:n], g.Burst[:n], g.Used[:n], g.Lease[:n]
	for i := range n {
		if !isGrant(weight[i], burst[i], used[i]) {
			return grantError(i, weight[i], burst[i], used[i])
		}
		if err := checkLease(i, lease[i]); err != nil {
			return err
		}
	}
	if err := checkUnanswered(g.Unanswered, g.Lease); err != nil {
		return err
	}
	return checkAmounts("tokens", g.Tokens)
}

// checkUnanswered checks rows that have no answer.
func checkUnanswered(rows []int, leases []time.Duration) error {
	last := -1
	for _, row := range rows {
		if row <= last || row >= len(leases) {
			return refuse("row %d is unanswered after row %d of %d; name each once, in order", row, last, len(leases))
		}
		if leases[row] != 0 {
			return refuse("row %d: unanswered, with a lease of %v; there is no grant without an answer", row, leases[row])
		}
		last = row
	}
	return nil
}

// checkOptional checks the length of a column that may be nil.
func checkOptional(name string, column []float64, n int) error {
	if column != nil && len(column) != n {
		return refuse("columns disagree: %d keys, %d %s; fill the column or leave it out", n, len(column), name)
	}
	return nil
}

// checkAmounts checks a column of amounts.
func checkAmounts(name string, column []float64) error {
	for i, v := range column {
		if !(v >= 0 && v <= math.MaxFloat64) {
			return refuse("row %d: %s is %v; it is finite and not negative", i, name, v)
		}
	}
	return nil
}

// The checks of one row are small enough to be inlined; what words an error
// is apart.

// CheckHost reports whether name can be a host's: 1 to MaxKeyLength bytes. The
// error, an ErrPayload, does not hold the name.
func CheckHost(name string) error {
	if err := hostError(name); err != nil {
		return refuse("%w", err)
	}
	return nil
}

func hostError(name string) error {
	if len(name) == 0 || len(name) > MaxKeyLength {
		return fmt.Errorf("the host has %d bytes; hosts have 1 to %d", len(name), MaxKeyLength)
	}
	return nil
}

func checkKey(row, length int) error {
	if length == 0 || length > MaxKeyLength {
		return keyError(row, uint64(length))
	}
	return nil
}

// keyError is the error of a key without bytes, or with too many.
func keyError(row int, length uint64) error {
	return refuse("row %d: the key has %d bytes; keys have 1 to %d", row, length, MaxKeyLength)
}

func checkUsed(row int, allowed, rejected int64, weight float64) error {
	// Unsigned, so that one comparison refuses negative counts too. A NaN
	// fails both comparisons of the weight.
	if uint64(allowed) > MaxCount || uint64(rejected) > MaxCount || !(weight >= 0 && weight <= 1) {
		return usedError(row, allowed, rejected, weight)
	}
	return nil
}

func usedError(row int, allowed, rejected int64, weight float64) error {
	if uint64(allowed) > MaxCount {
		return refuse("row %d: allowed is %d; counts are in [0, 2^53]", row, allowed)
	}
	if uint64(rejected) > MaxCount {
		return refuse("row %d: rejected is %d; counts are in [0, 2^53]", row, rejected)
	}
	return refuse("row %d: the weight is %v; weights are in [0, 1]", row, weight)
}

func checkElapsed(row int, elapsed time.Duration) error {
	if elapsed <= 0 || elapsed > MaxElapsed {
		return refuse("row %d: elapsed is %v; it is above 0 and at most %v", row, elapsed, MaxElapsed)
	}
	return nil
}

func isGrant(weight, burst, used float64) bool {
	return weight >= 0 && weight <= 1 && burst >= 0 && burst <= math.MaxFloat64 && used >= 0 && used <= math.MaxFloat64
}

func grantError(row int, weight, burst, used float64) error {
	if !(weight >= 0 && weight <= 1) {
		return refuse("row %d: the weight is %v; weights are in [0, 1]", row, weight)
	}
	if !(burst >= 0 && burst <= math.MaxFloat64) {
		return refuse("row %d: the burst is %v; bursts are finite and not negative", row, burst)
	}
	return refuse("row %d: used is %v; it is finite and not negative", row, used)
}

func checkLease(row int, lease time.Duration) error {
	if lease < 0 || lease > MaxLease {
		return refuse("row %d: the lease is %v; leases are in [0, %v]", row, lease, MaxLease)
	}
	return nil
}

func checkFloor(floor uint64) error {
	if floor > uint64(FloorDrop) {
		return refuse("floor %d is unknown; this release knows 0 to %d", floor, FloorDrop)
	}
	return nil
}
