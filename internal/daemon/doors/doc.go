// SPDX-License-Identifier: Apache-2.0

// Package doors serves the programs of a daemon: Edge over gRPC, and Web
// over HTTP, at ports and at a Unix socket, where Web shares the socket with an Edge.
//
//	door := doors.Limited(listener, doors.GRPC, 10_000, scope)
//	edge := doors.NewEdge(door, turns, ending, options...)
//	quotaservice.NewServer(engine, …).Register(edge)
//	edge.Serve()
//	…
//	err := edge.Stop(ctx, drain, log, hangUp)
//
// What clients can hold is bounded here: connections, calls, bytes, and the large requests
// that are decoded at once.
//
// Out of scope: who a client is and what it may do, and what answers. Each door guards its own
// connections and requests; the rest are atomic counts.
package doors
