// SPDX-License-Identifier: Apache-2.0

package rpcgrpc

import (
	"errors"

	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/internal/codes"
)

// toWire returns err with the code that stands for it on the wire, and its text. An error
// that is none of the known ones is most often an owner that cannot be reached.
func toWire(err error) error {
	if s, ok := status.FromError(err); ok {
		return s.Err()
	}
	if _, ok := errors.AsType[*rpc.PanicError](err); ok {
		return status.Error(grpccodes.Internal, err.Error())
	}
	return status.Error(grpccodes.Code(codes.Of(err, uint32(grpccodes.Unavailable))), err.Error())
}

// fromWire is the opposite of toWire: errors.Is finds the same errors in the result.
func fromWire(err error) error { return codes.Restore(err, err.Error(), uint32(status.Code(err))) }
