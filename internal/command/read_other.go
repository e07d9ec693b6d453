// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package command

import (
	"context"
	"io"
)

// WhileRead returns a context that ends with ctx. On this system it cannot tell whether w is read.
func WhileRead(ctx context.Context, _ io.Writer) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}
