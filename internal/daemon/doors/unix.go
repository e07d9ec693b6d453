// SPDX-License-Identifier: Apache-2.0

package doors

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/headgate/headgate/internal/filewatch"
)

// knock is how long one who is there may take to answer at a Unix socket.
const knock = time.Second

// maxUnixPath is the longest path of a Unix socket, in bytes.
const maxUnixPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// ListenUnix listens at a Unix socket that mode lets programs write to, which
// is to connect. What a process left behind that no longer listens is removed;
// what is no socket, or answers, is not. Until the mode is set, the socket has
// what the umask leaves, which on its own lets no one else connect.
func ListenUnix(ctx context.Context, path string, mode fs.FileMode) (net.Listener, error) {
	if err := removeStale(ctx, path); err != nil {
		return nil, fmt.Errorf("daemon: listen at the Unix socket %s: %w", path, err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: make its folder, %s, first", err, filepath.Dir(path))
	}
	if err != nil {
		return nil, fmt.Errorf("daemon: listen at a Unix socket: %w", filewatch.RemediedWrite(err, path))
	}
	if unix, ok := l.(*net.UnixListener); ok {
		unix.SetUnlinkOnClose(false) // it would remove what another process has put there
	}
	own, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("daemon: look at the Unix socket: %w", err), l.Close())
	}
	at := &unixListener{Listener: l, path: path, own: own}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("daemon: let programs connect: %w", err), at.Close())
	}
	return at, nil
}

// unixListener removes its own socket when it is closed, and not one that another process has put
// at the same path.
type unixListener struct {
	net.Listener

	path string
	own  fs.FileInfo
	once sync.Once // a later file may have the number that own had, once the listener is closed
}

// Close implements net.Listener.
func (l *unixListener) Close() error {
	l.once.Do(func() {
		if there, err := os.Lstat(l.path); err == nil && os.SameFile(there, l.own) {
			_ = os.Remove(l.path) // what stays is removed by who listens there next
		}
	})
	return l.Listener.Close()
}

// removeStale removes a socket that no process listens at.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("the file is there and is no socket: choose another name, or remove it")
	}
	conn, err := (&net.Dialer{Timeout: knock}).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = conn.Close()
		return errors.New("another process listens there: end it, or choose another name")
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("see whether anybody is there: %w", err)
	}
	return os.Remove(path)
}

// CheckUnix says what is wrong with a path and mode of a Unix socket.
func CheckUnix(path string, mode fs.FileMode) error {
	switch {
	case path == "" && mode != 0:
		return errors.New("there is a mode, and no Unix socket that has it")
	case strings.HasPrefix(path, "@"):
		return fmt.Errorf("the Unix socket %q has no file, and so no permissions: name a file", path)
	case len(path) > maxUnixPath:
		return fmt.Errorf("the path of the Unix socket has %d bytes, and systems take at most %d: choose a shorter one", len(path), maxUnixPath)
	case mode&^0o777 != 0:
		return fmt.Errorf("the mode %o is not permissions: use 0600, 0660 or 0666", uint32(mode))
	}
	return nil
}
