// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"google.golang.org/grpc"

	"github.com/headgate/headgate/internal/daemon/access"
	"github.com/headgate/headgate/limiter/engine"
	"github.com/headgate/headgate/rpc/edge/doorman"
	"github.com/headgate/headgate/rpc/edge/quotaservice"
	"github.com/headgate/headgate/rpc/rpcgrpc"
	"github.com/headgate/headgate/rpc/usage"
)

// services put what the edge port serves on its server, beside health checks
// and reflection. Each is for another kind of program; a new one is a line
// here. They are called while the node runs, and before the edge serves.
var services = []func(s grpc.ServiceRegistrar, d *Daemon){
	serveDecider,
	serveDoorman,
	serveQuotaservice,
}

// serveDecider is for package limiter/client.
func serveDecider(s grpc.ServiceRegistrar, d *Daemon) {
	unanswered := d.metrics.Scope().SubScope("edge").Counter("owners_unanswered")
	edge := d.node.Edge(func(part usage.Part, err error) {
		unanswered.Inc(1)
		d.log.Debug("an owner did not answer for a program at the edge", "owner", part.Owner, "keys", len(part.Rows), "error", err)
	})
	rpcgrpc.Register(s, edge, rpcgrpc.ServerOptions{Identify: access.Identify})
}

// serveDoorman is for Doorman's clients, and for its servers downstream.
func serveDoorman(s grpc.ServiceRegistrar, d *Daemon) {
	o := doorman.ServerOptions{
		Address: d.edgeAddress, Identify: access.Identity, Scope: d.metrics.Scope(), Log: d.log,
		Show: func(resource string) string { return d.node.Limits().Current().Shown(resource) },
	}
	if d.access.Policy != nil {
		o.May = d.access.MayUse
	}
	doorman.NewServer(d.node.Claimant(), o).Register(s)
}

// serveQuotaservice is for quotaservice's clients. The node's own limiters
// decide.
func serveQuotaservice(s grpc.ServiceRegistrar, d *Daemon) {
	quotaservice.NewServer(engine.New(d.node.Group(), nil), quotaservice.ServerOptions{Scope: d.metrics.Scope()}).Register(s)
}
