// SPDX-License-Identifier: Apache-2.0

package doorman

import (
	"context"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

// GetCapacity leases capacity to one client.
func (s *Server) GetCapacity(ctx context.Context, r *doormanpb.GetCapacityRequest) (*doormanpb.GetCapacityResponse, error) {
	s.metrics.capacity.Inc(1)
	host, err := s.host(ctx, "client", r.GetClientId())
	if err != nil {
		return nil, s.refused(err)
	}
	if err := s.checkResources(len(r.GetResource()), func(i int) string { return r.GetResource()[i].GetResourceId() }); err != nil {
		return nil, s.refused(err)
	}
	now := s.now()
	claims := &rpc.Claims{Rows: make([]rpc.Claim, len(r.GetResource()))}
	bands := make([]rpc.Band, len(r.GetResource()))
	for i, resource := range r.GetResource() {
		has, err := capacityHeld(resource.GetHas(), now)
		if err == nil {
			err = checkAmount("wants", resource.GetWants())
		}
		if err != nil {
			return nil, s.refused(inResource(resource.GetResourceId(), err))
		}
		bands[i] = rpc.Band{Priority: resource.GetPriority(), Clients: 1, Wants: resource.GetWants()}
		claims.Rows[i] = rpc.Claim{Key: resource.GetResourceId(), Host: host, Has: has, Bands: bands[i : i+1 : i+1]}
	}
	leases, errs, err := s.claim(ctx, claims)
	if err != nil {
		return nil, err
	}
	response := &doormanpb.GetCapacityResponse{Response: make([]*doormanpb.ResourceResponse, 0, len(leases.Rows))}
	for i := range leases.Rows {
		if errs != nil && errs[i] != nil {
			continue
		}
		gets, safe := answer(&leases.Rows[i], now)
		response.Response = append(response.Response, &doormanpb.ResourceResponse{
			ResourceId: r.GetResource()[i].ResourceId, Gets: gets, SafeCapacity: safe,
		})
	}
	return response, nil
}

// GetServerCapacity leases capacity to a server downstream.
func (s *Server) GetServerCapacity(ctx context.Context, r *doormanpb.GetServerCapacityRequest) (*doormanpb.GetServerCapacityResponse, error) {
	s.metrics.serverCapacity.Inc(1)
	host, err := s.host(ctx, "server", r.GetServerId())
	if err != nil {
		return nil, s.refused(err)
	}
	if err := s.checkResources(len(r.GetResource()), func(i int) string { return r.GetResource()[i].GetResourceId() }); err != nil {
		return nil, s.refused(err)
	}
	now := s.now()
	claims := &rpc.Claims{Rows: make([]rpc.Claim, len(r.GetResource()))}
	for i, resource := range r.GetResource() {
		has, err := capacityHeld(resource.GetHas(), now)
		var bands []rpc.Band
		if err == nil {
			bands, err = bandsOf(resource.GetWants())
		}
		if err != nil {
			return nil, s.refused(inResource(resource.GetResourceId(), err))
		}
		claims.Rows[i] = rpc.Claim{Key: resource.GetResourceId(), Host: host, Has: has, Bands: bands}
	}
	leases, errs, err := s.claim(ctx, claims)
	if err != nil {
		return nil, err
	}
	response := &doormanpb.GetServerCapacityResponse{Response: make([]*doormanpb.ServerCapacityResourceResponse, 0, len(leases.Rows))}
	for i := range leases.Rows {
		if errs != nil && errs[i] != nil {
			continue
		}
		gets, safe := answer(&leases.Rows[i], now)
		response.Response = append(response.Response, &doormanpb.ServerCapacityResourceResponse{
			ResourceId: r.GetResource()[i].ResourceId, Gets: gets, SafeCapacity: safe, Algorithm: algorithmOf(&leases.Rows[i]),
		})
	}
	return response, nil
}

// ReleaseCapacity gives back what a client has. Releasing what one does not
// have is no error, nor is naming a resource twice or none.
func (s *Server) ReleaseCapacity(ctx context.Context, r *doormanpb.ReleaseCapacityRequest) (*doormanpb.ReleaseCapacityResponse, error) {
	s.metrics.release.Inc(1)
	host, err := s.host(ctx, "client", r.GetClientId())
	if err != nil {
		return nil, s.refused(err)
	}
	if n := len(r.GetResourceId()); n > s.maxResources {
		return nil, s.refused(s.tooMany(n))
	}
	claims := &rpc.Claims{}
	seen := make(map[string]bool, len(r.GetResourceId()))
	for _, id := range r.GetResourceId() {
		// Clients that close send an empty id along.
		if id == "" || seen[id] {
			continue
		}
		if err := checkID("resource_id", id); err != nil {
			return nil, s.refused(err)
		}
		seen[id] = true
		claims.Rows = append(claims.Rows, rpc.Claim{Key: id, Host: host, Release: true})
	}
	if len(claims.Rows) > 0 {
		_, errs, err := s.claim(ctx, claims)
		if err != nil {
			return nil, err
		}
		// A release that did not arrive is worth a second try, unlike a lease,
		// which is asked for again anyway.
		if err := first(errs); err != nil {
			return nil, unavailable(ctx, err)
		}
	}
	return &doormanpb.ReleaseCapacityResponse{}, nil
}

// claim asks the owners. The error is that of a call in which none answered.
func (s *Server) claim(ctx context.Context, claims *rpc.Claims) (*rpc.Leases, []error, error) {
	if len(claims.Rows) == 0 {
		return &rpc.Leases{}, nil, nil
	}
	leases, errs := s.claims.Claim(ctx, claims)
	s.metrics.count(leases, errs)
	if failed(errs) == len(claims.Rows) {
		return nil, nil, unavailable(ctx, first(errs))
	}
	return leases, errs, nil
}

func failed(errs []error) (n int) {
	for _, err := range errs {
		if err != nil {
			n++
		}
	}
	return n
}

func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
