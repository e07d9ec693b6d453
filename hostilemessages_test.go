// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc/headgatepb"
)

// forger makes messages of all families: some are valid and say absurd things,
// and some are broken. It is for one goroutine.
type forger struct {
	*rand.Rand

	honest []string // keys of honest hosts
	hosts  []string // their names
	member string   // the owner's own name, which any host may take if there are no certificates
	few    bool     // the message under way names honest keys, and comes from one of few hosts
	legal  bool     // the message under way is to be accepted, however absurd it is
}

// meanName is more than the mean length of the names in a forger's messages that
// are short enough to be accepted.
const meanName = 64

// pick is any of all.
func pick[T any](f *forger, all ...T) T { return all[f.IntN(len(all))] }

// message is a message, and which host it claims to come from.
func (f *forger) message() (host string, payload *anypb.Any) {
	f.legal, f.few = f.IntN(2) == 0, false
	var m proto.Message
	switch f.IntN(11) {
	case 0, 1, 2:
		m = f.usage()
	case 3, 4:
		m = f.claims()
	case 5, 6:
		m = f.takes()
	case 7:
		m = f.gossip()
	case 8:
		m = f.custom()
	case 9:
		m = f.question()
	default:
		m = &headgatepb.Withdrawals{Caller: f.caller(), Batches: column(f, f.IntN(f.bands()+1), f.batch)}
	}
	payload, err := anypb.New(m)
	if err != nil {
		return "forger", new(anypb.Any)
	}
	switch {
	case f.legal:
		return f.host(), payload
	case f.IntN(2) == 0:
		payload.Value = f.broken(payload.Value)
	}
	switch f.IntN(100) {
	case 0:
		payload.TypeUrl = pick(f, "", "/", "type.googleapis.com/", "x", "type.googleapis.com/no.such.Message", strings.Repeat("y", 1<<16))
	case 1:
		payload.TypeUrl = pick(f, "x/headgate.v1.", "type.googleapis.com/headgate.v1.") +
			pick(f, "Usage", "Claims", "Takes", "Gossip", "Withdrawals", "Question", "Grants", "Leases", "Taken", "Heard", "Answer")
	case 2:
		return f.host(), nil
	}
	return f.host(), payload
}

// broken is a message cut short, with bits that are not as they were, or with a
// part that stands twice.
func (f *forger) broken(b []byte) []byte {
	if len(b) == 0 {
		return []byte{byte(f.Uint32())}
	}
	at := f.IntN(len(b))
	switch f.IntN(4) {
	case 0:
		return b[:at]
	case 1:
		return append(b, b[at:]...)
	case 2:
		return append(b[:at:at], b[f.IntN(len(b)):]...)
	}
	for range 1 + f.IntN(8) {
		b[f.IntN(len(b))] ^= 1 << f.IntN(8)
	}
	return b
}

// number is a float that no host should send, or may send in earnest.
func (f *forger) number() float64 {
	if f.legal {
		return pick(f, 0, 1, 1e-300, 1<<53, 1000*f.Float64(), f.Float64())
	}
	return pick(f, 0, 1, 100, 1000, -1, 0.5, 1e-300, 1e18, -1e18, 3e38, -3e38, 1e300, 1<<53, 1<<53+2, -(1 << 53),
		math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, f.Float64()*1000, f.Float64(), f.ExpFloat64()*1e6)
}

func (f *forger) float32() float32 { return float32(f.number()) }

// count is a whole number that may be too large.
func (f *forger) count() uint64 {
	if f.legal {
		return pick(f, 1, 2, 1000, f.Uint64N(1000)+1, 86_400_000)
	}
	return pick(f, 0, 1, 2, 10, 1000, 1<<32, 1<<53, 1<<53+1, 1<<63, math.MaxUint64, f.Uint64N(1000), f.Uint64N(1e6), f.Uint64N(1<<53))
}

// half is the upper half of a float32, in two bytes.
func (f *forger) half() []byte {
	bits := math.Float32bits(pick(f, f.float32(), f.Float32(), 3e38, 1000*f.Float32()))
	return []byte{byte(bits >> 16), byte(bits >> 24)}
}

// rows is how many rows a message has: few, more than an owner takes one by one,
// or none.
func (f *forger) rows() int {
	switch f.IntN(200) {
	case 0:
		return 0
	case 1:
		return 65 + f.IntN(2000)
	case 2, 3, 4, 5:
		return 65 + f.IntN(100)
	}
	return 1 + f.IntN(6)
}

// column is a column of n values, or of too many or too few, or none.
func column[T any](f *forger, n int, value func() T) []T {
	switch k := f.IntN(30); {
	case k == 0:
		return nil
	case k == 1 && !f.legal:
		n++
	case k == 2 && !f.legal:
		n = max(n-1, 0)
	}
	all := make([]T, n)
	for i := range all {
		all[i] = value()
	}
	return all
}

// host is a name: of an honest host, of one of many, or one that nobody has.
//
// There are few on honest keys: strangers that take all places of a key
// (max_hosts_per_key) keep honest hosts out that are new to it, until they are forgotten.
func (f *forger) host() string {
	if f.few {
		return pick(f, append(f.hosts, "attacker-1", "attacker-2", "attacker-3", "attacker-7", f.member)...)
	}
	switch k := f.IntN(100); k {
	case 0, 1:
		switch {
		case f.legal:
			return strconv.Itoa(f.IntN(10_000)) + strings.Repeat("h", 1024-10)
		case k == 0:
			return ""
		}
		return strconv.Itoa(f.IntN(10_000)) + strings.Repeat("h", pick(f, 1000, 1024, 1<<16))
	case 2, 3, 4, 5, 6, 7:
		return pick(f, f.hosts...)
	case 8, 9, 10, 11:
		return f.member
	}
	return "attacker-" + strconv.Itoa(f.IntN(pick(f, 4, 100, 1_000_000)))
}

// key is a key: of honest hosts, of one rule or another, or of none.
func (f *forger) key() string {
	switch k := f.IntN(100); k {
	case 0, 1:
		switch {
		case f.legal:
			return "a:" + strconv.Itoa(f.IntN(10_000)) + strings.Repeat("k", 1024-10)
		case k == 1:
			return strconv.Itoa(f.IntN(10_000)) + strings.Repeat("k", pick(f, 1000, 1024, 5000))
		}
		return pick(f, "", "\x00", "\xff\xfe", ":", "*", strings.Repeat("k:", 100))
	case 2, 3, 4:
		return "norule:" + strconv.Itoa(f.IntN(1000))
	case 5, 6, 7, 8, 9, 10, 11, 12, 13, 14:
		f.few = true
		return pick(f, f.honest...)
	}
	return pick(f, "a", "b", "c", "d", "e", "f", "g") + ":" + strconv.Itoa(f.IntN(pick(f, 2, 50, 1_000_000)))
}

// keys are some keys, one after another, and their lengths.
func (f *forger) keys(n int) (all []byte, lengths []uint32) {
	same := f.IntN(4) == 0
	key := f.key()
	for i := range n {
		switch {
		case same && i > 0 && f.IntN(2) == 0: // a key that stands twice
		default:
			key = f.key()
		}
		all, lengths = append(all, key...), append(lengths, uint32(len(key)))
	}
	if !f.legal && f.IntN(50) == 0 && n > 0 {
		lengths[f.IntN(n)] = uint32(f.count())
	}
	return all, lengths
}
