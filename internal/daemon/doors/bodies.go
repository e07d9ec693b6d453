// SPDX-License-Identifier: Apache-2.0

package doors

import (
	"context"
	"net"
	"net/http"

	"github.com/headgate/headgate/internal/conns"
	"github.com/headgate/headgate/rpc/edge/httpapi"
)

const (
	// maxHeld bounds what the requests of a door that speaks HTTP take, in bytes: what
	// has arrived of them, and what holdBodies adds. The peer with the most loses
	// connections beyond it.
	maxHeld = 64 << 20
	// memoryOfByte is by how much a large body grows when it is decoded and answered, at
	// most: a dozen bytes are an event, and half a kilobyte is its answer.
	memoryOfByte = 40
	// memoryOfBatch is what the events of one body take, at most, beside its bytes.
	memoryOfBatch = httpapi.DefaultMaxBatch * 512
)

// holdBodies has a large body count with what it takes until it is answered, also while
// its client reads slowly.
func holdBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := r.ContentLength
		if n < 0 || n > httpapi.DefaultMaxBody {
			n = httpapi.DefaultMaxBody
		}
		if conn, ok := Conn(r.Context()); ok && n > httpapi.LargeBody {
			conns.Hold(conn, n+min(n*memoryOfByte, memoryOfBatch))
		}
		next.ServeHTTP(w, r)
	})
}

type connKey struct{}

// withConn is the context of requests on a connection.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	return withAge(context.WithValue(ctx, connKey{}, conn))
}

// Conn is the connection on which the request of HTTP with ctx came.
func Conn(ctx context.Context) (net.Conn, bool) {
	conn, ok := ctx.Value(connKey{}).(net.Conn)
	return conn, ok
}
