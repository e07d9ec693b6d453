// SPDX-License-Identifier: Apache-2.0

// Package ringpop places keys on hosts: all processes that know the same
// hosts agree, without a message between them, which one of them owns a key.
//
//	ring, err := ringpop.New([]ringpop.Host{
//		{Address: "10.0.0.1:7933"},
//		{Address: "10.0.0.2:7933"},
//		{Address: "10.0.0.3:7933"},
//	}, 0)
//	if err != nil {
//		return err
//	}
//	owner := ring.Owner("frontend:orders") // "10.0.0.1:7933"
//	ring = ring.Without(owner)             // another ring; the old one stays
//
// # How it places
//
// Each host has 100 points on a circle of 2³² hashes. A key belongs to the
// host of the first point at or after the key's own hash, clockwise:
//
//	        0 = 2³²
//	    B  ·──·──·  A
//	  ·               ·
//	A                   C      hash("frontend:orders") = ×
//	│                   ×  ──┐
//	C                   │    │ the next point is one of B's:
//	│                   B  ◀─┘ B owns the key, A would be next
//	 ·                 ·
//	   A  ·──·──·──·  A
//
// When B leaves, each of its 100 stretches falls to the point behind it, so
// its keys spread over all other hosts, and no other key moves. When D
// joins, it takes a little from everyone, and keys move only to D.
//
// The places of points are those of Uber's ringpop: a service that moves over
// from it finds each key at the owner it had. Two hosts may have points with
// the same hash; then the smaller address goes first, on every host.
//
// How even it is: of 100,000 keys the fullest host has 1.1 times the mean at
// 10 hosts, 1.3 times at 100, 1.5 times at 1,000. More points are more even.
//
// # Hosts that come and go
//
// A [Ring] never changes, so lookups take no lock. A [Live] holds the current
// one and follows [Members], which notify it of changes:
//
//	live := ringpop.NewLive(0)
//	go live.Run(ctx, members, func(old, new *ringpop.Ring) { … })
//	owner := live.Owner(key)
//
// Where members come from is a package each: static, a fixed list; hosted,
// the service's own list; dns, a name; gossip, hosts that find each other. Package
// health leaves out those of a list that do not answer.
//
// # Out of scope
//
// Finding hosts and checking their health (members do), talking to them
// (package rpc does), bounded loads and weights of hosts: every host has
// equally many points.
package ringpop
