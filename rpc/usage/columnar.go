// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/internal/wire"
)

// Type URLs of a report and its answer: headgate.v1.Usage and headgate.v1.Grants.
const (
	ReportTypeURL = "type.googleapis.com/headgate.v1.Usage"
	GrantsTypeURL = "type.googleapis.com/headgate.v1.Grants"
)

// Codec is the limiting host's half of one payload type: it turns a report into
// a payload, and the answer to it into grants. Columnar is the built-in one.
// An algorithm with a request and a response of its own brings a Codec, and
// registers the Decider that understands it with an rpc.Mux.
//
// Implementations are safe for concurrent use.
type Codec interface {
	// EncodeReport returns the payload for r. It does not keep r. If it returns an error beside the
	// payload, that says why some keys have no row there that counts.
	EncodeReport(r *Report) (*anypb.Any, error)

	// DecodeGrants returns the grants in payload, which answers r: grant i
	// is for r.Keys[i]. An answer that does not fit r is refused whole. If it returns an error
	// beside the grants, that says why some keys have none.
	DecodeGrants(payload *anypb.Any, r *Report) (*Grants, error)
}

// Columnar is the Codec of the built-in messages, and the decider's half of
// it too. About 30 to 32 bytes a key go out, for keys of 24 bytes, and 12 come
// back. The zero value is ready. Safe for concurrent use.
//
// The wire rounds: weights down to a float32 in grants, and to the 8 bits of its
// upper half in reports; wants to the nearest 8 bits; bursts, used, tokens and
// costs to the nearest float32, at most math.MaxFloat32; elapsed to the nearest
// millisecond, leases down to one. Elapsed and leases never become 0. Counts and slots
// are exact.
type Columnar struct{}

var _ Codec = Columnar{}

// Field numbers of headgate.v1.Usage.
const (
	reportAlgorithm   = 1
	reportElapsed     = 2
	reportKeys        = 3
	reportKeyLengths  = 4
	reportAllowed     = 5
	reportRejected    = 6
	reportElapsedEach = 8
	reportCosts       = 10
	reportWeights     = 11
	reportWants       = 12
	reportSlots       = 14
)

var reportFields = [...]wire.Kind{
	reportAlgorithm: wire.Bytes, reportElapsed: wire.Varint, reportKeys: wire.Bytes, reportKeyLengths: wire.Varints,
	reportAllowed: wire.Varints, reportRejected: wire.Varints, reportElapsedEach: wire.Varints, reportCosts: wire.Words,
	reportWeights: wire.Bytes, reportWants: wire.Bytes, reportSlots: wire.Varints,
}

// EncodeReport returns r as a payload. It does not keep r. The error, an
// ErrPayload, is that of r.Check.
func (Columnar) EncodeReport(r *Report) (*anypb.Any, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	e := wire.NewEncoder()
	e.Text(reportAlgorithm, r.Algorithm)
	same := allSame(r.Elapsed)
	if same && r.Len() > 0 {
		e.Varint(reportElapsed, wire.Nearest(r.Elapsed[0]))
	}
	e.Strings(reportKeys, reportKeyLengths, r.Keys)
	e.Counts(reportAllowed, r.Allowed)
	e.Counts(reportRejected, r.Rejected)
	if !same {
		e.Varints(reportElapsedEach, r.Len(), 0, func(i int) uint64 { return wire.Nearest(r.Elapsed[i]) })
	}
	e.Floats(reportCosts, r.Cost, wire.Size32, true)
	e.Halves(reportWeights, r.Weight, wire.Weight16, false)
	e.Halves(reportWants, r.Wants, wire.Size16, true)
	e.Counts(reportSlots, r.Slots)
	return e.Payload(ReportTypeURL), nil
}

// DecodeReport reads payload into r, for the decider. It uses the memory that
// r's columns have, so that a decider which keeps r between calls allocates
// once for each message. All keys share one backing string of that message: a
// caller that keeps a key for longer must strings.Clone it.
//
// After an error, an ErrPayload, r is empty.
func (Columnar) DecodeReport(payload *anypb.Any, r *Report) error {
	message, err := wire.Body(payload, ReportTypeURL)
	if err == nil {
		err = r.read(message)
	}
	if err == nil {
		err = r.Check()
	}
	if err != nil {
		*r = Report{Keys: r.Keys[:0], Allowed: r.Allowed[:0], Rejected: r.Rejected[:0], Elapsed: r.Elapsed[:0], Weight: r.Weight[:0]}
	}
	// Rows of an earlier, longer message would keep its keys alive.
	clear(r.Keys[len(r.Keys):cap(r.Keys)])
	return err
}

func (r *Report) read(message []byte) (err error) {
	var f [len(reportFields)]wire.Run
	if err := wire.Parse(message, reportFields[:], f[:]); err != nil {
		return err
	}
	n := f[reportKeyLengths].Len()
	if err := wire.AtMost("keys", n, rpc.MaxKeys); err != nil { // before there is memory for them
		return err
	}
	if r.Algorithm != string(f[reportAlgorithm].Raw) { // most often it is the one before
		r.Algorithm = string(f[reportAlgorithm].Raw)
	}
	r.Keys = slices.Grow(r.Keys[:0], n)
	if err := wire.Keys(&f[reportKeys], &f[reportKeyLengths], n, false, func(key string) { r.Keys = append(r.Keys, key) }); err != nil {
		return err
	}
	if r.Allowed, err = f[reportAllowed].Counts("allowed", r.Allowed, n); err != nil {
		return err
	}
	if r.Rejected, err = f[reportRejected].Counts("rejected", r.Rejected, n); err != nil {
		return err
	}
	if r.Weight, err = f[reportWeights].Halves("weights", r.Weight, n); err != nil {
		return err
	}
	if r.Wants, err = wire.Optional(&f[reportWants], (*wire.Run).Halves, "wants", r.Wants, n); err != nil {
		return err
	}
	if r.Slots, err = wire.Optional(&f[reportSlots], (*wire.Run).Counts, "slots", r.Slots, n); err != nil {
		return err
	}
	if r.Cost, err = wire.Optional(&f[reportCosts], (*wire.Run).Floats, "costs", r.Cost, n); err != nil {
		return err
	}
	r.Elapsed, err = f[reportElapsedEach].Millis("elapsed", f[reportElapsed].Value, r.Elapsed, n, rpc.MaxElapsed)
	return err
}

// allSame reports whether all durations are the same.
func allSame(column []time.Duration) bool {
	for _, d := range column {
		if d != column[0] {
			return false
		}
	}
	return true
}

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

var grantsFields = [...]wire.Kind{
	grantsWeights: wire.Words, grantsBursts: wire.Words, grantsUsed: wire.Words, grantsLease: wire.Varint, grantsLeaseEach: wire.Varints,
	grantsFloor: wire.Varint, grantsTokens: wire.Words, grantsUnanswered: wire.Varints,
}

// EncodeGrants returns g, which answers n keys, as a payload, for the
// decider. It does not keep g. The error, an ErrPayload, is that of g.Check(n).
func (Columnar) EncodeGrants(g *Grants, n int) (*anypb.Any, error) {
	if err := g.Check(n); err != nil {
		return nil, err
	}
	e := wire.NewEncoder()
	e.Floats(grantsWeights, g.Weight, wire.Weight32, false)
	e.Floats(grantsBursts, g.Burst, wire.Size32, false)
	e.Floats(grantsUsed, g.Used, wire.Size32, false)
	switch {
	case n == 0:
	case allSame(g.Lease):
		e.Varint(grantsLease, wire.Down(g.Lease[0]))
	default:
		e.Varints(grantsLeaseEach, n, 0, func(i int) uint64 { return wire.Down(g.Lease[i]) })
	}
	e.Varint(grantsFloor, uint64(g.Floor))
	e.Floats(grantsTokens, g.Tokens, wire.Size32, true)
	e.Column(grantsUnanswered, len(g.Unanswered), func(i int) uint64 { return uint64(g.Unanswered[i]) })
	return e.Payload(GrantsTypeURL), nil
}

// DecodeGrants returns the grants in payload: grant i is for r.Keys[i]. It
// keeps neither. The error is an ErrPayload.
func (Columnar) DecodeGrants(payload *anypb.Any, r *Report) (*Grants, error) {
	message, err := wire.Body(payload, GrantsTypeURL)
	if err != nil {
		return nil, err
	}
	g := new(Grants)
	if err := g.read(message, r.Len()); err != nil {
		return nil, err
	}
	if err := g.Check(r.Len()); err != nil {
		return nil, err
	}
	return g, nil
}

func (g *Grants) read(message []byte, n int) (err error) {
	var f [len(grantsFields)]wire.Run
	if err := wire.Parse(message, grantsFields[:], f[:]); err != nil {
		return err
	}
	g.Floor = Floor(min(f[grantsFloor].Value, uint64(FloorDrop)+1))
	if g.Weight, err = f[grantsWeights].Floats("weights", nil, n); err != nil {
		return err
	}
	if g.Burst, err = f[grantsBursts].Floats("bursts", nil, n); err != nil {
		return err
	}
	if g.Used, err = f[grantsUsed].Floats("used", nil, n); err != nil {
		return err
	}
	if g.Tokens, err = wire.Optional(&f[grantsTokens], (*wire.Run).Floats, "tokens", nil, n); err != nil {
		return err
	}
	if g.Lease, err = f[grantsLeaseEach].Millis("lease", f[grantsLease].Value, nil, n, rpc.MaxLease); err != nil {
		return err
	}
	unanswered := &f[grantsUnanswered]
	if rows := min(unanswered.Len(), n+1); len(unanswered.Raw) > 0 {
		g.Unanswered = make([]int, rows)
		return unanswered.EachVarint("unanswered", rows, func(i int, v uint64) { g.Unanswered[i] = int(min(v, rpc.MaxKeys)) })
	}
	return nil
}
