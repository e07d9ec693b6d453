// SPDX-License-Identifier: Apache-2.0

// Package netcount counts the bytes that connections carry. It does not know what
// they say.
package netcount

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
)

// Bytes are what connections have carried. The zero value is ready to use.
type Bytes struct {
	Sent, Received atomic.Int64
}

// Listen returns l, whose connections b counts.
func (b *Bytes) Listen(l net.Listener) net.Listener { return listener{l, b} }

// Dial connects to address. It counts what the connection carries.
func (b *Bytes) Dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("a peer: %w", err)
	}
	return conn{c, b}, nil
}

type listener struct {
	net.Listener

	bytes *Bytes
}

// Accept waits for the next connection.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return conn{c, l.bytes}, nil
}

type conn struct {
	net.Conn

	bytes *Bytes
}

// Read counts what it reads.
func (c conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Received.Add(int64(n))
	return n, err
}

// Write counts what it writes.
func (c conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.bytes.Sent.Add(int64(n))
	return n, err
}
