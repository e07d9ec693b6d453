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

// passing are the errors that a caller on the other side may branch on, and
// the codes as which they travel.
var passing = []struct {
	code codes.Code
	err  error
}{
	{codes.InvalidArgument, rpc.ErrPayload},
	{codes.Unimplemented, rpc.ErrUnknownType},
	{codes.DeadlineExceeded, context.DeadlineExceeded},
	{codes.Canceled, context.Canceled},
}

// toWire gives err the code as which it travels. Its text travels too. What
// is none of the known errors is most often an owner that cannot be reached.
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

// fromWire undoes toWire, as far as errors.Is can see.
func fromWire(err error) error {
	code := status.Code(err)
	for _, p := range passing {
		if code == p.code && !errors.Is(err, p.err) {
			return fmt.Errorf("%w (%w)", err, p.err)
		}
	}
	return err
}
