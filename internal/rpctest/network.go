// SPDX-License-Identifier: Apache-2.0

package rpctest

import (
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/rpc"
)

// Network connects hosts by name. Use New. Safe for concurrent use; faults
// may change while calls are under way, and count for messages sent later.
type Network struct {
	seed  uint64
	bytes atomic.Bool

	mu    sync.Mutex
	hosts map[string]*Host
	links map[[2]string]*link
}

// New returns a network without hosts or faults. Networks with the same seed
// have the same faults for the n-th message from one host to another.
func New(seed uint64) *Network {
	return &Network{seed: seed, hosts: make(map[string]*Host), links: make(map[[2]string]*link)}
}

// Host finds or makes the host of that name. One that does not serve refuses calls.
func (n *Network) Host(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.hosts[name]
	if h == nil {
		h = &Host{network: n, name: name}
		n.hosts[name] = h
	}
	return h
}

// SetFaults sets what goes wrong with messages from one host to another; the
// other direction has faults of its own.
func (n *Network) SetFaults(from, to string, f Faults) {
	l := n.link(from, to)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = f
}

// Cut loses all messages from one host to another, but not those in the other direction:
// after Cut(owner, host) the owner receives what the host sends, and not the reverse.
func (n *Network) Cut(from, to string) { n.setCut(from, to, true) }

// Heal undoes Cut. Other faults stay.
func (n *Network) Heal(from, to string) { n.setCut(from, to, false) }

// Partition cuts, in both directions, every host of one side from every host
// of the other. Hosts on neither side still reach all.
func (n *Network) Partition(one, other []string) {
	for _, a := range one {
		for _, b := range other {
			n.Cut(a, b)
			n.Cut(b, a)
		}
	}
}

// HealAll undoes all Cuts and Partitions. Other faults stay.
func (n *Network) HealAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		l.mu.Lock()
		l.cut = false
		l.mu.Unlock()
	}
}

// Bytes has the network encode and decode each message, as a real network does: the two
// sides share no memory, and the network overwrites what a Decider keeps of a request after
// its return. The default is off.
func (n *Network) Bytes(on bool) { n.bytes.Store(on) }

// Sent is how many messages one host has sent to another, lost ones included. A call is
// one message to the other host, and one back when that answers.
func (n *Network) Sent(from, to string) int {
	l := n.link(from, to)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent
}

func (n *Network) setCut(from, to string, cut bool) {
	l := n.link(from, to)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
}

func (n *Network) link(from, to string) *link {
	n.mu.Lock()
	defer n.mu.Unlock()
	way := [2]string{from, to}
	l := n.links[way]
	if l == nil {
		l = newLink(n.seed, from, to)
		n.links[way] = l
	}
	return l
}

var (
	_ rpc.Peers   = peers{}
	_ rpc.Decider = remote{}
)
