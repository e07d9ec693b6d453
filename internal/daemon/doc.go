// SPDX-License-Identifier: Apache-2.0

// Package daemon is what `headgate serve` runs: a headgate.Node, which decides
// and limits nothing itself, and beside it the edge port, a gRPC server for
// programs that run no decider.
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
// serves is a list in services.go.
//
//	programs ──gRPC──▶ edge port ──▶ rpc.Forward ──YARPC──▶ owners of the keys
//
// Out of scope: flags, signals and what is printed (cmd/headgate).
package daemon
