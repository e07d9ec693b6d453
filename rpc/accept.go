// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"errors"
	"fmt"
	"time"
)

// The bounds of one message. The sender checks a message when it encodes it,
// and the receiver when it decodes it. Either refuses a message that is beyond
// these bounds as a whole. docs/wire.md lists the fields that each bound is for.
const (
	// MaxKeyLength is the longest key, and the longest name of a host, in bytes.
	MaxKeyLength = 1024
	// MaxAlgorithmLength is the longest name of an algorithm, in bytes.
	MaxAlgorithmLength = 128
	// MaxReasonLength is the longest reason of a refused claim, in bytes.
	MaxReasonLength = 256

	// MaxKeys is the most rows of a report, or of claims.
	MaxKeys = 1 << 16
	// MaxTakes is the most takes in one message.
	MaxTakes = 4096
	// MaxMeshRows is the most rows that one host sends another in one message.
	MaxMeshRows = 4096
	// MaxBands is the most bands of one claim.
	MaxBands = 64
	// MaxWithdrawn is the most withdrawn batches in one message.
	MaxWithdrawn = 64

	// MaxCount is the largest count. Above it, float64 loses whole units, and
	// so above the two that follow.
	MaxCount = 1 << 53
	// MaxAmount is the largest amount of one claim.
	MaxAmount = 1 << 53
	// MaxTokens is the most tokens of one take, in either direction.
	MaxTokens = 1 << 53

	// MaxElapsed is the longest period that a report is about.
	MaxElapsed = 24 * time.Hour
	// MaxLease is the longest lease.
	MaxLease = 24 * time.Hour
	// MaxWait is the longest wait for tokens. A caller that would have to wait
	// for longer does not get them.
	MaxWait = 24 * time.Hour
)

// ErrPayload is wrapped by every error which says that a message does not
// hold to the contract. The message was refused whole, and sending it again
// will not help: the sender is broken, or is of another release.
var ErrPayload = errors.New("rpc: payload refused")

// Refuse returns an ErrPayload with the reason.
func Refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrPayload, fmt.Errorf(format, args...))
}

// CheckHost reports whether name can be a host's: 1 to MaxKeyLength bytes. The
// error, an ErrPayload, does not hold the name.
func CheckHost(name string) error {
	if len(name) == 0 || len(name) > MaxKeyLength {
		return Refuse("the host's name has %d bytes; it has 1 to %d", len(name), MaxKeyLength)
	}
	return nil
}
