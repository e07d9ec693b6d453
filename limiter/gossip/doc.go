// SPDX-License-Identifier: Apache-2.0

// Package gossip has every host hold the whole bucket of a key, and tell all
// other hosts what it used of it:
//
//	mesh := gossip.New(address, rules, gossip.Config{})
//	group := limiter.NewGroup(snapshot, hosts, limiter.WithRemote("gossip", mesh))
//	mux.Register(rpc.GossipTypeURL, mesh) // hears
//	go mesh.Run(ctx, peers)               // tells
//	mesh.SetPeers(addresses)              // whenever the hosts change
//
// A decision is made in memory. So any host may use all of a key's tokens at
// once, whatever others do, until it hears of them: one interval later. What
// was let through too much makes the buckets negative, and is paid back.
//
//	      host A         host B         host C
//	now   4 of 4         4 of 4         4 of 4      each uses its 4
//	told  4 − 4 − 8      −8             −8          all wait until 8 and one more are filled in
//
// Over a long time the limit holds. In one interval, hosts together may use as
// often a burst, and what the limit fills in, as there are hosts.
//
// # Who hears what
//
// Each host tells each other host, every interval, how much it has used since
// it began to count, of those keys that changed since that host last answered.
// So a message that is lost, late or comes twice does no harm. A host that is
// new, or has forgotten a key, begins with what the first who tells it thinks
// is left.
//
// While hosts cannot hear each other, each lets the whole limit through. How
// much of that is paid back afterwards is bounded: what hosts may use in a few
// intervals, and a burst of each.
//
// # Out of scope
//
// Large clusters: messages grow with the square of the hosts. Limits that must
// never be exceeded: see `exact`.
package gossip
