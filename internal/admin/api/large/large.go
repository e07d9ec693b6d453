// SPDX-License-Identifier: Apache-2.0

// Package large has requests that take much memory answered one after the other, and bounds their
// answers.
//
//	turn := large.New()
//	done, err := turn.Wait(w, r, false) // before anything is read of r
//	answer := large.NewAnswer(w.Header())
//	…
//	done() // when the answer is made
//	err = room.Send(w, answer)
//
// Out of scope: who may send them. A stranger must not come to a turn. A Turn is a channel, and one
// lock guards the room for answers.
package large

import (
	"net/http"
	"time"
)

// Small is the largest body, in bytes, of a request or an answer that does not count as large.
const Small = 64 << 10

// Turn is had by one large request at a time: a text of limits takes fifteen times
// its size while it is read and compared, and 256 connections may send one each. Use New. Safe
// for concurrent use.
type Turn chan struct{}

// New returns a Turn that is free.
func New() Turn { return make(Turn, 1) }

// arrival is how long a large body may take to arrive, from its turn on.
const arrival = 10 * time.Second

// Wait returns when r, which w answers, may be read, or with an error when its sender has gone.
// r is large if its body is, or much says that it takes as much memory. Call done when the answer is
// made: its reader may be slow.
func (t Turn) Wait(w http.ResponseWriter, r *http.Request, much bool) (done func(), err error) {
	if !much && r.ContentLength >= 0 && r.ContentLength <= Small { // -1: unknown
		return func() {}, nil
	}
	select {
	case t <- struct{}{}:
		// The server's own time for r has gone by meanwhile, or it knows none.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(arrival))
		return func() { <-t }, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}
