// SPDX-License-Identifier: Apache-2.0

// Package daemon is what `headgate serve` runs: a headgate.Node, and beside it
// the edge port, a gRPC server for programs that run no decider. Such a program
// limits itself by what the deciders grant it, or asks for each event, over
// gRPC or HTTP; then the node's own limiters answer.
//
//	d, err := daemon.Start(ctx, daemon.Config{
//		Limits: "limits.yaml",
//		Listen: "10.0.0.7:7933", // for the other deciders
//		Edge:   "10.0.0.7:7934", // for everybody else
//		Members: []string{"10.0.0.7:7933", "10.0.0.8:7933"},
//	}, log)
//	…
//	err = d.Stop(ctx)
//
// The edge port has its caps, health checks and reflection; what else it
// serves is a list in services.go. A Unix socket serves it too, and HTTP: who
// connects is sorted by the first bytes.
//
//	programs ──gRPC──▶ edge port ──▶ usage.Forward ──YARPC──▶ owners of the keys
//
// Prometheus reads what all of it does, at a port of its own.
//
// Out of scope: flags, signals and what is printed (cmd/headgate).
package daemon
