// SPDX-License-Identifier: Apache-2.0

// Package doorman lets programs that speak Doorman's protocol, the gRPC
// service doorman.Capacity, be served by headgate: clients that ask for their
// own capacity, and Doorman servers downstream that ask for their clients'.
//
//	claimant := &claims.Claimant{Host: self, Placement: ring, Peers: client, Self: self, Here: aggregator}
//	edge := doorman.NewServer(claimant, doorman.ServerOptions{Address: "10.0.0.7:7600"})
//	server := grpc.NewServer()
//	edge.Register(server)
//	err := server.Serve(listener)
//
// Any node answers for any resource, because it asks the resource's owner:
// Discovery names the node that was asked, and no answer sends a client
// elsewhere.
//
//	client ──GetCapacity──▶ Server ──Claims──▶ Claimer ──▶ owner of the key
//	  ▲                       │                               │
//	  └──── gets, safe ───────┴──────────── Leases ◀──────────┘
//
// A resource is a key of the same name. A client is a host of its own account,
// named `client/ID`, and a server downstream `server/ID`, so that one cannot
// pass for the other, nor for a host of the cluster.
//
// A client of 2016 sends a request that was refused again as it is, for ever. So
// only a request without a client_id or server_id is refused, as InvalidArgument.
// Numbers out of range are replaced by the nearest in range. A resource that wants
// NaN or less than 0, has a name that no key can have, or is in the request twice
// is left out of the answer, and nothing of it reaches a sum. Both are counted and
// logged.
//
// Times on the wire are whole seconds: leases are rounded down, but end in the
// future, and refreshing is never below one second.
// A resource that the owner refuses gets 0. Resources whose owner does not
// answer are left out of the answer, so that their leases go on until they
// end; if that is all of them, the call is Unavailable.
//
// The other way round, an Upstream leases capacity from original Doorman servers,
// as a server downstream of theirs.
//
// Out of scope: how capacity is shared and for how long (the decider), the gRPC server and its
// health (the caller). The server keeps what it told each client, and an Upstream what it knows of
// the server above; each has one lock.
package doorman
