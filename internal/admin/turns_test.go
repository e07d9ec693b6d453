// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
)

// A client that sends requests without waiting for answers keeps no others from the processor: they have
// their turn after each answer.
func TestOthersHaveTheirTurnAfterEachAnswer(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(l, nil, http.NotFoundHandler(), func() Health { return Health{} }, slog.New(slog.DiscardHandler))
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if s.server.ConnState == nil {
		t.Fatal("nothing happens after an answer")
	}
	var turn atomic.Bool
	other := make(chan struct{})
	go func() { turn.Store(true); close(other) }()
	for range 3 { // Go's scheduler chooses the goroutine that yields again, once in a while
		s.server.ConnState(nil, http.StateIdle)
	}
	if !turn.Load() {
		t.Error("no other goroutine had a turn after an answer")
	}
	<-other
}
