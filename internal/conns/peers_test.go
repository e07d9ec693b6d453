// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
)

// from is a connection from an address.
type from struct {
	net.Conn

	address string
	closed  bool
}

func (c *from) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(c.address), 1))
}

func (c *from) Close() error {
	c.closed = true
	return nil
}

// coming accepts what it is given, and then nothing.
type coming struct {
	net.Listener

	conns []*from
}

func (l *coming) Accept() (net.Conn, error) {
	if len(l.conns) == 0 {
		return nil, net.ErrClosed
	}
	c := l.conns[0]
	l.conns = l.conns[1:]
	return c, nil
}

// acceptAll lets connections from addresses come, and returns those that are open
// afterwards, by address.
func acceptAll(t *testing.T, l *Listener, addresses ...string) map[string]int {
	t.Helper()
	all := l.Listener.(*coming)
	for _, a := range addresses {
		all.conns = append(all.conns, &from{address: a})
	}
	for {
		if _, err := l.Accept(); err != nil {
			break
		}
	}
	open := make(map[string]int)
	for c := range l.conns {
		if of := c.Conn.(*from); of.closed {
			t.Errorf("a connection from %s is open and closed", of.address)
		} else {
			open[of.address]++
		}
	}
	return open
}

func TestOnePeerDoesNotKeepOthersOut(t *testing.T) {
	l := Track(&coming{}, 4)
	greedy := make([]string, 100)
	for i := range greedy {
		greedy[i] = "192.0.2.1"
	}
	acceptAll(t, l, greedy...)
	if open := acceptAll(t, l, "192.0.2.2"); open["192.0.2.1"] != 3 || open["192.0.2.2"] != 1 {
		t.Errorf("%v", open)
	}
	acceptAll(t, l, greedy...) // which takes nothing from others
	if open := acceptAll(t, l, "192.0.2.3", "192.0.2.4"); len(open) != 4 {
		t.Errorf("%v", open)
	}
	if open := acceptAll(t, l, "192.0.2.5", "192.0.2.2"); open["192.0.2.5"] != 0 || len(open) != 4 {
		t.Errorf("all have one, and one more came in: %v", open)
	}
	if got := l.Refused(); got != 96+1+100+2+2 {
		t.Errorf("%d refused", got)
	}
}

// A customer of IPv6 has many addresses, and is one peer.
func TestANetworkOfIPv6IsOnePeer(t *testing.T) {
	l := Track(&coming{}, 2)
	open := acceptAll(t, l, "2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8:0:1::1")
	if open["2001:db8::1"]+open["2001:db8::2"] != 1 || open["2001:db8:0:1::1"] != 1 {
		t.Errorf("%v", open)
	}
	if a, b := peerOf(&net.UnixAddr{Name: "a"}), peerOf(&net.UnixAddr{Name: "b"}); a != b {
		t.Errorf("at a Unix socket: %v and %v", a, b)
	}
	if mapped, plain := peerOf(&net.TCPAddr{IP: net.ParseIP("::ffff:192.0.2.1")}), peerOf(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1).To4()}); mapped != plain {
		t.Errorf("%v and %v", mapped, plain)
	}
}

// The counts are those of a recount, whatever comes and goes.
func TestPeersAreCounted(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	p := newPeers()
	var all []*conn
	for range 10_000 {
		if random.IntN(2) == 0 || len(all) == 0 {
			c := &conn{peer: netip.PrefixFrom(netip.AddrFrom4([4]byte{0, 0, 0, byte(random.IntN(8))}), 32)}
			p.add(c)
			all = append(all, c)
		} else {
			i := random.IntN(len(all))
			p.remove(all[i])
			all = append(all[:i], all[i+1:]...)
		}
		most, counted := 0, make(map[netip.Prefix]int)
		for _, c := range all {
			counted[c.peer]++
			most = max(most, counted[c.peer])
		}
		if p.most != most || len(p.of) != len(counted) {
			t.Fatalf("most %d of %d peers, want %d of %d", p.most, len(p.of), most, len(counted))
		}
		c := p.surplus(netip.Prefix{})
		if (c != nil) != (most >= 2) || c != nil && counted[c.peer] != most {
			t.Fatalf("%v gives way, of %v", c, counted)
		}
	}
}
