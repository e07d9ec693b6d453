// SPDX-License-Identifier: Apache-2.0

// Package rpcyarpc carries rpc over YARPC's gRPC transport.
//
// A host that decides serves its Decider, usually an rpc.Mux:
//
//	listener, err := net.Listen("tcp", address)
//	server := rpcyarpc.NewServer(listener, &mux, rpcyarpc.ServerOptions{})
//	err = server.Start()
//	defer server.Stop(ctx)
//
// A host that limits asks the others, and lets go of those that left:
//
//	client, err := rpcyarpc.NewClient(rpcyarpc.ClientOptions{Caller: "orders"})
//	defer client.Close()
//	fan := &rpc.Fanout{Host: self, Placement: ring, Peers: client}
//	client.Keep(ring.Hosts()) // whenever the ring has changed
//
// A service with a YARPC dispatcher of its own needs neither: Procedures goes
// to its Register, a Chooser into one of its outbounds, and PeersOver makes
// the rpc.Peers, so that its middleware and metrics see these calls too.
//
//	client ── Chooser ──┬── one connection ──▶ owner 1 ── Procedures ──▶ Decider
//	                    └── one connection ──▶ owner 2 …
//
// On the wire a call is gRPC's /headgate.v1.Decider/Update with YARPC's
// headers. Errors keep what callers branch on: rpc.ErrPayload,
// rpc.ErrUnknownType and context.DeadlineExceeded pass through.
//
// Out of scope: retries, load balancing (a key has one owner), discovery.
package rpcyarpc
