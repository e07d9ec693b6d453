// SPDX-License-Identifier: Apache-2.0

// Package codes says which errors callers on the other side of a connection may branch
// on, and which code stands for each on the wire. gRPC and YARPC have the same numbers.
package codes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/headgate/headgate/rpc"
)

var passing = []struct {
	code uint32
	err  error
}{
	{3, rpc.ErrPayload},      // invalid argument
	{12, rpc.ErrUnknownType}, // unimplemented
	{4, context.DeadlineExceeded},
	{1, context.Canceled},
}

// Of is the code that stands for err; byDefault if none does.
func Of(err error, byDefault uint32) uint32 {
	for _, p := range passing {
		if errors.Is(err, p.err) {
			return p.code
		}
	}
	return byDefault
}

// mostText is how many bytes of an error's text there are. The other side chooses the text, and
// errors are logged.
const mostText = 2000

// Restore returns err, which had this code on the wire, so that errors.Is finds what the
// code stands for. Its text has at most the beginning of a long one.
func Restore(err error, code uint32) error {
	if text := err.Error(); len(text) > mostText {
		err = brief{err, text[:mostText] + "…"}
	}
	for _, p := range passing {
		if code == p.code && !errors.Is(err, p.err) {
			if strings.Contains(err.Error(), p.err.Error()) {
				return both{err, p.err}
			}
			return fmt.Errorf("%w (%w)", err, p.err)
		}
	}
	return err
}

// both is an error whose text says already what is is.
type both struct {
	error
	is error
}

func (b both) Unwrap() []error { return []error{b.error, b.is} }

// brief is an error with the beginning of its text.
type brief struct {
	error
	text string
}

func (b brief) Error() string { return b.text }

func (b brief) Unwrap() error { return b.error }
