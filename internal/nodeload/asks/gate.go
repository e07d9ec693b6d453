// SPDX-License-Identifier: Apache-2.0

package asks

import (
	"net"
	"sync"
)

// gate is a listener whose connections can hang: nothing that was sent arrives any more.
type gate struct {
	net.Listener

	shutting, ending sync.Once
	closed, over     chan struct{}
}

func (g *gate) shut() { g.shutting.Do(func() { close(g.closed) }) }

// end has the connections deliver again.
func (g *gate) end() { g.ending.Do(func() { close(g.over) }) }

// Accept waits for the next connection.
func (g *gate) Accept() (net.Conn, error) {
	c, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return gatedConn{c, g}, nil
}

type gatedConn struct {
	net.Conn

	gate *gate
}

// Read reads, and waits if the gate is shut.
func (c gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	select {
	case <-c.gate.closed:
		<-c.gate.over
	default:
	}
	return n, err
}
