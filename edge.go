// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"github.com/headgate/headgate/rpc"
)

// Edge returns a Decider that answers for any key, whoever owns it, by asking
// the owners: see rpc.Forward, rpc.ForwardClaims and rpc.ForwardTakes. It is for hosts that know no ring, such as those
// that rpcgrpc serves. Call it between Start and Stop; failed, when not nil, is
// told of owners that did not answer.
func (n *Node) Edge(failed func(part rpc.Part, err error)) rpc.Decider {
	n.mu.Lock()
	defer n.mu.Unlock()

	var mux rpc.Mux
	// All are new to this mux, so that there is no error.
	_ = mux.Register(rpc.UsageTypeURL, &rpc.Forward{Fanout: n.fanout, Failed: failed})
	_ = mux.Register(rpc.ClaimsTypeURL, rpc.ForwardClaims{Claimant: n.claimantLocked()})
	_ = mux.Register(rpc.TakesTypeURL, n.takes)
	return &mux
}

// Claimant returns who asks the owners of keys for leases, on behalf of any
// host. Call it between Start and Stop.
func (n *Node) Claimant() *rpc.Claimant {
	n.mu.Lock()
	defer n.mu.Unlock()

	return n.claimantLocked()
}

func (n *Node) claimantLocked() *rpc.Claimant {
	return &rpc.Claimant{
		Host:      n.config.Address,
		Placement: n.ring,
		Self:      n.config.Address,
		Local:     n.mux,
		Peers:     n.fanout.Peers,
	}
}

// others are the addresses of all hosts but this one.
func (n *Node) others() (addresses []string) {
	for _, h := range n.ring.Ring().Hosts() {
		if h.Address != n.config.Address {
			addresses = append(addresses, h.Address)
		}
	}
	return addresses
}
