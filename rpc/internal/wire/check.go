// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"math"
	"time"

	"github.com/headgate/headgate/rpc"
)

// Row checks the values of one row. Err is the first that is refused.
type Row struct {
	Number int
	Err    error
}

// Fail refuses the row, unless it was refused before.
func (r *Row) Fail(format string, args ...any) {
	if r.Err == nil {
		r.Err = rpc.Refuse("row %d: %w", r.Number, fmt.Errorf(format, args...))
	}
}

// Name checks the length of a key, or of a host's name.
func (r *Row) Name(what, name string) {
	if uint(len(name)-1) >= rpc.MaxKeyLength {
		r.Fail("%s has %d bytes; it has 1 to %d", what, len(name), rpc.MaxKeyLength)
	}
}

// Text checks the length of a text that may be empty.
func (r *Row) Text(name, text string, most int) {
	if len(text) > most {
		r.Fail("%s has %d bytes; it has at most %d", name, len(text), most)
	}
}

// Value checks that v is in [least, most], and so that it is a number.
func (r *Row) Value(name string, v, least, most float64) {
	if !(v >= least && v <= most) {
		switch {
		case most == Finite && least == 0:
			r.Fail("%s is %v; it is finite and not negative", name, v)
		case most == Finite:
			r.Fail("%s is %v; it is finite", name, v)
		default:
			r.Fail("%s is %v; it is in [%v, %v]", name, v, least, most)
		}
	}
}

// Period checks that d is in [least, most].
func (r *Row) Period(name string, d, least, most time.Duration) {
	if d < least || d > most {
		r.Fail("%s is %v; it is in [%v, %v]", name, d, least, most)
	}
}

// Finite is the largest float64, as a bound of values.
const Finite = math.MaxFloat64

// Values checks a column of numbers in [0, most].
func Values(name string, column []float64, most float64) error {
	for i, v := range column {
		if !(v >= 0 && v <= most) {
			r := Row{Number: i}
			r.Value(name, v, 0, most)
			return r.Err
		}
	}
	return nil
}

// Counts checks a column of counts.
func Counts(name string, column []int64) error {
	var all uint64
	for _, v := range column {
		all |= uint64(v)
	}
	if all <= rpc.MaxCount { // so each of them is
		return nil
	}
	for i, v := range column {
		if uint64(v) > rpc.MaxCount { // negative ones too
			r := Row{Number: i}
			r.Fail("%s is %d; it is in [0, 2^53]", name, v)
			return r.Err
		}
	}
	return nil
}

// Periods checks a column of durations in [least, most].
func Periods(name string, column []time.Duration, least, most time.Duration) error {
	for i, d := range column {
		if d < least || d > most {
			r := Row{Number: i}
			r.Period(name, d, least, most)
			return r.Err
		}
	}
	return nil
}

// AtMost checks how many rows a message has.
func AtMost(what string, n, most int) error {
	if n > most {
		return rpc.Refuse("%d %s in one message; send at most %d", n, what, most)
	}
	return nil
}

// Fits checks that an answer has a row for each of n questions.
func Fits(what string, rows, n int) error {
	if rows != n {
		return rpc.Refuse("the answer does not fit: %d %s for %d rows; answer every row, in order", rows, what, n)
	}
	return nil
}
