// SPDX-License-Identifier: Apache-2.0

// Package codes says which errors callers on the other side of a connection may branch on, and
// which code stands for each on the wire. gRPC and YARPC have the same numbers. The package knows
// neither messages nor connections, and its table does not change.
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
// code stands for. Its text is text, of which there is at most the beginning of a long one.
func Restore(err error, text string, code uint32) error {
	if len(text) > mostText {
		text = text[:mostText] + "…"
	}
	is := []error{err}
	for _, p := range passing {
		if code == p.code && !errors.Is(err, p.err) {
			is = append(is, p.err)
			if !strings.Contains(text, p.err.Error()) {
				text = fmt.Sprintf("%s (%v)", text, p.err)
			}
		}
	}
	return restored{text, is}
}

// restored is several errors under one text.
type restored struct {
	text string
	is   []error
}

func (r restored) Error() string { return r.text }

func (r restored) Unwrap() []error { return r.is }
