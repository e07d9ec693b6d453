// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
)

// Type URLs of claims and of their answer: headgate.v1.Claims and Leases.
const (
	ClaimsTypeURL = "type.googleapis.com/headgate.v1.Claims"
	LeasesTypeURL = "type.googleapis.com/headgate.v1.Leases"
)

const (
	claimsName = "headgate.v1.Claims"
	leasesName = "headgate.v1.Leases"
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

// Field numbers of headgate.v1.Band.
const (
	bandPriority = iota + 1
	bandClients
	bandWants
)

// The most that a band and a row add to the length of their texts.
const (
	bandBytes  = 2 + 11 + 10 + 9
	claimBytes = 4 + 3 + 3 + 9 + 2 + 2 + 2
)

// EncodeClaims returns c as a payload. It does not keep c. The error, an
// ErrPayload, is that of c.Check.
func EncodeClaims(c *Claims) (*anypb.Any, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	size := 0
	for i := range c.Rows {
		size += c.Rows[i].maxSize()
	}
	b := make([]byte, 0, size)
	for i := range c.Rows {
		b = appendRow(b, func(b []byte) []byte { return appendClaim(b, &c.Rows[i]) })
	}
	return &anypb.Any{TypeUrl: ClaimsTypeURL, Value: b}, nil
}

// maxSize is the most bytes that the row takes in a message.
func (c *Claim) maxSize() int {
	return claimBytes + len(c.Key) + len(c.Host) + bandBytes*len(c.Bands)
}

// DecodeClaims returns the claims in payload, which it does not keep. All
// keys and hosts share the memory of that message: who keeps one for longer
// must strings.Clone it. The error is an ErrPayload.
func DecodeClaims(payload *anypb.Any) (*Claims, error) {
	value, err := payloadOf(payload, claimsName)
	if err != nil {
		return nil, err
	}
	rows, err := countRows(value)
	if err != nil {
		return nil, err
	}
	if rows > MaxKeys {
		return nil, refuse("%d claims in one message; send at most %d", rows, MaxKeys)
	}
	d := claimsDecoder{text: string(value), claims: &Claims{Rows: make([]Claim, 0, rows)}}
	if err := eachRow(value, d.row); err != nil {
		return nil, err
	}
	if err := d.claims.Check(); err != nil {
		return nil, err
	}
	return d.claims, nil
}

// claimsDecoder cuts all texts out of one string, and all bands out of one array.
type claimsDecoder struct {
	text   string // the message
	claims *Claims
	bands  []Band
}

// cut is bytes, which end where rest of the message is left, as a text.
func (d *claimsDecoder) cut(length, left int) string {
	end := len(d.text) - left
	return d.text[end-length : end]
}

// row reads one claim, after which left bytes of the message follow.
func (d *claimsDecoder) row(row []byte, left int) error {
	var c Claim
	first := len(d.bands)
	for len(row) > 0 {
		f, rest, err := nextField(row)
		if err != nil {
			return err
		}
		row = rest
		switch {
		case f.number == claimKey && f.kind == protowire.BytesType:
			c.Key = d.cut(len(f.bytes), left+len(row))
		case f.number == claimHost && f.kind == protowire.BytesType:
			c.Host = d.cut(len(f.bytes), left+len(row))
		case f.number == claimHas && f.kind == protowire.Fixed64Type:
			c.Has = f.double()
		case f.number == claimBands && f.kind == protowire.BytesType:
			if len(d.bands)-first == MaxBands {
				return refuse("row %d: more than %d bands", len(d.claims.Rows), MaxBands)
			}
			band, err := readBand(f.bytes)
			if err != nil {
				return err
			}
			d.bands = append(d.bands, band)
		case f.number == claimKeep && f.kind == protowire.VarintType:
			c.Keep = f.value != 0
		case f.number == claimRelease && f.kind == protowire.VarintType:
			c.Release = f.value != 0
		case f.number == claimHeadroom && f.kind == protowire.VarintType:
			c.Headroom = f.value != 0
		}
	}
	// When bands grows it moves, and earlier rows keep what it was.
	if n := len(d.bands); n > first {
		c.Bands = d.bands[first:n:n]
	}
	d.claims.Rows = append(d.claims.Rows, c)
	return nil
}

func readBand(message []byte) (b Band, err error) {
	for len(message) > 0 {
		var f field
		if f, message, err = nextField(message); err != nil {
			return b, err
		}
		switch {
		case f.number == bandPriority && f.kind == protowire.VarintType:
			b.Priority = protowire.DecodeZigZag(f.value)
		case f.number == bandClients && f.kind == protowire.VarintType:
			b.Clients = int64(min(f.value, MaxCount+1))
		case f.number == bandWants && f.kind == protowire.Fixed64Type:
			b.Wants = f.double()
		}
	}
	return b, nil
}

func appendClaim(b []byte, c *Claim) []byte {
	b = append(appendHeader(b, claimKey, len(c.Key)), c.Key...)
	b = append(appendHeader(b, claimHost, len(c.Host)), c.Host...)
	b = appendDouble(b, claimHas, c.Has)
	for _, band := range c.Bands {
		b = appendRowOf(b, claimBands, func(b []byte) []byte { return appendBand(b, band) })
	}
	b = appendBool(b, claimKeep, c.Keep)
	b = appendBool(b, claimRelease, c.Release)
	return appendBool(b, claimHeadroom, c.Headroom)
}

func appendBand(b []byte, band Band) []byte {
	b = appendVarint(b, bandPriority, protowire.EncodeZigZag(band.Priority))
	b = appendVarint(b, bandClients, uint64(band.Clients))
	return appendDouble(b, bandWants, band.Wants)
}

// countRows is how many rows message has.
func countRows(message []byte) (n int, err error) {
	err = eachRow(message, func([]byte, int) error { n++; return nil })
	return n, err
}

// eachRow calls do for each row of message, with how many bytes follow it.
func eachRow(message []byte, do func(row []byte, left int) error) error {
	for len(message) > 0 {
		f, rest, err := nextField(message)
		if err != nil {
			return err
		}
		message = rest
		if f.number != rowsField || f.kind != protowire.BytesType {
			continue
		}
		if err := do(f.bytes, len(rest)); err != nil {
			return err
		}
	}
	return nil
}

func appendRow(b []byte, write func([]byte) []byte) []byte { return appendRowOf(b, rowsField, write) }

// appendRowOf appends what write does as a length-delimited field. It leaves
// the one byte that most lengths take, and moves what is longer.
func appendRowOf(b []byte, number protowire.Number, write func([]byte) []byte) []byte {
	b = append(protowire.AppendTag(b, number, protowire.BytesType), 0)
	start := len(b)
	b = write(b)
	length := uint64(len(b) - start)
	if n := protowire.SizeVarint(length); n > 1 {
		b = slices.Grow(b, n-1)
		b = b[:len(b)+n-1]
		copy(b[start+n-1:], b[start:])
	}
	protowire.AppendVarint(b[:start-1], length)
	return b
}

// Fields of their zero value are left out, as in any proto3 message.

func appendDouble(b []byte, number protowire.Number, v float64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendFixed64(protowire.AppendTag(b, number, protowire.Fixed64Type), math.Float64bits(v))
}

func appendVarint(b []byte, number protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), v)
}

func appendBool(b []byte, number protowire.Number, v bool) []byte {
	return appendVarint(b, number, protowire.EncodeBool(v))
}

func appendText(b []byte, number protowire.Number, v string) []byte {
	if v == "" {
		return b
	}
	return append(appendHeader(b, number, len(v)), v...)
}

// double is the value of a field of eight bytes.
func (f *field) double() float64 {
	bits, _ := protowire.ConsumeFixed64(f.bytes)
	return math.Float64frombits(bits)
}
