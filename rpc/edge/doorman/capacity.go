// SPDX-License-Identifier: Apache-2.0

package doorman

import (
	"cmp"
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
	leases, err := lease(ctx, s, "client", r.GetClientId(), resources, now, func(i int, c *claims.Claim, a *amends) error {
		wants, err := a.amount("wants", resources[i].GetWants())
		bands[i] = claims.Band{Priority: resources[i].GetPriority(), Clients: 1, Wants: wants}
		c.Bands = bands[i : i+1 : i+1]
		return err
	})
	if err != nil {
		return nil, err
	}
	response := &doormanpb.GetCapacityResponse{Response: make([]*doormanpb.ResourceResponse, 0, len(leases))}
	for i, l := range leases {
		if l == nil {
			continue
		}
		gets, safe := answer(l, 1, now)
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
	ids := make([]uint64, len(resources))
	leases, err := lease(ctx, s, "server", r.GetServerId(), resources, now, func(i int, c *claims.Claim, a *amends) (err error) {
		ids[i] = s.told.id(c.Host, c.Key)
		if resources[i].GetHas() == nil {
			c.Has = s.told.has(ids[i], now)
		}
		c.Bands, err = bandsOf(resources[i].GetWants(), a)
		return err
	})
	if err != nil {
		return nil, err
	}
	response := &doormanpb.GetServerCapacityResponse{Response: make([]*doormanpb.ServerCapacityResourceResponse, 0, len(leases))}
	for i, l := range leases {
		if l == nil {
			continue
		}
		s.told.note(ids[i], l.Amount, now.Add(l.Lasts))
		gets, safe := answer(l, clientsOf(resources[i].GetWants()), now)
		response.Response = append(response.Response, &doormanpb.ServerCapacityResourceResponse{
			ResourceId: resources[i].ResourceId, Gets: gets, SafeCapacity: safe, Algorithm: algorithmOf(l),
		})
	}
	return response, nil
}

// clientsOf is for how many clients a server downstream asks. It gives each of them
// the safe capacity that it is sent.
func clientsOf(wants []*doormanpb.PriorityBandAggregate) (clients float64) {
	for _, w := range wants {
		clients += float64(max(w.GetNumClients(), 0))
	}
	return clients
}

// resource is what a client or a server asks for.
type resource interface {
	GetResourceId() string
	GetHas() *doormanpb.Lease
}

// lease claims resources for the caller that is called id. want completes the claim of the
// i-th, which has all but what the caller wants. Each resource has its lease. It has none, and
// is left out of the answer, if it cannot be claimed or if its owner did not answer.
func lease[R resource](ctx context.Context, s *Server, kind, id string, resources []R, now time.Time, want func(i int, c *claims.Claim, a *amends) error) ([]*claims.Lease, error) {
	host, err := s.host(ctx, kind, id)
	if err != nil {
		return nil, s.refused(err)
	}
	var a amends
	asked := &claims.Claims{Rows: make([]claims.Claim, 0, len(resources))}
	rows := make([]int, 0, len(resources)) // of asked: which resource it is
	named := names{server: s, seen: make(map[string]bool)}
	for i, r := range resources {
		a.resource = r.GetResourceId()
		claim := claims.Claim{Key: a.resource, Host: host}
		if err := named.check(ctx, claim.Key); err != nil {
			a.leaveOut(err)
			continue
		}
		claim.Has = a.held(r.GetHas(), now)
		if err := want(i, &claim, &a); err != nil {
			a.leaveOut(err)
			continue
		}
		asked.Rows, rows = append(asked.Rows, claim), append(rows, i)
	}
	s.amended(host, &a)
	if err := named.refused(len(rows)); err != nil {
		return nil, err
	}
	answered, errs, err := s.claim(ctx, asked)
	if err != nil {
		return nil, err
	}
	leases := make([]*claims.Lease, len(resources))
	for row, i := range rows {
		if errs == nil || errs[row] == nil {
			leases[i] = &answered.Rows[row]
		}
	}
	return leases, nil
}

// ReleaseCapacity gives back what a client has. Releasing what one does not
// have is no error, nor is naming a resource twice or none.
func (s *Server) ReleaseCapacity(ctx context.Context, r *doormanpb.ReleaseCapacityRequest) (*doormanpb.ReleaseCapacityResponse, error) {
	s.metrics.release.Inc(1)
	host, err := s.host(ctx, "client", r.GetClientId())
	if err != nil {
		return nil, s.refused(err)
	}
	var a amends
	asked := &claims.Claims{}
	named := names{server: s, seen: make(map[string]bool, len(r.GetResourceId()))}
	for _, id := range r.GetResourceId() {
		// Clients that close send an empty id along.
		if id == "" || named.seen[id] {
			continue
		}
		a.resource = id
		if err := named.check(ctx, id); err != nil {
			a.leaveOut(err) // it was never leased
			continue
		}
		asked.Rows = append(asked.Rows, claims.Claim{Key: id, Host: host, Release: true})
	}
	s.amended(host, &a)
	if err := named.refused(len(asked.Rows)); err != nil {
		return nil, err
	}
	_, errs, err := s.claim(ctx, asked)
	if err != nil {
		return nil, err
	}
	// A release that did not arrive is worth a second try, unlike a lease,
	// which is asked for again anyway.
	if err := cmp.Or(errs...); err != nil {
		return nil, unavailable(ctx, err)
	}
	return &doormanpb.ReleaseCapacityResponse{}, nil
}

// claim asks the owners, for at most maxResources at once. The error is that of a
// call in which none answered.
func (s *Server) claim(ctx context.Context, asked *claims.Claims) (*claims.Leases, []error, error) {
	leases := &claims.Leases{Rows: make([]claims.Lease, 0, len(asked.Rows))}
	errs := make([]error, 0, len(asked.Rows))
	for rows := range slices.Chunk(asked.Rows, s.maxResources) {
		part, failed := s.claims.Claim(ctx, &claims.Claims{Rows: rows})
		if failed == nil {
			failed = make([]error, len(rows))
		}
		leases.Rows, errs = append(leases.Rows, part.Rows...), append(errs, failed...)
	}
	s.metrics.count(leases, errs)
	s.grumble(asked, leases)
	if n := failed(errs); n > 0 && n == len(asked.Rows) {
		return nil, nil, unavailable(ctx, cmp.Or(errs...))
	}
	return leases, errs, nil
}

// grumble logs why a claim was refused, if one was: the caller gets 0, and no reason.
func (s *Server) grumble(asked *claims.Claims, leases *claims.Leases) {
	i := slices.IndexFunc(leases.Rows, func(l claims.Lease) bool { return l.Refused != "" })
	if i < 0 {
		return
	}
	if s.grumbled.passes(s.now()) {
		s.log.Warn("a resource gets no lease", "resource", s.show(asked.Rows[i].Key), "host", asked.Rows[i].Host, "reason", leases.Rows[i].Refused)
	}
}

func failed(errs []error) (n int) {
	for _, err := range errs {
		if err != nil {
			n++
		}
	}
	return n
}
