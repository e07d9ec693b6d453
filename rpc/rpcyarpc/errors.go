// SPDX-License-Identifier: Apache-2.0

package rpcyarpc

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/yarpc/yarpcerrors"

	"github.com/headgate/headgate/rpc"
)

// codes are the errors that callers on the other side may branch on, and the codes that
// stand for them on the wire.
var codes = []struct {
	code yarpcerrors.Code
	err  error
}{
	{yarpcerrors.CodeInvalidArgument, rpc.ErrPayload},
	{yarpcerrors.CodeUnimplemented, rpc.ErrUnknownType},
	{yarpcerrors.CodeDeadlineExceeded, context.DeadlineExceeded},
	{yarpcerrors.CodeCancelled, context.Canceled},
}

// toWire returns err with the code that stands for it on the wire, and its text.
func toWire(err error) error {
	if yarpcerrors.IsStatus(err) {
		return err
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return yarpcerrors.Newf(c.code, "%s", err.Error())
		}
	}
	return yarpcerrors.Newf(yarpcerrors.CodeInternal, "%s", err.Error())
}

// fromWire is the opposite of toWire: errors.Is finds the same errors in the result.
func fromWire(err error) error {
	if errors.Is(err, ErrClosed) || !yarpcerrors.IsStatus(err) {
		return err
	}
	code := yarpcerrors.FromError(err).Code()
	for _, c := range codes {
		if code == c.code && !errors.Is(err, c.err) {
			return fmt.Errorf("%w (%w)", err, c.err)
		}
	}
	return err
}
