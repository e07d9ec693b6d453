// SPDX-License-Identifier: Apache-2.0

package rpcyarpc

import (
	"context"
	"errors"
	"strings"

	"go.uber.org/yarpc/yarpcerrors"

	"github.com/headgate/headgate/rpc/internal/codes"
)

// toWire returns err with the code that stands for it on the wire, and its text.
func toWire(err error) error {
	if yarpcerrors.IsStatus(err) {
		return err
	}
	return yarpcerrors.Newf(yarpcerrors.Code(codes.Of(err, uint32(yarpcerrors.CodeInternal))), "%s", err.Error())
}

// fromWire is the opposite of toWire: errors.Is finds the same errors in the result.
func fromWire(err error) error {
	if errors.Is(err, ErrClosed) || !yarpcerrors.IsStatus(err) {
		return err
	}
	status := yarpcerrors.FromError(err)
	return codes.Restore(err, textOf(status), uint32(status.Code()))
}

// textOf is what a status says, without the words that gRPC and YARPC put around it.
func textOf(s *yarpcerrors.Status) string {
	text := s.Message()
	if _, dialing, ok := strings.Cut(text, `desc = "transport: Error while dialing: `); ok {
		text = strings.TrimSuffix(dialing, `"`)
	}
	if text == context.DeadlineExceeded.Error() || text == context.Canceled.Error() {
		return text // it says what the code says
	}
	if s.Code() == yarpcerrors.CodeDeadlineExceeded && (strings.HasPrefix(text, "call to procedure ") || strings.HasPrefix(text, "stream terminated by ")) {
		return context.DeadlineExceeded.Error() // YARPC or gRPC at the server was the first to miss the deadline
	}
	return s.Code().String() + ": " + text
}
