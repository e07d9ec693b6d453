// SPDX-License-Identifier: Apache-2.0

// Package grpcconns has credentials of gRPC. Limited puts the connections of a server
// under the limits of package conns, encrypted or not:
//
//	grpc.NewServer(grpc.Creds(grpcconns.Limited(credentials.NewTLS(config))))
//
// The server accepts from a conns.Listener. It gives a connection buffers only when
// the client has said that it speaks HTTP/2. Rotating has a client use certificates
// that change. Out of scope: what the limits are.
package grpcconns

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/credentials"

	"github.com/headgate/headgate/internal/conns"
)

// Limited returns c with the limits of the conns.Listener that a connection comes
// from. Without TLS, c is insecure.NewCredentials().
func Limited(c credentials.TransportCredentials) credentials.TransportCredentials {
	return limited{c}
}

type limited struct {
	credentials.TransportCredentials
}

// greeting is how long a client may take for TLS and to say that it speaks HTTP/2.
const greeting = 5 * time.Second

// ServerHandshake implements credentials.TransportCredentials. It returns when the
// client's preface has arrived: a server of gRPC takes 64 KiB for each connection
// after that, and clients that say nothing are many. The server takes the deadline of
// raw away.
func (c limited) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if err := raw.SetDeadline(time.Now().Add(greeting)); err != nil {
		return nil, nil, err
	}
	text, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return text, info, err
	}
	g := &greeted{Conn: conns.Inspect(raw, text), preface: make([]byte, len(http2.ClientPreface))}
	if _, err := io.ReadFull(g.Conn, g.preface); err != nil {
		return nil, nil, fmt.Errorf("wait for the preface of HTTP/2: %w", err)
	}
	return g, info, nil
}

// greeted is a connection whose preface has been read.
type greeted struct {
	net.Conn

	preface []byte // what is to be read again
}

// Read implements io.Reader.
func (g *greeted) Read(p []byte) (int, error) {
	if len(g.preface) == 0 {
		return g.Conn.Read(p)
	}
	n := copy(p, g.preface)
	g.preface = g.preface[n:]
	return n, nil
}

// Clone implements credentials.TransportCredentials.
func (c limited) Clone() credentials.TransportCredentials {
	return limited{c.TransportCredentials.Clone()}
}

// Rotating returns the credentials of a client whose certificate and authorities change:
// each connection is made with what current returns then. current is called by several
// goroutines at once.
func Rotating(current func() *tls.Config) credentials.TransportCredentials {
	return rotating{credentials.NewTLS(current()), current}
}

type rotating struct {
	credentials.TransportCredentials

	current func() *tls.Config
}

// ClientHandshake implements credentials.TransportCredentials.
func (c rotating) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(c.current()).ClientHandshake(ctx, authority, raw)
}

// Clone implements credentials.TransportCredentials.
func (c rotating) Clone() credentials.TransportCredentials {
	return rotating{c.TransportCredentials.Clone(), c.current}
}
