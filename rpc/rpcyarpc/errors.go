// SPDX-License-Identifier: Apache-2.0

package rpcyarpc

import (
	"errors"

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
	return codes.Restore(err, uint32(yarpcerrors.FromError(err).Code()))
}
