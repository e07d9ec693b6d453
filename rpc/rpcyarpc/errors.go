// SPDX-License-Identifier: Apache-2.0

package rpcyarpc

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/yarpc/yarpcerrors"

	"github.com/headgate/headgate/rpc"
)

// codes are the errors that a caller on the other side may branch on, and the
// codes as which they travel.
var codes = []struct {
	code yarpcerrors.Code
	err  error
}{
	{yarpcerrors.CodeInvalidArgument, rpc.ErrPayload},
	{yarpcerrors.CodeUnimplemented, rpc.ErrUnknownType},
	{yarpcerrors.CodeDeadlineExceeded, context.DeadlineExceeded},
	{yarpcerrors.CodeCancelled, context.Canceled},
}

// toWire gives err the code as which it travels. Its text travels too.
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

// fromWire undoes toWire, as far as errors.Is can see.
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
