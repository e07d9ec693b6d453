// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

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

const (
	// maxPacket is the largest packet of UDP.
	maxPacket = 1 << 16

	// readAhead is how many packets are read before memberlist takes them.
	readAhead = 64

	// receiveBuffer is how many bytes of packets the kernel keeps that are not read yet, if it
	// lets a program have so many.
	receiveBuffer = 2 << 20

	// labelled is the first byte of a packet with a label: memberlist's hasLabelMsg. The
	// label's length and the label follow.
	labelled = 244

	// afterError is the time between two attempts to read or accept that fail.
	afterError = 50 * time.Millisecond
)

// transport is memberlist's network. memberlist's own one takes 64 KiB of memory for each packet
// of UDP, so that a few ten thousand packets of strangers in a second leave a host no time for
// those of others. Over TCP, the address that sends most loses connections to others. Use listen.
type transport struct {
	log    *slog.Logger
	label  []byte // that packets begin with
	udp    *net.UDPConn
	tcp    *conns.Listener
	closed chan struct{}
	loops  sync.WaitGroup

	packets chan *memberlist.Packet
	streams chan net.Conn
}

// listen listens on TCP and UDP for hosts of a cluster; port 0 takes one that is free on both.
func listen(ip net.IP, port int, cluster string, logger *slog.Logger) (*transport, error) {
	tcp, udp, err := bind(ip, port)
	for range 9 { // what is free on TCP may be taken on UDP
		if err == nil || port != 0 || !strings.Contains(err.Error(), "address already in use") {
			break
		}
		tcp, udp, err = bind(ip, port)
	}
	if err != nil {
		return nil, err
	}
	t := &transport{
		log: logger, label: append([]byte{labelled, byte(len(cluster))}, cluster...), udp: udp, tcp: conns.Track(tcp, maxStreams),
		closed: make(chan struct{}), packets: make(chan *memberlist.Packet, readAhead), streams: make(chan net.Conn),
	}
	limits := conns.DefaultLimits
	limits.Bytes, limits.TotalBytes = maxStream, maxAllStreams
	t.tcp.Limit(limits)
	t.loops.Go(t.accept)
	t.loops.Go(t.read)
	return t, nil
}

// bind takes one port on TCP and UDP.
func bind(ip net.IP, port int) (*net.TCPListener, *net.UDPConn, error) {
	tcp, err := net.ListenTCP("tcp", &net.TCPAddr{IP: ip, Port: port})
	if err != nil {
		return nil, nil, err
	}
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: ip, Port: portOf(tcp)})
	if err == nil {
		if err = udp.SetReadBuffer(receiveBuffer); err == nil {
			return tcp, udp, nil
		}
		err = errors.Join(err, udp.Close())
	}
	return nil, nil, errors.Join(err, tcp.Close())
}

// portOf is the port that l has.
func portOf(l net.Listener) int {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	n, _ := strconv.Atoi(port)
	return n
}

// accept hands on connections.
func (t *transport) accept() {
	for {
		conn, err := t.tcp.Accept()
		if err != nil {
			if t.failed("connections cannot be accepted", err) {
				return
			}
			continue
		}
		conns.Count(conn)
		select {
		case t.streams <- &stream{Conn: conn}:
		case <-t.closed:
			_ = conn.Close()
		}
	}
}

// read hands on the packets with the cluster's label that do not become larger when they are read.
func (t *transport) read() {
	b := make([]byte, maxPacket)
	for {
		n, from, err := t.udp.ReadFromUDPAddrPort(b)
		now := time.Now()
		if err != nil {
			if t.failed("packets cannot be read", err) {
				return
			}
			continue
		}
		if !bytes.HasPrefix(b[:n], t.label) || expands(b[len(t.label):n]) {
			continue
		}
		select {
		case t.packets <- &memberlist.Packet{Buf: bytes.Clone(b[:n]), From: net.UDPAddrFromAddrPort(from), Timestamp: now}:
		case <-t.closed:
			return
		}
	}
}

// failed logs an error, and waits a while. It reports whether the transport is closed.
func (t *transport) failed(what string, err error) bool {
	select {
	case <-t.closed:
		return true
	default:
	}
	t.log.Warn("gossip: "+what, "error", err)
	select {
	case <-t.closed:
		return true
	case <-time.After(afterError):
		return false
	}
}

// port is where it listens.
func (t *transport) port() int { return portOf(t.tcp) }

// FinalAdvertiseAddr implements memberlist.Transport. Where to gossip with this host is what
// memberlist's config says.
func (*transport) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	at := net.ParseIP(ip)
	if four := at.To4(); four != nil {
		at = four // as memberlist's own transport has it: others compare the bytes
	}
	return at, port, nil
}

// WriteTo implements memberlist.Transport.
func (t *transport) WriteTo(b []byte, address string) (time.Time, error) {
	to, err := net.ResolveUDPAddr("udp", address)
	if err == nil {
		_, err = t.udp.WriteTo(b, to)
	}
	return time.Now(), err
}

// PacketCh implements memberlist.Transport.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// DialTimeout implements memberlist.Transport.
func (*transport) DialTimeout(address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", address, timeout) //nolint:noctx // memberlist has no context
	if err != nil {
		return nil, err
	}
	return &stream{Conn: conn}, nil
}

// StreamCh implements memberlist.Transport.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// Shutdown implements memberlist.Transport.
func (t *transport) Shutdown() error {
	close(t.closed)
	err := errors.Join(t.tcp.Close(), t.udp.Close())
	t.tcp.CloseAll()
	t.loops.Wait()
	return err
}
