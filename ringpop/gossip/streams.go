// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"log" //nolint:depguard // memberlist takes no other
	"net"
	"strings"
	"sync"

	"github.com/hashicorp/memberlist"

	"github.com/headgate/headgate/internal/conns"
)

// Bounds of what others send over TCP, which is whole lists of hosts, before memberlist
// knows who they are: it would keep 20 MiB of each. A list of 4,000 hosts with full
// labels has some 4 MiB.
const (
	maxStreams    = 64
	maxStream     = 4 << 20
	maxAllStreams = 16 << 20
)

// streams is memberlist's own transport, with bounds on what comes over TCP. The address
// that sends most loses connections to others. Use newStreams.
type streams struct {
	*memberlist.NetTransport

	incoming *conns.Listener
	admitted chan net.Conn
	closed   chan struct{}
	loop     sync.WaitGroup
}

// newStreams listens on TCP and UDP; port 0 takes one that is free on both.
func newStreams(host string, port int, logger *log.Logger) (*streams, error) {
	config := &memberlist.NetTransportConfig{BindAddrs: []string{host}, BindPort: port, Logger: logger}
	transport, err := memberlist.NewNetTransport(config)
	for range 9 { // what is free on TCP may be taken on UDP
		if err == nil || port != 0 || !strings.Contains(err.Error(), "address already in use") {
			break
		}
		transport, err = memberlist.NewNetTransport(config)
	}
	if err != nil {
		return nil, err
	}
	s := &streams{NetTransport: transport, admitted: make(chan net.Conn), closed: make(chan struct{})}
	s.incoming = conns.Track(&accepted{transport.StreamCh(), s.closed}, maxStreams)
	limits := conns.DefaultLimits
	limits.Bytes, limits.TotalBytes = maxStream, maxAllStreams
	s.incoming.Limit(limits)
	s.loop.Go(s.admit)
	return s, nil
}

// admit hands on what there is room for.
func (s *streams) admit() {
	for {
		conn, err := s.incoming.Accept()
		if err != nil {
			return
		}
		conns.Count(conn)
		select {
		case s.admitted <- conn:
		case <-s.closed:
			_ = conn.Close()
		}
	}
}

// StreamCh implements memberlist.Transport.
func (s *streams) StreamCh() <-chan net.Conn { return s.admitted }

// Shutdown implements memberlist.Transport.
func (s *streams) Shutdown() error {
	s.incoming.CloseAll()
	err := s.NetTransport.Shutdown() // waits for admit to take what has come
	close(s.closed)
	s.loop.Wait()
	return err
}

// accepted is a net.Listener of what a transport has accepted.
type accepted struct {
	from   <-chan net.Conn
	closed <-chan struct{}
}

// Accept implements net.Listener.
func (l *accepted) Accept() (net.Conn, error) {
	select {
	case conn := <-l.from:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. The transport closes what it listens at.
func (*accepted) Close() error { return nil }

// Addr implements net.Listener.
func (*accepted) Addr() net.Addr { return nil }
