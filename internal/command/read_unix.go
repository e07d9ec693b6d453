// SPDX-License-Identifier: Apache-2.0

//go:build unix

package command

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// WhileRead returns a context that also ends when w is a pipe and nobody reads it any more, as
// in `headgate events | head -1`: a command that waits for the next line would not notice.
// A goroutine waits for that until the process ends.
func WhileRead(ctx context.Context, w io.Writer) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	f, ok := w.(*os.File)
	if !ok {
		return ctx, cancel
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return ctx, cancel
	}
	go func() {
		defer cancel()
		closed := []unix.PollFd{{Fd: int32(f.Fd())}} // an error, which a pipe without a reader has, is always reported
		for {
			if _, err := unix.Poll(closed, -1); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}()
	return ctx, cancel
}
