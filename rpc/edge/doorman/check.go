// SPDX-License-Identifier: Apache-2.0

package doorman

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

// host is the name in the account of the client or server that calls itself
// id. No two callers have the same: an identity is quoted, so that none ends
// in what another's id begins with, and a host:port has no slash.
func (s *Server) host(ctx context.Context, kind, id string) (string, error) {
	if err := checkID(kind+"_id", id); err != nil {
		return "", err
	}
	host := kind
	if s.identify != nil {
		if identity, ok := s.identify(ctx); ok {
			host += "@" + strconv.Quote(identity)
		}
	}
	host += "/" + id
	if len(host) > rpc.MaxKeyLength {
		return "", fmt.Errorf("%s_id and the caller's identity have %d bytes; use an id so short that they have at most %d", kind, len(host), rpc.MaxKeyLength)
	}
	return host, nil
}

func checkID(field, id string) error {
	if id == "" {
		return fmt.Errorf("%s is empty; send a name that nobody else has", field)
	}
	if len(id) > rpc.MaxKeyLength {
		return fmt.Errorf("%s has %d bytes; use at most %d", field, len(id), rpc.MaxKeyLength)
	}
	return nil
}

// checkResources checks how many resources a request names, and their names.
func (s *Server) checkResources(n int, id func(int) string) error {
	if n > s.maxResources {
		return s.tooMany(n)
	}
	if n == 1 {
		return checkID("resource_id", id(0))
	}
	seen := make(map[string]bool, n)
	for i := range n {
		if err := checkID("resource_id", id(i)); err != nil {
			return err
		}
		if seen[id(i)] {
			return inResource(id(i), fmt.Errorf("it is in this request twice; add up what you want of it"))
		}
		seen[id(i)] = true
	}
	return nil
}

func (s *Server) tooMany(n int) error {
	return fmt.Errorf("%d resources in one request; send at most %d", n, s.maxResources)
}

// capacityHeld is what a client holds by a lease that has not ended, or 0.
func capacityHeld(has *doormanpb.Lease, now time.Time) (float64, error) {
	if has == nil {
		return 0, nil
	}
	if err := checkAmount("has.capacity", has.GetCapacity()); err != nil {
		return 0, err
	}
	if has.GetExpiryTime() <= now.Unix() {
		return 0, nil
	}
	return has.GetCapacity(), nil
}

func bandsOf(wants []*doormanpb.PriorityBandAggregate) ([]claims.Band, error) {
	if len(wants) > rpc.MaxBands {
		return nil, fmt.Errorf("wants has %d priorities; add up those that are close, send at most %d", len(wants), rpc.MaxBands)
	}
	bands := make([]claims.Band, 0, len(wants))
	for _, w := range wants {
		if w.GetNumClients() == 0 && w.GetWants() == 0 {
			continue // a server whose clients have all left says so
		}
		if w.GetNumClients() < 1 || w.GetNumClients() > rpc.MaxCount {
			return nil, fmt.Errorf("num_clients of priority %d is %d; it is in [1, 2^53]; leave a priority without clients out", w.GetPriority(), w.GetNumClients())
		}
		if err := checkAmount("wants", w.GetWants()); err != nil {
			return nil, err
		}
		bands = append(bands, claims.Band{Priority: w.GetPriority(), Clients: w.GetNumClients(), Wants: w.GetWants()})
	}
	return bands, nil
}

func checkAmount(field string, v float64) error {
	if !(v >= 0 && v <= rpc.MaxAmount) {
		return fmt.Errorf("%s is %v; send a number in [0, 2^53]", field, v)
	}
	return nil
}

func inResource(id string, err error) error { return fmt.Errorf("resource %.100q: %w", id, err) }

// refused counts a request that cannot be, and says so to the caller.
func (s *Server) refused(err error) error {
	s.metrics.invalid.Inc(1)
	return status.Error(codes.InvalidArgument, err.Error())
}

// unavailable says that no owner answered, unless it is the caller who left.
func unavailable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return status.Error(codes.Unavailable, err.Error())
}
