// SPDX-License-Identifier: Apache-2.0

package grpcconns_test

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/internal/grpcconns"
)

// greet has a client say words, a byte at a time, and returns the server's end of the
// connection once the handshake is over.
func greet(t *testing.T, words string) (server net.Conn, err error) {
	t.Helper()
	client, raw := net.Pipe()
	t.Cleanup(func() { _ = client.Close() })
	var over atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		server, _, err = grpcconns.Limited(insecure.NewCredentials()).ServerHandshake(raw)
		over.Store(true)
	}()
	for i := range len(words) {
		if synctest.Wait(); over.Load() {
			t.Errorf("over after %d bytes", i)
		}
		_, _ = io.WriteString(client, words[i:i+1])
	}
	if len(words) < len(http2.ClientPreface) {
		time.Sleep(4 * time.Second)
		if over.Load() {
			t.Error("over before the preface")
		}
		time.Sleep(2 * time.Second)
		if synctest.Wait(); !over.Load() {
			t.Error("a client may take as long as it likes")
		}
	}
	<-done
	return server, err
}

func TestAHandshakeLastsUntilThePreface(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := greet(t, http2.ClientPreface)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(http2.ClientPreface))
		for i := range got { // as slowly as it came
			if n, err := server.Read(got[i : i+1]); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		if string(got) != http2.ClientPreface {
			t.Errorf("read %q", got)
		}
	})
	for _, words := range []string{"", http2.ClientPreface[:23]} {
		synctest.Test(t, func(t *testing.T) {
			if server, err := greet(t, words); err == nil {
				t.Errorf("%q is a preface: %v", words, server)
			}
		})
	}
}
