// SPDX-License-Identifier: Apache-2.0

package doorman

import (
	"context"
	"slices"
	"time"

	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

// GetCapacity leases capacity to one client.
func (s *Server) GetCapacity(ctx context.Context, r *doormanpb.GetCapacityRequest) (*doormanpb.GetCapacityResponse, error) {
	s.metrics.capacity.Inc(1)
	resources, now := r.GetResource(), s.now()
	bands := make([]claims.Band, len(resources))
	leases, errs, err := lease(ctx, s, "client", r.GetClientId(), resources, now, func(i int) ([]claims.Band, error) {
		bands[i] = claims.Band{Priority: resources[i].GetPriority(), Clients: 1, Wants: resources[i].GetWants()}
		return bands[i : i+1 : i+1], checkAmount("wants", bands[i].Wants)
	})
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
			ResourceId: resources[i].ResourceId, Gets: gets, SafeCapacity: safe,
		})
	}
	return response, nil
}

// GetServerCapacity leases capacity to a server downstream.
func (s *Server) GetServerCapacity(ctx context.Context, r *doormanpb.GetServerCapacityRequest) (*doormanpb.GetServerCapacityResponse, error) {
	s.metrics.serverCapacity.Inc(1)
	resources, now := r.GetResource(), s.now()
	leases, errs, err := lease(ctx, s, "server", r.GetServerId(), resources, now, func(i int) ([]claims.Band, error) {
		return bandsOf(resources[i].GetWants())
	})
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
			ResourceId: resources[i].ResourceId, Gets: gets, SafeCapacity: safe, Algorithm: algorithmOf(&leases.Rows[i]),
		})
	}
	return response, nil
}

// resource is what a client or a server asks for.
type resource interface {
	GetResourceId() string
	GetHas() *doormanpb.Lease
}

// lease claims resources for the one called id, who wants bands(i) of the i-th.
// The error is the answer to the call; errs are those of rows, or nil.
func lease[R resource](ctx context.Context, s *Server, kind, id string, resources []R, now time.Time, bands func(i int) ([]claims.Band, error)) (_ *claims.Leases, errs []error, _ error) {
	host, err := s.host(ctx, kind, id)
	if err != nil {
		return nil, nil, s.refused(err)
	}
	if err := s.checkResources(len(resources), func(i int) string { return resources[i].GetResourceId() }); err != nil {
		return nil, nil, s.refused(err)
	}
	asked := &claims.Claims{Rows: make([]claims.Claim, len(resources))}
	for i, r := range resources {
		claim := claims.Claim{Key: r.GetResourceId(), Host: host}
		if claim.Has, err = capacityHeld(r.GetHas(), now); err == nil {
			claim.Bands, err = bands(i)
		}
		if err != nil {
			return nil, nil, s.refused(inResource(claim.Key, err))
		}
		asked.Rows[i] = claim
	}
	return s.claim(ctx, asked)
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
	asked := &claims.Claims{}
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
		asked.Rows = append(asked.Rows, claims.Claim{Key: id, Host: host, Release: true})
	}
	if len(asked.Rows) > 0 {
		_, errs, err := s.claim(ctx, asked)
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
func (s *Server) claim(ctx context.Context, asked *claims.Claims) (*claims.Leases, []error, error) {
	if len(asked.Rows) == 0 {
		return &claims.Leases{}, nil, nil
	}
	leases, errs := s.claims.Claim(ctx, asked)
	s.metrics.count(leases, errs)
	s.grumble(asked, leases)
	if failed(errs) == len(asked.Rows) {
		return nil, nil, unavailable(ctx, first(errs))
	}
	return leases, errs, nil
}

// grumbleEvery is how often a refusal is told of, in seconds.
const grumbleEvery = 60

// grumble tells why a claim was refused, if one was: who claims gets 0, and no
// reason.
func (s *Server) grumble(asked *claims.Claims, leases *claims.Leases) {
	i := slices.IndexFunc(leases.Rows, func(l claims.Lease) bool { return l.Refused != "" })
	if i < 0 {
		return
	}
	now, last := s.now().Unix(), s.grumbled.Load()
	if last != 0 && now >= last && now-last < grumbleEvery || !s.grumbled.CompareAndSwap(last, now) {
		return
	}
	s.log.Warn("a resource gets no lease", "resource", asked.Rows[i].Key, "host", asked.Rows[i].Host, "reason", leases.Rows[i].Refused)
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
