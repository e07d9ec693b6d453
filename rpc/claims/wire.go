// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/internal/wire"
)

// Type URLs of claims and of their answer: headgate.v1.Claims and
// headgate.v1.Leases.
const (
	TypeURL       = "type.googleapis.com/headgate.v1.Claims"
	LeasesTypeURL = "type.googleapis.com/headgate.v1.Leases"
)

// rowsField is the one field of Claims and of Leases.
const rowsField = 1

// Field numbers of headgate.v1.Claim.
const (
	claimKey = iota + 1
	claimHost
	claimHas
	claimBands
	claimKeep
	claimRelease
	claimHeadroom
)

var claimFields = [...]wire.Kind{
	claimKey: wire.Bytes, claimHost: wire.Bytes, claimHas: wire.Fixed64,
	claimKeep: wire.Varint, claimRelease: wire.Varint, claimHeadroom: wire.Varint,
}

// Field numbers of headgate.v1.Band.
const (
	bandPriority = iota + 1
	bandClients
	bandWants
)

var bandFields = [...]wire.Kind{bandPriority: wire.Varint, bandClients: wire.Varint, bandWants: wire.Fixed64}

// Field numbers of headgate.v1.Lease.
const (
	leaseAmount = iota + 1
	leaseLasts
	leaseRefresh
	leaseLearns
	leaseSafe
	leaseAlgorithm
	leaseLearning
	leaseUnknown
	leaseRefused
)

var leaseFields = [...]wire.Kind{
	leaseAmount: wire.Fixed64, leaseLasts: wire.Varint, leaseRefresh: wire.Varint, leaseLearns: wire.Varint, leaseSafe: wire.Fixed64,
	leaseAlgorithm: wire.Bytes, leaseLearning: wire.Varint, leaseUnknown: wire.Varint, leaseRefused: wire.Bytes,
}

// The most that a band, and a row, add to the length of their texts.
const (
	bandBytes  = 2 + 11 + 10 + 9
	claimBytes = 4 + 3 + 3 + 9 + 2 + 2 + 2
)

// maxSize is the most bytes that the row takes in a message.
func (c *Claim) maxSize() int {
	return claimBytes + len(c.Key) + len(c.Host) + bandBytes*len(c.Bands)
}

// Encode returns c as a payload. It does not keep c. The error, an ErrPayload, is
// that of c.Check.
func Encode(c *Claims) (*anypb.Any, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	return c.payload(), nil
}

// payload is c, which is checked, as a payload.
func (c *Claims) payload() *anypb.Any {
	e := wire.NewEncoder()
	for i := range c.Rows {
		row := &c.Rows[i]
		e.Row(rowsField, func() {
			e.Text(claimKey, row.Key)
			e.Text(claimHost, row.Host)
			e.Double(claimHas, row.Has)
			for _, band := range row.Bands {
				e.Row(claimBands, func() {
					e.Varint(bandPriority, protowire.EncodeZigZag(band.Priority))
					e.Varint(bandClients, uint64(band.Clients))
					e.Double(bandWants, band.Wants)
				})
			}
			e.Varint(claimKeep, wire.Bit(row.Keep))
			e.Varint(claimRelease, wire.Bit(row.Release))
			e.Varint(claimHeadroom, wire.Bit(row.Headroom))
		})
	}
	return e.Payload(TypeURL)
}

// Decode returns the claims in payload, which it does not keep. All keys and hosts
// share the memory of that message: a caller that keeps one for longer must
// strings.Clone it. The error is an ErrPayload.
func Decode(payload *anypb.Any) (*Claims, error) {
	message, err := wire.Body(payload, TypeURL)
	if err != nil {
		return nil, err
	}
	rows := 0
	if err := wire.EachRow(message, rowsField, func([]byte) error { rows++; return nil }); err != nil {
		return nil, err
	}
	if err := wire.AtMost("claims", rows, rpc.MaxKeys); err != nil {
		return nil, err // before there is memory for them
	}
	c := &Claims{Rows: make([]Claim, 0, rows)}
	text := wire.TextOf(message)
	var bands []Band // of all rows
	err = wire.EachRow(message, rowsField, func(row []byte) error {
		var f [len(claimFields)]wire.Field
		if err := wire.Parse(row, claimFields[:], f[:]); err != nil {
			return err
		}
		claim := Claim{
			Key: text.Cut(f[claimKey].Raw), Host: text.Cut(f[claimHost].Raw), Has: f[claimHas].Double(),
			Keep: f[claimKeep].Value != 0, Release: f[claimRelease].Value != 0, Headroom: f[claimHeadroom].Value != 0,
		}
		first := len(bands)
		if bands, err = readBands(row, bands); err != nil {
			return err
		}
		// When bands grows it moves, and earlier rows keep what it was.
		if n := len(bands); n > first {
			claim.Bands = bands[first:n:n]
		}
		c.Rows = append(c.Rows, claim)
		return nil
	})
	if err == nil {
		err = c.Check()
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// readBands appends the bands of a row, of which one too many is enough.
func readBands(row []byte, bands []Band) ([]Band, error) {
	most := len(bands) + rpc.MaxBands
	err := wire.EachRow(row, claimBands, func(message []byte) error {
		if len(bands) > most {
			return nil
		}
		var f [len(bandFields)]wire.Field
		if err := wire.Parse(message, bandFields[:], f[:]); err != nil {
			return err
		}
		bands = append(bands, Band{
			Priority: protowire.DecodeZigZag(f[bandPriority].Value),
			Clients:  int64(min(f[bandClients].Value, rpc.MaxCount+1)),
			Wants:    f[bandWants].Double(),
		})
		return nil
	})
	return bands, err
}

// EncodeLeases returns l, which answers n claims, as a payload. It does not
// keep l. The error, an ErrPayload, is that of l.Check(n). The wire rounds
// durations down to the millisecond, but never to 0.
func EncodeLeases(l *Leases, n int) (*anypb.Any, error) {
	if err := l.Check(n); err != nil {
		return nil, err
	}
	e := wire.NewEncoder()
	for i := range l.Rows {
		row := &l.Rows[i]
		e.Row(rowsField, func() {
			e.Double(leaseAmount, row.Amount)
			e.Varint(leaseLasts, wire.Down(row.Lasts))
			e.Varint(leaseRefresh, wire.Down(row.Refresh))
			e.Varint(leaseLearns, wire.Down(row.Learns))
			e.Double(leaseSafe, row.Safe)
			e.Text(leaseAlgorithm, row.Algorithm)
			e.Varint(leaseLearning, wire.Bit(row.Learning))
			e.Varint(leaseUnknown, wire.Bit(row.Unknown))
			e.Text(leaseRefused, row.Refused)
		})
	}
	return e.Payload(LeasesTypeURL), nil
}

// DecodeLeases returns the leases in payload as the answer to n claims. It
// keeps nothing of payload. The error is an ErrPayload.
func DecodeLeases(payload *anypb.Any, n int) (*Leases, error) {
	message, err := wire.Body(payload, LeasesTypeURL)
	if err != nil {
		return nil, err
	}
	l := &Leases{Rows: make([]Lease, 0, n)}
	var algorithm string // of the row before, which is most often the same
	err = wire.EachRow(message, rowsField, func(row []byte) error {
		var f [len(leaseFields)]wire.Field
		if err := wire.Parse(row, leaseFields[:], f[:]); err != nil {
			return err
		}
		if algorithm != string(f[leaseAlgorithm].Raw) {
			algorithm = string(f[leaseAlgorithm].Raw)
		}
		if len(l.Rows) > n {
			return wire.Fits("leases or more", len(l.Rows), n)
		}
		l.Rows = append(l.Rows, Lease{
			Amount: f[leaseAmount].Double(), Lasts: period(f[leaseLasts]), Refresh: period(f[leaseRefresh]), Learns: period(f[leaseLearns]),
			Safe: f[leaseSafe].Double(), Algorithm: algorithm, Learning: f[leaseLearning].Value != 0, Unknown: f[leaseUnknown].Value != 0,
			Refused: string(f[leaseRefused].Raw),
		})
		return nil
	})
	if err == nil {
		err = l.Check(n)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

func period(f wire.Field) time.Duration { return wire.Period(f.Value, time.Millisecond, rpc.MaxLease) }
