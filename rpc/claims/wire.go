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

// The fields of headgate.v1.Claims, Leases, and of their rows.
var (
	claimsFields = wire.Fields[Claims]{1: wire.Rows("claims", rpc.MaxKeys, claimFields, (*Claim).check, func(c *Claims) *[]Claim { return &c.Rows })}
	leasesFields = wire.Fields[Leases]{1: wire.Rows("leases", rpc.MaxKeys, leaseFields, nil, func(l *Leases) *[]Lease { return &l.Rows })}
	claimFields  = wire.Fields[Claim]{
		1: wire.Text("key", func(c *Claim) *string { return &c.Key }),
		2: wire.Text("host", func(c *Claim) *string { return &c.Host }),
		3: wire.Double("has", 0, func(c *Claim) *float64 { return &c.Has }),
		4: wire.Rows("bands", rpc.MaxBands, bandFields, nil, func(c *Claim) *[]Band { return &c.Bands }),
		5: wire.Flag("keep", func(c *Claim) *bool { return &c.Keep }),
		6: wire.Flag("release", func(c *Claim) *bool { return &c.Release }),
		7: wire.Flag("headroom", func(c *Claim) *bool { return &c.Headroom }),
	}
	bandFields = wire.Fields[Band]{
		1: wire.Number("priority", 0, func(b *Band) uint64 { return protowire.EncodeZigZag(b.Priority) },
			func(b *Band, v uint64) { b.Priority = protowire.DecodeZigZag(v) }),
		2: wire.Number("clients", 0, func(b *Band) uint64 { return uint64(b.Clients) },
			func(b *Band, v uint64) { b.Clients = int64(min(v, rpc.MaxCount+1)) }),
		3: wire.Double("wants", 0, func(b *Band) *float64 { return &b.Wants }),
	}
	leaseFields = wire.Fields[Lease]{
		1: wire.Double("amount", 0, func(l *Lease) *float64 { return &l.Amount }),
		2: wire.Millis("lasts", rpc.MaxLease, wire.Down, func(l *Lease) *time.Duration { return &l.Lasts }),
		3: wire.Millis("refresh", rpc.MaxLease, wire.Down, func(l *Lease) *time.Duration { return &l.Refresh }),
		4: wire.Millis("learns", rpc.MaxLease, wire.Down, func(l *Lease) *time.Duration { return &l.Learns }),
		5: wire.Double("safe", 0, func(l *Lease) *float64 { return &l.Safe }),
		6: wire.String("algorithm", func(l *Lease) *string { return &l.Algorithm }),
		7: wire.Flag("learning", func(l *Lease) *bool { return &l.Learning }),
		8: wire.Flag("unknown", func(l *Lease) *bool { return &l.Unknown }),
		9: wire.String("refused", func(l *Lease) *string { return &l.Refused }),
	}
)

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
	claimsFields.Write(e, c)
	return e.Payload(TypeURL)
}

// Decode returns the claims in payload, which it does not keep. All keys and hosts
// share the memory of one copy of the message: a caller that keeps one for longer must
// strings.Clone it. The error is an ErrPayload.
func Decode(payload *anypb.Any) (*Claims, error) {
	message, err := wire.Body(payload, TypeURL)
	if err != nil {
		return nil, err
	}
	c := new(Claims)
	if err := claimsFields.Read(message, c); err != nil { // which checks each row
		return nil, err
	}
	return c, nil
}

// EncodeLeases returns l, which answers n claims, as a payload. It does not
// keep l. The error, an ErrPayload, is that of l.Check(n). The wire rounds
// durations down to the millisecond, but never to 0.
func EncodeLeases(l *Leases, n int) (*anypb.Any, error) {
	if err := l.Check(n); err != nil {
		return nil, err
	}
	e := wire.NewEncoder()
	leasesFields.Write(e, l)
	return e.Payload(LeasesTypeURL), nil
}

// DecodeLeases returns the leases in payload as the answer to n claims. It
// keeps nothing of payload. All texts share memory as those of Decode do. The error is an
// ErrPayload.
func DecodeLeases(payload *anypb.Any, n int) (*Leases, error) {
	message, err := wire.Body(payload, LeasesTypeURL)
	if err != nil {
		return nil, err
	}
	l := &Leases{Rows: make([]Lease, 0, n)}
	if err := leasesFields.Read(message, l); err != nil {
		return nil, err
	}
	if err := l.Check(n); err != nil {
		return nil, err
	}
	return l, nil
}
