// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"errors"
	"fmt"
	"time"
)

// The bounds of one message. The sender checks a message when it encodes it,
// and the receiver when it decodes it. Either refuses a message that is beyond
// these bounds as a whole. Accepted lists what each bound is for.
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

// Accept is one line of the table of what is accepted.
type Accept struct {
	// Message and Field are the names in headgate.proto.
	Message, Field string

	// Unit is what Least and Most count.
	Unit string

	// Least and Most are the smallest and the largest value that is accepted.
	Least, Most float64
}

const (
	inBytes  = "bytes"
	inRows   = "rows"
	inMillis = "ms"
	inMicros = "µs"
	float32s = 3.4028234663852886e38 // the largest
	float64s = 1.7976931348623157e308
)

// Accepted is the table of what is accepted, of every message family. The tests
// send each of its bounds, and more, to the decoders.
var Accepted = []Accept{
	{"UpdateRequest", "host", inBytes, 1, MaxKeyLength},

	{"Usage", "key_lengths", inRows, 0, MaxKeys},
	{"Usage", "key_lengths each", inBytes, 1, MaxKeyLength},
	{"Usage", "algorithm", inBytes, 0, MaxAlgorithmLength},
	{"Usage", "allowed", "tokens", 0, MaxCount},
	{"Usage", "rejected", "tokens", 0, MaxCount},
	{"Usage", "elapsed_ms", inMillis, 1, float64(MaxElapsed / time.Millisecond)},
	{"Usage", "elapsed_ms_each", inMillis, 1, float64(MaxElapsed / time.Millisecond)},
	{"Usage", "weights", "part of the limit", 0, 1},
	{"Usage", "wants", "events/s", 0, float32s},
	{"Usage", "costs", "tokens", 0, float32s},

	{"Grants", "weights", "part of the limit", 0, 1},
	{"Grants", "bursts", "tokens", 0, float32s},
	{"Grants", "used", "events/s", 0, float32s},
	{"Grants", "tokens", "tokens", 0, float32s},
	{"Grants", "lease_ms", inMillis, 0, float64(MaxLease / time.Millisecond)},
	{"Grants", "lease_ms_each", inMillis, 0, float64(MaxLease / time.Millisecond)},
	{"Grants", "floor", "kind", 0, 3},

	{"Takes", "key_lengths", inRows, 0, MaxTakes},
	{"Takes", "key_lengths each", inBytes, 1, MaxKeyLength},
	{"Takes", "withdrawn", inRows, 0, MaxWithdrawn},
	{"Takes", "tokens", "tokens", -MaxTokens, MaxTokens},
	{"Takes", "waits", inMicros + " + 2", 0, float64(MaxWait/time.Microsecond) + 2},
	{"Takes", "told", "tokens", -float32s, float32s},
	{"Takes", "told_ms", inMillis, 0, float64(MaxElapsed / time.Millisecond)},

	{"Taken", "by", "number", 1, 1<<32 - 1},
	{"Taken", "answers", inMicros + " × 2, + 1 if taken", 0, float64(MaxWait/time.Microsecond)*2 + 1},
	{"Taken", "left", "tokens", -float32s, float32s},
	{"Taken", "short", "tokens", -MaxTokens, MaxTokens},

	{"Withdrawals", "batches", inRows, 0, MaxWithdrawn},

	{"Claims", "rows", inRows, 0, MaxKeys},
	{"Claim", "key", inBytes, 1, MaxKeyLength},
	{"Claim", "host", inBytes, 1, MaxKeyLength},
	{"Claim", "has", "events/s or slots", 0, MaxAmount},
	{"Claim", "bands", inRows, 0, MaxBands},
	{"Band", "clients", "clients", 1, MaxCount},
	{"Band", "wants", "events/s or slots", 0, MaxAmount},

	{"Lease", "amount", "events/s or slots", 0, float64s},
	{"Lease", "safe", "events/s or slots", 0, float64s},
	{"Lease", "lasts_ms", inMillis, 0, float64(MaxLease / time.Millisecond)},
	{"Lease", "refresh_ms", inMillis, 0, float64(MaxLease / time.Millisecond)},
	{"Lease", "learns_ms", inMillis, 0, float64(MaxLease / time.Millisecond)},
	{"Lease", "algorithm", inBytes, 0, MaxAlgorithmLength},
	{"Lease", "refused", inBytes, 0, MaxReasonLength},

	{"Gossip", "key_lengths", inRows, 0, MaxMeshRows},
	{"Gossip", "key_lengths each", inBytes, 1, MaxKeyLength},
	{"Gossip", "used", "tokens", 0, MaxTokens},
	{"Gossip", "left", "tokens", -float32s, float32s},
}

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
