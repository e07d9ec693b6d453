// SPDX-License-Identifier: Apache-2.0

package rpcgrpc

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/rpc"
)

// passing are the errors that callers on the other side may branch on, and the codes that
// stand for them on the wire.
var passing = []struct {
	code codes.Code
	err  error
}{
	{codes.InvalidArgument, rpc.ErrPayload},
	{codes.Unimplemented, rpc.ErrUnknownType},
	{codes.DeadlineExceeded, context.DeadlineExceeded},
	{codes.Canceled, context.Canceled},
}

// toWire returns err with the code that stands for it on the wire, and its text. An error
// that is none of the known ones is most often an owner that cannot be reached.
func toWire(err error) error {
	if s, ok := status.FromError(err); ok {
		return s.Err()
	}
	if _, ok := errors.AsType[*rpc.PanicError](err); ok {
		return status.Error(codes.Internal, err.Error())
	}
	for _, p := range passing {
		if errors.Is(err, p.err) {
			return status.Error(p.code, err.Error())
		}
	}
	return status.Error(codes.Unavailable, err.Error())
}

// fromWire is the opposite of toWire: errors.Is finds the same errors in the result.
func fromWire(err error) error {
	code := status.Code(err)
	for _, p := range passing {
		if code == p.code && !errors.Is(err, p.err) {
			return fmt.Errorf("%w (%w)", err, p.err)
		}
	}
	return err
}
