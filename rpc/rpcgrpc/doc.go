// SPDX-License-Identifier: Apache-2.0

// Package rpcgrpc carries rpc over plain gRPC, for programs that do not link
// YARPC. Such programs run no decider, and call the edge port of hosts that do.
//
// A server puts a Decider on a grpc.Server, most often a usage.Forward,
// which answers for any key:
//
//	server := grpc.NewServer(rpcgrpc.ServerDefaults()...)
//	rpcgrpc.Register(server, &usage.Forward{Fanout: fanout}, rpcgrpc.ServerOptions{})
//
// A client knows some of these servers, and each of them can answer:
//
//	client, err := rpcgrpc.NewClient([]string{"10.0.0.7:7934", "10.0.0.8:7934"}, rpcgrpc.ClientOptions{})
//	defer client.Close()
//	answer, err := client.Update(ctx, "me", payload)
//
// On the wire a call is /headgate.v1.Decider/Update, as in rpcyarpc but
// without YARPC's headers. Errors keep what callers branch on: rpc.ErrPayload,
// rpc.ErrUnknownType, context.DeadlineExceeded and context.Canceled pass
// through.
//
// Out of scope: the owners of keys; retries, because the next report is soon. A Client is safe for
// concurrent use, and keeps nothing about keys.
package rpcgrpc
