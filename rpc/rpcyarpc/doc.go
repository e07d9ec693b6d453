// SPDX-License-Identifier: Apache-2.0

// Package rpcyarpc carries rpc over YARPC's gRPC transport.
//
// A headgate.Node uses a Standalone, which listens and dials by itself. A service
// with a YARPC dispatcher of its own hands that to the Node, so that its TLS,
// middleware and metrics apply to these calls too:
//
//	hosts, err := rpcyarpc.OnDispatcher(dispatcher, "headgate", chooser, nil)
//	node, err := headgate.New(config, source, members, headgate.WithTransport(hosts))
//
// Without a Node, a host that decides serves its Decider, usually an rpc.Mux:
//
//	listener, err := net.Listen("tcp", address)
//	server := rpcyarpc.NewServer(listener, &mux, rpcyarpc.ServerOptions{})
//	err = server.Start()
//	defer server.Stop(ctx)
//
// A host that limits asks the others, and closes the connections to those that
// left:
//
//	client, err := rpcyarpc.NewClient(rpcyarpc.ClientOptions{Caller: "orders"})
//	defer client.Close()
//	fan := &usage.Fanout{Host: self, Placement: ring, Peers: client}
//	client.Keep(addresses) // whenever the ring has changed
//
//	client ── Chooser ──┬── one connection ──▶ owner 1 ── Procedures ──▶ Decider
//	                    └── one connection ──▶ owner 2 …
//
// On the wire a call is gRPC's /headgate.v1.Decider/Update with YARPC's
// headers. Errors keep what callers branch on: rpc.ErrPayload,
// rpc.ErrUnknownType and context.DeadlineExceeded pass through.
//
// Out of scope: retries, load balancing (a key has one owner), discovery. Clients, servers and
// choosers are safe for concurrent use, and keep nothing but connections.
package rpcyarpc
