// SPDX-License-Identifier: Apache-2.0

package doorman

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

// host is the name in the account of the client or server that calls itself
// id. No two callers have the same: an identity is quoted, so that none ends
// in what another's id begins with, and a host:port has no slash.
//
// A name that is too long for an account, or is not UTF-8, ends in its hash. Such
// a name has exactly rpc.MaxKeyLength bytes, and every other name has fewer.
func (s *Server) host(ctx context.Context, kind, id string) (string, error) {
	if id == "" {
		return "", fmt.Errorf("%s_id is empty; send a name that no other %s has", kind, kind)
	}
	host := kind
	identity, ok, err := s.identified(ctx)
	if err != nil {
		return "", fmt.Errorf("identify the %s: %w", kind, err)
	}
	if ok {
		host += "@" + strconv.Quote(identity)
	}
	host += "/" + id
	if len(host) < rpc.MaxKeyLength && utf8.ValidString(host) {
		return host, nil
	}
	sum := sha256.Sum256([]byte(host))
	end := "#" + hex.EncodeToString(sum[:])
	host = strings.ToValidUTF8(host[:min(len(host), rpc.MaxKeyLength-len(end))], "")
	return host + strings.Repeat("#", rpc.MaxKeyLength-len(host)-len(end)) + end, nil
}

// identified is who calls, if the transport knows that. A panic of identify, which is anybody's
// code, is an error.
func (s *Server) identified(ctx context.Context) (identity string, ok bool, err error) {
	defer rpc.Recovered(&err)
	if s.identify != nil {
		identity, ok = s.identify(ctx)
	}
	return identity, ok, err
}

// names are the resources of one request.
type names struct {
	server    *Server
	seen      map[string]bool
	forbidden error // why the first that who calls may not use is left out
}

// check checks the name of a resource that comes after those seen, and adds it to them.
func (n *names) check(ctx context.Context, id string) error {
	if err := checkResource(id, n.seen); err != nil || n.server.may == nil {
		return err
	}
	err := n.server.may(ctx, id)
	n.forbidden = cmp.Or(n.forbidden, err)
	return err
}

// refused is why a request is refused of whose resources so many are left: who calls may use none
// that it names.
func (n *names) refused(left int) error {
	if left > 0 || n.forbidden == nil {
		return nil
	}
	return status.Error(codes.PermissionDenied, n.forbidden.Error())
}

// checkResource checks the name of a resource that comes after those seen, and
// adds it to them.
func checkResource(id string, seen map[string]bool) error {
	switch {
	case id == "":
		return errors.New("the resource_id is empty")
	case len(id) > rpc.MaxKeyLength:
		return fmt.Errorf("the resource_id has %d bytes; use at most %d", len(id), rpc.MaxKeyLength)
	case !utf8.ValidString(id):
		return errors.New("the resource_id is not valid UTF-8")
	case seen[id]:
		return errors.New("the resource is in this request twice; add up what you want of it")
	}
	seen[id] = true
	return nil
}

// bandsOf are what a server downstream wants, by priority.
func bandsOf(wants []*doormanpb.PriorityBandAggregate, a *amends) ([]claims.Band, error) {
	bands := make([]claims.Band, 0, len(wants))
	for _, w := range wants {
		if w.GetNumClients() == 0 && w.GetWants() == 0 {
			continue // a server whose clients have all left says so
		}
		amount, err := a.amount("wants", w.GetWants())
		if err != nil {
			return nil, err
		}
		bands = append(bands, claims.Band{Priority: w.GetPriority(), Clients: a.clients(w.GetNumClients()), Wants: amount})
	}
	return a.bands(bands), nil
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
