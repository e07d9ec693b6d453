// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Throttled is an error after which a Retrier comes again.
type Throttled struct {
	// Err is what the call returned.
	Err error

	// After is how long not to come again; 0: the server did not say.
	After time.Duration
}

// Error is that of Err.
func (t *Throttled) Error() string { return t.Err.Error() }

// Unwrap returns Err.
func (t *Throttled) Unwrap() error { return t.Err }

// After marks err, which is not nil, as that of a call which was throttled and
// may come again after d; 0 and less: nobody knows when. The error of nil is nil.
func After(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &Throttled{Err: err, After: max(d, 0)}
}

// StatusError is the error of a response.
type StatusError struct {
	Code   int
	Status string
}

// Error is the status line.
func (e *StatusError) Error() string { return "http: " + e.Status }

// Response returns nil for a response below 400, and a *StatusError for others:
// as After has it, if it is 429 (too many requests) or 503 (unavailable). The
// field Retry-After says after how long, as seconds or as a date; a date
// counts from the response's own Date, so that clocks need not agree. A field
// that makes no sense is not there. It does not touch the body.
func Response(resp *http.Response) error {
	if resp.StatusCode < http.StatusBadRequest {
		return nil
	}
	err := &StatusError{Code: resp.StatusCode, Status: resp.Status}
	if err.Status == "" {
		err.Status = fmt.Sprint(resp.StatusCode, " ", http.StatusText(resp.StatusCode))
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return After(err, retryAfter(resp.Header))
	default:
		return err
	}
}

func retryAfter(h http.Header) time.Duration {
	field := strings.TrimSpace(h.Get("Retry-After"))
	// Out of range, it is the largest number.
	if seconds, err := strconv.ParseUint(field, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return times(seconds, time.Second)
	}
	then, err := http.ParseTime(field)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return max(then.Sub(now), 0)
}

// times is n·unit, or what is longer than any MaxAfter.
func times(n uint64, unit time.Duration) time.Duration {
	if n > uint64(2*MaxTime/unit) {
		return 2 * MaxTime
	}
	return time.Duration(n) * unit
}

// Pushback marks the error of a gRPC call that was throttled by what its
// trailer, a metadata.MD, says in grpc-retry-pushback-ms. As gRPC has it, a
// negative number and what is none say not to come again: then it is err as it
// was.
func Pushback(err error, trailer map[string][]string) error {
	field := trailer["grpc-retry-pushback-ms"]
	if len(field) == 0 {
		return After(err, 0)
	}
	millis, wrong := strconv.ParseInt(field[0], 10, 64)
	if wrong != nil || millis < 0 || len(field) > 1 {
		return err
	}
	return After(err, times(uint64(millis), time.Millisecond))
}
