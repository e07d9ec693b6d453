// SPDX-License-Identifier: Apache-2.0

package doorman

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/uber-go/tally/v4"
	"google.golang.org/grpc"

	"github.com/headgate/headgate/internal/scopes"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

// DefaultMaxResources is the default of ServerOptions.MaxResources.
const DefaultMaxResources = 4096

// Claimer asks the owners of keys for leases. *claims.Claimant is the one to use.
// Implementations are safe for concurrent use.
type Claimer interface {
	// Claim returns a lease for each row. The errors are nil if all owners
	// answered; otherwise each row has its own or nil.
	Claim(ctx context.Context, asked *claims.Claims) (*claims.Leases, []error)
}

var _ Claimer = (*claims.Claimant)(nil)

// ServerOptions is the setup of a Server.
type ServerOptions struct {
	// Address is where clients reach this server, host:port, for Discovery.
	// Required: clients dial it.
	Address string

	// MaxResources bounds the resources that are claimed at once, in
	// [1, rpc.MaxKeys]; default DefaultMaxResources. A request that names more is
	// served in parts, one after another. Higher lets one request keep its owners
	// busy for longer.
	MaxResources int

	// Identify, when not nil, says who calls, by what the transport knows of
	// it: grpc's peer.FromContext(ctx) has the certificate. Ids count within
	// that identity, so that no client can release or spend what is another's.
	// False: the caller has none.
	Identify func(ctx context.Context) (identity string, ok bool)

	// May, when not nil, returns why who calls may not use a resource. That one is left out of
	// the answer, as a bad one is. If it is all that a request names, the call is refused.
	May func(ctx context.Context, resource string) error

	// Scope is where metrics go; default nowhere.
	Scope tally.Scope

	// Show, when not nil, returns what Log may have of a resource's name, which may be
	// private; default the name.
	Show func(resource string) string

	// Log receives why resources get no lease and what was corrected in requests,
	// which Doorman's answers cannot say: at most one line a minute of each.
	// Default nowhere.
	Log *slog.Logger

	// Now is the clock that leases on the wire are dated by; default time.Now.
	Now func() time.Time
}

// Server answers Doorman's clients and servers. Use NewServer. Safe for
// concurrent use.
type Server struct {
	doormanpb.UnimplementedCapacityServer

	claims       Claimer
	maxResources int
	identify     func(context.Context) (string, bool)
	may          func(context.Context, string) error
	now          func() time.Time
	told         *told
	metrics      metrics
	log          *slog.Logger
	show         func(resource string) string
	grumbled     onceAMinute // of refusals
	corrected    onceAMinute // of corrections
	discovery    *doormanpb.DiscoveryResponse
}

var _ doormanpb.CapacityServer = (*Server)(nil)

// NewServer returns a Server that asks claims.
func NewServer(claims Claimer, o ServerOptions) *Server {
	s := &Server{
		claims:       claims,
		maxResources: min(cmp.Or(max(o.MaxResources, 0), DefaultMaxResources), rpc.MaxKeys),
		identify:     o.Identify,
		may:          o.May,
		now:          o.Now,
		log:          o.Log,
		show:         o.Show,
		told:         newTold(),
		discovery: &doormanpb.DiscoveryResponse{
			Mastership: &doormanpb.Mastership{MasterAddress: new(o.Address)},
			IsMaster:   new(true),
		},
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.show == nil {
		s.show = func(resource string) string { return resource }
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.metrics = newMetrics(scopes.Guard(o.Scope, s.log))
	return s
}

// Register makes registrar, usually a *grpc.Server, serve doorman.Capacity.
func (s *Server) Register(registrar grpc.ServiceRegistrar) {
	doormanpb.RegisterCapacityServer(registrar, s)
}

// Discovery names this very server: any node answers for any resource.
func (s *Server) Discovery(context.Context, *doormanpb.DiscoveryRequest) (*doormanpb.DiscoveryResponse, error) {
	s.metrics.discovery.Inc(1)
	return s.discovery, nil
}
