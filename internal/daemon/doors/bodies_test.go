// SPDX-License-Identifier: Apache-2.0

package doors

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/conns"
)

// Clients with large bodies that do not end lose their connections, and one at another
// address sends its own. A body without a length takes the room of the largest.
func TestLargeBodiesMakeWayForThoseOfOthers(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	door := conns.Track(l, 1000)
	limits := conns.DefaultLimits
	limits.TotalBytes = 12 << 20 // eight of a MiB each, and half of one for what is in it
	door.Limit(limits)
	server := httptest.NewUnstartedServer(holdBodies(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })))
	_ = server.Listener.Close()
	server.Listener, server.Config.ConnContext, server.Config.ConnState = door, withConn, conns.State
	server.Start()
	defer server.Close()
	closed := make(chan struct{}, 30)
	for i := range cap(closed) {
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		length := []string{"Content-Length: 900000", "Transfer-Encoding: chunked"}[i%2]
		_, _ = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", length)
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			closed <- struct{}{}
		}()
	}
	for range cap(closed) - 8 {
		<-closed
	}
	answer, err := http.Post(server.URL, "application/json", strings.NewReader(strings.Repeat(" ", 900_000)))
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
}
