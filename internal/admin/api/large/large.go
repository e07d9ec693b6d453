// SPDX-License-Identifier: Apache-2.0

// Package large has requests with large bodies answered one after the other.
//
//	turn := large.New()
//	done, err := turn.Wait(w, r) // before anything is read of r
//	…
//	done() // after the answer
//
// Out of scope: who may send them. A stranger must not come to a turn.
package large

import (
	"net/http"
	"time"
)

// Small is the largest body, in bytes, of a request that does not wait for others.
const Small = 64 << 10

// Turn is had by one request with a large body at a time: a text of limits takes fifteen times
// its size while it is read and compared, and 256 connections may send one each. Use New. Safe
// for concurrent use.
type Turn chan struct{}

// New returns a Turn that is free.
func New() Turn { return make(Turn, 1) }

// arrival is how long a large body may take to arrive, from its turn on.
const arrival = 10 * time.Second

// Wait returns when r, which w answers, may be read, or with an error when its sender has gone.
// Call done after the answer.
func (t Turn) Wait(w http.ResponseWriter, r *http.Request) (done func(), err error) {
	if r.ContentLength >= 0 && r.ContentLength <= Small { // -1: unknown
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
