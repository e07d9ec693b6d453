// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"net"
	"net/netip"
)

// peers are the connections of each peer. Not safe for concurrent use.
type peers struct {
	of map[netip.Prefix]map[*conn]struct{}

	// with[n] is how many peers have n connections, and most the largest n that any
	// has.
	with map[int]int
	most int
}

func newPeers() peers {
	return peers{of: make(map[netip.Prefix]map[*conn]struct{}), with: make(map[int]int)}
}

// peerOf returns the peer with address a: an IPv4 address, or the IPv6 network of the
// size that one customer gets. All that connect at a Unix socket are one peer.
func peerOf(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap()
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	p, _ := ip.Prefix(bits) // of an invalid address, the zero Prefix
	return p
}

func (p *peers) add(c *conn) {
	of := p.of[c.peer]
	if of == nil {
		of = make(map[*conn]struct{})
		p.of[c.peer] = of
	}
	p.count(len(of), -1)
	of[c] = struct{}{}
	p.count(len(of), 1)
	p.most = max(p.most, len(of))
}

func (p *peers) remove(c *conn) {
	of := p.of[c.peer]
	p.count(len(of), -1)
	if len(of) == p.most && p.with[p.most] == 0 {
		p.most--
	}
	delete(of, c)
	p.count(len(of), 1)
	if len(of) == 0 {
		delete(p.of, c.peer)
	}
}

// count adds to the number of peers with n connections.
func (p *peers) count(n, more int) {
	if n == 0 {
		return
	}
	if p.with[n] += more; p.with[n] == 0 {
		delete(p.with, n)
	}
}

// surplus is a connection of the peer with the most connections, if those are at
// least two more than the peer to has; else nil.
func (p *peers) surplus(to netip.Prefix) *conn {
	if p.most < len(p.of[to])+2 {
		return nil
	}
	for _, of := range p.of {
		if len(of) < p.most {
			continue
		}
		for c := range of {
			return c
		}
	}
	return nil
}
