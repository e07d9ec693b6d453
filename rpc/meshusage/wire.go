// SPDX-License-Identifier: Apache-2.0

package meshusage

import (
	"slices"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/internal/wire"
)

// Type URLs of a Report and its answer: headgate.v1.Gossip and headgate.v1.Heard.
const (
	TypeURL      = "type.googleapis.com/headgate.v1.Gossip"
	HeardTypeURL = "type.googleapis.com/headgate.v1.Heard"
)

// Field numbers of headgate.v1.Gossip.
const (
	reportFrom = iota + 1
	reportVersion
	reportAfter
	reportKeys
	reportKeyLengths
	reportAges
	reportUsed
	reportLeft
)

var reportFields = [...]wire.Kind{
	reportFrom: wire.Fixed64, reportVersion: wire.Varint, reportAfter: wire.Varint, reportKeys: wire.Bytes,
	reportKeyLengths: wire.Varints, reportAges: wire.Varints, reportUsed: wire.Varints, reportLeft: wire.Words,
}

// Encode returns r as a payload. It does not keep r. The error, an ErrPayload, is
// that of r.Check. The wire has Left as the nearest float32.
func Encode(r *Report) (*anypb.Any, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	e, n := wire.NewEncoder(), len(r.Rows)
	e.Fixed64(reportFrom, r.From)
	e.Varint(reportVersion, r.Version)
	e.Varint(reportAfter, r.After)
	e.Keys(reportKeys, reportKeyLengths, n, func(i int) string { return r.Rows[i].Key })
	e.Varints(reportAges, n, 0, func(i int) uint64 { return r.Version - r.Rows[i].Born })
	e.Varints(reportUsed, n, 0, func(i int) uint64 { return r.Rows[i].Tokens })
	e.Words(reportLeft, n, func(i int) uint32 { return wire.Bits32(r.Rows[i].Left) })
	return e.Payload(TypeURL), nil
}

// Decode reads payload into r, for the receiver. It uses the memory that r has. All
// keys share one string of that message: a caller that keeps a key for longer must
// strings.Clone it. After an error, an ErrPayload, r is empty.
func Decode(payload *anypb.Any, r *Report) error {
	message, err := wire.Body(payload, TypeURL)
	*r = Report{Rows: r.Rows[:0]}
	if err == nil {
		err = r.read(message)
	}
	if err == nil {
		err = r.Check()
	}
	if err != nil {
		clear(r.Rows[:cap(r.Rows)])
		*r = Report{Rows: r.Rows[:0]}
	}
	return err
}

func (r *Report) read(message []byte) error {
	var f [len(reportFields)]wire.Field
	if err := wire.Parse(message, reportFields[:], f[:]); err != nil {
		return err
	}
	r.From, r.Version, r.After = f[reportFrom].Value, f[reportVersion].Value, f[reportAfter].Value
	n := f[reportKeyLengths].Len()
	if err := wire.AtMost("rows", n, rpc.MaxMeshRows); err != nil { // before there is memory for them
		return err
	}
	r.Rows = slices.Grow(r.Rows, n)
	if err := wire.Keys(&f[reportKeys], &f[reportKeyLengths], n, false, func(key string) {
		r.Rows = append(r.Rows, Used{Key: key, Born: r.Version})
	}); err != nil {
		return err
	}
	young := -1
	if err := f[reportAges].EachVarint("ages", n, func(i int, v uint64) {
		if r.Rows[i].Born = r.Version - v; v > r.Version {
			young = i
		}
	}); err != nil {
		return err
	}
	if young >= 0 {
		return rpc.Refuse("row %d: counted for longer than %d rounds, which is all that there were", young, r.Version)
	}
	if err := f[reportUsed].EachVarint("used", n, func(i int, v uint64) { r.Rows[i].Tokens = v }); err != nil {
		return err
	}
	return f[reportLeft].EachWord("left", n, func(i int, v uint32) { r.Rows[i].Left = wire.Float(v) })
}

var heardFields = [...]wire.Kind{1: wire.Fixed64}

// EncodeHeard answers a Report: by is the receiver's number, which is not 0.
func EncodeHeard(by uint64) *anypb.Any {
	e := wire.NewEncoder()
	e.Fixed64(1, by)
	return e.Payload(HeardTypeURL)
}

// DecodeHeard returns the number of the process that received a Report. The error
// is an ErrPayload.
func DecodeHeard(payload *anypb.Any) (by uint64, err error) {
	var f [len(heardFields)]wire.Field
	message, err := wire.Body(payload, HeardTypeURL)
	if err == nil {
		err = wire.Parse(message, heardFields[:], f[:])
	}
	if by = f[1].Value; err == nil && by == 0 {
		err = rpc.Refuse("the receiver's number is 0; choose another")
	}
	return by, err
}
