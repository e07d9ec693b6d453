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

// The fields and the columns of headgate.v1.Gossip.
const (
	reportKeys       = 4
	reportKeyLengths = 5
	reportAges       = 6 // in rounds
)

var (
	reportFields = wire.Fields[Report]{
		1: wire.Fixed("from", func(r *Report) *uint64 { return &r.From }),
		2: wire.Uint("version", func(r *Report) *uint64 { return &r.Version }),
		3: wire.Uint("after", func(r *Report) *uint64 { return &r.After }),
	}
	usedColumns = wire.Fields[Used]{
		7: wire.Uint("used", func(u *Used) *uint64 { return &u.Tokens }),
		8: wire.Single("left", func(u *Used) *float64 { return &u.Left }),
	}
	reportKinds = wire.Kinds(reportFields, usedColumns, map[int]wire.Kind{reportKeys: wire.Bytes, reportKeyLengths: wire.Varints, reportAges: wire.Varints})
)

// Encode returns r as a payload. It does not keep r. The error, an ErrPayload, is
// that of r.Check. The wire has Left as the nearest float32.
func Encode(r *Report) (*anypb.Any, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	e, n := wire.NewEncoder(), len(r.Rows)
	reportFields.Write(e, r)
	e.Keys(reportKeys, reportKeyLengths, n, func(i int) string { return r.Rows[i].Key })
	e.Varints(reportAges, n, 0, func(i int) uint64 { return r.Version - r.Rows[i].Born })
	usedColumns.WriteColumns(e, r.Rows)
	return e.Payload(TypeURL), nil
}

// Decode reads payload into r, for the receiver. It uses the memory that r has. All
// keys share one string of that message: a caller that keeps a key for longer must
// strings.Clone it. After an error, an ErrPayload, r is empty.
func Decode(payload *anypb.Any, r *Report) error {
	return wire.Decode(payload, TypeURL, r.reset, r.read, r.Check)
}

// reset empties r, whose rows would keep the keys of an earlier message alive.
func (r *Report) reset() {
	clear(r.Rows)
	*r = Report{Rows: r.Rows[:0]}
}

func (r *Report) read(message []byte) error {
	var runs [wire.MaxFields]wire.Run
	if err := wire.Parse(message, reportKinds, runs[:]); err != nil {
		return err
	}
	reportFields.Take(runs[:], r)
	n := runs[reportKeyLengths].Len()
	if err := wire.AtMost("rows", n, rpc.MaxMeshRows); err != nil { // before there is memory for them
		return err
	}
	r.Rows = slices.Grow(r.Rows, n)
	if err := wire.Keys(&runs[reportKeys], &runs[reportKeyLengths], n, false, func(key string) {
		r.Rows = append(r.Rows, Used{Key: key, Born: r.Version})
	}); err != nil {
		return err
	}
	young := -1
	if err := runs[reportAges].EachVarint("ages", n, func(i int, v uint64) {
		if r.Rows[i].Born = r.Version - v; v > r.Version {
			young = i
		}
	}); err != nil {
		return err
	}
	if young >= 0 {
		return rpc.Refuse("row %d: counted for longer than %d rounds, which is all that there were", young, r.Version)
	}
	return usedColumns.ReadColumns(runs[:], r.Rows)
}

// heardFields are those of headgate.v1.Heard: the receiver's number.
var heardFields = wire.Fields[uint64]{1: wire.Fixed("by", func(by *uint64) *uint64 { return by })}

// EncodeHeard answers a Report: by is the receiver's number, which is not 0.
func EncodeHeard(by uint64) *anypb.Any {
	e := wire.NewEncoder()
	heardFields.Write(e, &by)
	return e.Payload(HeardTypeURL)
}

// DecodeHeard returns the number of the process that received a Report. The error
// is an ErrPayload.
func DecodeHeard(payload *anypb.Any) (by uint64, err error) {
	message, err := wire.Body(payload, HeardTypeURL)
	if err == nil {
		err = heardFields.Read(message, &by)
	}
	if err == nil && by == 0 {
		err = rpc.Refuse("the receiver's number is 0; choose another")
	}
	return by, err
}
