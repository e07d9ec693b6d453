// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
)

// A server of HTTP/1 whose client does not wait for answers goes from one request to the next without
// waiting for anything. With one processor, nothing else would run meanwhile.
func TestOtherConnectionsHaveTheirTurnAfterEachAnswer(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	l := Track(&piped{conns: make(chan net.Conn, 1)}, 10)
	l.Listener.(*piped).conns <- &wire{}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	State(c, http.StateNew)

	var turn atomic.Bool
	other := make(chan struct{})
	go func() { turn.Store(true); close(other) }()
	for range 3 { // Go's scheduler chooses the goroutine that yields again, once in a while
		State(c, http.StateIdle)
	}
	if !turn.Load() {
		t.Error("no other goroutine had a turn after an answer")
	}
	<-other
}
