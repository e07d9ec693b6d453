// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/conns"
)

// strained is a listener of which some Accepts fail.
type strained struct {
	net.Listener

	errs  []error
	conns chan net.Conn
}

func (l *strained) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, err
	}
	if conn, ok := <-l.conns; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (l *strained) Close() error {
	close(l.conns)
	return nil
}

// That the process has too many files open is no reason to end it.
func TestSplittingGoesOnWhenFilesRunOut(t *testing.T) {
	full := &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	synctest.Test(t, func(t *testing.T) {
		l := &strained{errs: []error{full, full, full}, conns: make(chan net.Conn, 1)}
		s := split(conns.Track(l, 10))
		defer s.stop()
		here, there := net.Pipe()
		l.conns <- there
		go func() { _, _ = here.Write([]byte("GET ")) }()
		began := time.Now()
		conn, err := s.http.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited < 10*time.Millisecond || waited > time.Second {
			t.Errorf("after three failures it went on within %v", waited)
		}
		_ = conn.Close()
	})
	synctest.Test(t, func(t *testing.T) {
		l := &strained{errs: []error{full, errors.New("for good")}, conns: make(chan net.Conn, 1)}
		s := split(conns.Track(l, 10))
		defer s.stop()
		if _, err := s.http.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a listener that has ended: %v", err)
		}
	})
}
