// SPDX-License-Identifier: Apache-2.0

package doors

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uber-go/tally/v4"
)

// inMemory is a listener whose connections are pipes.
type inMemory struct {
	net.Listener // for Addr, which nothing calls

	conns chan net.Conn
	ended chan struct{}
}

func (l inMemory) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l inMemory) Close() error {
	select {
	case <-l.ended:
	default:
		close(l.ended)
	}
	return nil
}

// A program may send requests for ever, and its certificate may end meanwhile.
func TestAConnectionOfHTTPIsClosedWhenItIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inMemory{conns: make(chan net.Conn), ended: make(chan struct{})}
		log := slog.New(slog.DiscardHandler)
		w := NewWeb(NewEnding())
		w.Listen(l)
		w.Serve(http.HandlerFunc(func(to http.ResponseWriter, _ *http.Request) { to.WriteHeader(http.StatusOK) }), NewPanics("http", log, tally.NoopScope), nil, log)
		client, server := net.Pipe()
		l.conns <- server
		answers := bufio.NewReader(client)
		began := time.Now()
		for last := false; !last; time.Sleep(time.Minute) {
			if _, err := io.WriteString(client, "GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n"); err != nil {
				t.Fatalf("after %v: %v", time.Since(began), err)
			}
			answer, err := http.ReadResponse(answers, nil)
			if err != nil || answer.StatusCode != http.StatusOK {
				t.Fatalf("after %v: %v, %v", time.Since(began), answer, err)
			}
			last = answer.Close
			if age := time.Since(began); last != (age > maxAge*9/10) && (last || age > maxAge) {
				t.Fatalf("after %v, that it is the last answer: %v", age, last)
			}
		}
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the connection is open: %v", err)
		}
		if err := w.Stop(context.Background(), time.Second, log); err != nil {
			t.Error(err)
		}
	})
}
