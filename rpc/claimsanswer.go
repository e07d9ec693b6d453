// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
)

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

// leaseBytes is the most that a row adds to the length of its texts.
const leaseBytes = 4 + 9 + 3*6 + 9 + 3 + 2*2 + 3

// EncodeLeases returns l, which answers n claims, as a payload. It does not
// keep l. The error, an ErrPayload, is that of l.Check(n). The wire rounds
// durations down to the millisecond, but never to 0.
func EncodeLeases(l *Leases, n int) (*anypb.Any, error) {
	if err := l.Check(n); err != nil {
		return nil, err
	}
	size := 0
	for i := range l.Rows {
		size += leaseBytes + len(l.Rows[i].Algorithm) + len(l.Rows[i].Refused)
	}
	b := make([]byte, 0, size)
	for i := range l.Rows {
		b = appendRow(b, func(b []byte) []byte { return appendLease(b, &l.Rows[i]) })
	}
	return &anypb.Any{TypeUrl: LeasesTypeURL, Value: b}, nil
}

func appendLease(b []byte, l *Lease) []byte {
	b = appendDouble(b, leaseAmount, l.Amount)
	b = appendVarint(b, leaseLasts, leaseMillis(l.Lasts))
	b = appendVarint(b, leaseRefresh, leaseMillis(l.Refresh))
	b = appendVarint(b, leaseLearns, leaseMillis(l.Learns))
	b = appendDouble(b, leaseSafe, l.Safe)
	b = appendText(b, leaseAlgorithm, l.Algorithm)
	b = appendBool(b, leaseLearning, l.Learning)
	b = appendBool(b, leaseUnknown, l.Unknown)
	return appendText(b, leaseRefused, l.Refused)
}

// DecodeLeases returns the leases in payload as the answer to n claims. It
// keeps nothing of payload. The error is an ErrPayload.
func DecodeLeases(payload *anypb.Any, n int) (*Leases, error) {
	value, err := payloadOf(payload, leasesName)
	if err != nil {
		return nil, err
	}
	l := &Leases{Rows: make([]Lease, 0, n)}
	var algorithm string // of the row before, which is most often the same
	err = eachRow(value, func(row []byte, _ int) error {
		if len(l.Rows) == n {
			return refuse("more than %d leases for %d claims; answer every claim, in order", n, n)
		}
		lease, err := readLease(row, algorithm)
		if err != nil {
			return err
		}
		algorithm = lease.Algorithm
		l.Rows = append(l.Rows, lease)
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

// readLease reads one row. Where its algorithm is that of the row before, it
// takes that string.
func readLease(message []byte, algorithm string) (l Lease, err error) {
	for len(message) > 0 {
		var f field
		if f, message, err = nextField(message); err != nil {
			return l, err
		}
		switch {
		case f.number == leaseAmount && f.kind == protowire.Fixed64Type:
			l.Amount = f.double()
		case f.number == leaseLasts && f.kind == protowire.VarintType:
			l.Lasts = leaseOf(f.value)
		case f.number == leaseRefresh && f.kind == protowire.VarintType:
			l.Refresh = leaseOf(f.value)
		case f.number == leaseLearns && f.kind == protowire.VarintType:
			l.Learns = leaseOf(f.value)
		case f.number == leaseSafe && f.kind == protowire.Fixed64Type:
			l.Safe = f.double()
		case f.number == leaseAlgorithm && f.kind == protowire.BytesType:
			if l.Algorithm = algorithm; algorithm != string(f.bytes) {
				l.Algorithm = string(f.bytes)
			}
		case f.number == leaseLearning && f.kind == protowire.VarintType:
			l.Learning = f.value != 0
		case f.number == leaseUnknown && f.kind == protowire.VarintType:
			l.Unknown = f.value != 0
		case f.number == leaseRefused && f.kind == protowire.BytesType:
			l.Refused = string(f.bytes)
		}
	}
	return l, nil
}

func leaseOf(millis uint64) time.Duration { return period(millis, MaxLease) }
