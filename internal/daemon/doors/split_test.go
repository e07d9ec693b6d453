// SPDX-License-Identifier: Apache-2.0

package doors

import (
	"bufio"
	"errors"
	"io"
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

// Connections are sorted by their first bytes, which are not lost.
func TestSplitting(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := split(conns.Track(l, 100))
	defer s.stop()
	for words, want := range map[string]*half{
		"PRI * HTTP/2.0": s.grpc, "POST /": s.http, "PROPFIND /": s.http, "GET /": s.http, "PUT ": s.http, "\x16\x03\x01": s.http,
	} {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		for i := range words { // in as many packets
			if _, err := io.WriteString(conn, words[i:i+1]); err != nil {
				t.Fatal(err)
			}
		}
		accepted, err := want.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		got, err := bufio.NewReader(accepted).ReadString(0)
		if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) || got != words {
			t.Errorf("%q arrived as %q, %v", words, got, err)
		}
		_ = accepted.Close()
	}
	// Who hangs up early reaches nobody.
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "PR")
	_ = conn.Close()
}
