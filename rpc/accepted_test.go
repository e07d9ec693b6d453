// SPDX-License-Identifier: Apache-2.0

package rpc_test

import (
	"time"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/questions"
	"github.com/headgate/headgate/rpc/questions/carried"
)

// bounds are what is accepted of one field.
type bounds struct {
	// message and field are the names in headgate.proto.
	message, field string

	// unit is what least and most count.
	unit string

	// least and most are the smallest and the largest value that is accepted.
	least, most float64
}

const (
	inBytes  = "bytes"
	inRows   = "rows"
	inMillis = "ms"
	inMicros = "µs"
	float32s = 3.4028234663852886e38 // the largest
	float64s = 1.7976931348623157e308
)

// accepted is the table of what is accepted, of every message family. The tests send
// each of its bounds, and more, to the decoders, and docs/wire.md shows it.
var accepted = []bounds{
	{"UpdateRequest", "host", inBytes, 1, rpc.MaxKeyLength},

	{"Usage", "key_lengths", inRows, 0, rpc.MaxKeys},
	{"Usage", "key_lengths each", inBytes, 1, rpc.MaxKeyLength},
	{"Usage", "algorithm", inBytes, 0, rpc.MaxAlgorithmLength},
	{"Usage", "allowed", "tokens", 0, rpc.MaxCount},
	{"Usage", "rejected", "tokens", 0, rpc.MaxCount},
	{"Usage", "elapsed_ms", inMillis, 1, float64(rpc.MaxElapsed / time.Millisecond)},
	{"Usage", "elapsed_ms_each", inMillis, 1, float64(rpc.MaxElapsed / time.Millisecond)},
	{"Usage", "weights", "part of the limit", 0, 1},
	{"Usage", "wants", "events/s", 0, float32s},
	{"Usage", "costs", "tokens", 0, float32s},
	{"Usage", "slots", "1 + slots, or 0", 0, rpc.MaxCount},

	{"Grants", "weights", "part of the limit", 0, 1},
	{"Grants", "bursts", "tokens", 0, float32s},
	{"Grants", "used", "events/s", 0, float32s},
	{"Grants", "tokens", "tokens", 0, float32s},
	{"Grants", "lease_ms", inMillis, 0, float64(rpc.MaxLease / time.Millisecond)},
	{"Grants", "lease_ms_each", inMillis, 0, float64(rpc.MaxLease / time.Millisecond)},
	{"Grants", "floor", "kind", 0, 3},

	{"Takes", "key_lengths", inRows, 0, rpc.MaxTakes},
	{"Takes", "key_lengths each", inBytes, 1, rpc.MaxKeyLength},
	{"Takes", "withdrawn", inRows, 0, rpc.MaxWithdrawn},
	{"Takes", "tokens", "tokens", -rpc.MaxTokens, rpc.MaxTokens},
	{"Takes", "waits", inMicros + " + 2", 0, float64(rpc.MaxWait/time.Microsecond) + 2},
	{"Takes", "told", "tokens", -float32s, float32s},
	{"Takes", "told_ms", inMillis, 0, float64(rpc.MaxElapsed / time.Millisecond)},
	{"Takes", "more", "tokens", 0, rpc.MaxTokens},
	{"Takes", "wants", "tokens/s", 0, rpc.MaxTokens},
	{"Takes", "handed", "1 + part of the limit, or 0", 0, 2},
	{"Takes", "kept", "tokens", 0, rpc.MaxTokens},

	{"Taken", "by", "number", 1, 1<<32 - 1},
	{"Taken", "answers", inMicros + " × 2, + 1 if taken", 0, float64(rpc.MaxWait/time.Microsecond)*2 + 1},
	{"Taken", "left", "tokens", -float32s, float32s},
	{"Taken", "short", "tokens", -rpc.MaxTokens, rpc.MaxTokens},
	{"Taken", "lent", "tokens", 0, rpc.MaxTokens},

	{"Withdrawals", "batches", inRows, 0, rpc.MaxWithdrawn},

	{"Claims", "rows", inRows, 0, rpc.MaxKeys},
	{"Claim", "key", inBytes, 1, rpc.MaxKeyLength},
	{"Claim", "host", inBytes, 1, rpc.MaxKeyLength},
	{"Claim", "has", "events/s or slots", 0, rpc.MaxAmount},
	{"Claim", "bands", inRows, 0, rpc.MaxBands},
	{"Band", "clients", "clients", 1, rpc.MaxCount},
	{"Band", "wants", "events/s or slots", 0, rpc.MaxAmount},

	{"Lease", "amount", "events/s or slots", 0, float64s},
	{"Lease", "safe", "events/s or slots", 0, float64s},
	{"Lease", "lasts_ms", inMillis, 0, float64(rpc.MaxLease / time.Millisecond)},
	{"Lease", "refresh_ms", inMillis, 0, float64(rpc.MaxLease / time.Millisecond)},
	{"Lease", "learns_ms", inMillis, 0, float64(rpc.MaxLease / time.Millisecond)},
	{"Lease", "algorithm", inBytes, 0, rpc.MaxAlgorithmLength},
	{"Lease", "refused", inBytes, 0, rpc.MaxReasonLength},

	{"Gossip", "key_lengths", inRows, 0, rpc.MaxMeshRows},
	{"Gossip", "key_lengths each", inBytes, 1, rpc.MaxKeyLength},
	{"Gossip", "used", "tokens", 0, rpc.MaxTokens},
	{"Gossip", "left", "tokens", -float32s, float32s},

	{"Usage", "answers", inRows, 0, carried.MaxCarried},
	{"Grants", "questions", inRows, 0, carried.MaxCarried},
	{"Answered", "json", inBytes, 0, carried.MaxAnswer},

	{"Question", "kind", inBytes, 1, questions.MaxKind},
	{"Question", "about", inBytes, 0, questions.MaxAbout},
}
