// SPDX-License-Identifier: Apache-2.0

package claims_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/usage"
)

func TestForwardedClaimsAreAnsweredInOrder(t *testing.T) {
	long := errors.New(strings.Repeat("é", rpc.MaxReasonLength))
	forward := claims.Forward{Claimant: &claims.Claimant{Host: "edge", Placement: byPrefix{}, Peers: deciders{
		"a": lending("a"), "b": lending("b"),
		"c": rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) { return nil, long }),
	}}}
	ask := func(keys ...string) (*claims.Leases, error) {
		payload, err := claims.Encode(claimsOf(keys...))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := forward.Update(t.Context(), "caller", payload)
		if err != nil {
			return nil, err
		}
		leases, err := claims.DecodeLeases(answer, len(keys))
		if err != nil {
			t.Fatal(err)
		}
		return leases, nil
	}
	leases, err := ask("b:1", "gone:1", "a:1", "c:1", "b:2")
	if err != nil {
		t.Fatal(err)
	}
	direct, errs := forward.Claimant.Claim(t.Context(), claimsOf("b:1", "gone:1", "a:1", "c:1", "b:2"))
	for i := range leases.Rows {
		got := leases.Rows[i]
		if errs[i] == nil && (got != direct.Rows[i] || got.Refused != "") {
			t.Errorf("row %d: %+v, want %+v", i, got, direct.Rows[i])
		}
		if errs[i] != nil && (got.Refused == "" || !strings.HasPrefix(errs[i].Error(), got.Refused) || got.Lasts != 0) {
			t.Errorf("row %d: %+v does not say %v", i, got, errs[i])
		}
	}
	if errs[1] == nil || errs[3] == nil || errs[0] != nil {
		t.Fatalf("the test tests nothing: %v", errs)
	}
	if _, err := ask("gone:1", "gone:2", "c:1"); !errors.Is(err, errUnreachable) || !errors.Is(err, long) || strings.Count(err.Error(), "gone") != 1 {
		t.Errorf("nobody answers: %v", err)
	}
	if _, err := ask(); err != nil {
		t.Errorf("no claims: %v", err)
	}
	if _, err := forward.Update(t.Context(), "caller", &anypb.Any{TypeUrl: usage.ReportTypeURL}); !errors.Is(err, rpc.ErrPayload) {
		t.Errorf("usage: %v", err)
	}
}

// A caller of an edge cannot claim or release in the name of another host, whose labels it
// would have too.
func TestForwardedClaimsAreTheCallers(t *testing.T) {
	var hosts []string
	forward := claims.Forward{Claimant: &claims.Claimant{Host: "edge", Placement: byPrefix{}, Peers: deciders{"a": rpc.DeciderFunc(func(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
		asked, err := claims.Decode(payload)
		if err != nil {
			return nil, err
		}
		for _, row := range asked.Rows {
			hosts = append(hosts, row.Host)
		}
		return lending("a").Update(ctx, host, payload)
	})}}}
	asked := claimsOf("a:1", "a:2")
	asked.Rows[0].Host, asked.Rows[1].Host, asked.Rows[1].Release = "10.0.0.1:7933", `me@"certificate orders"`, true
	payload, err := claims.Encode(asked)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := forward.Update(t.Context(), "caller", payload); err != nil || !slices.Equal(hosts, []string{"caller", "caller"}) {
		t.Errorf("the owner gets claims of %q, %v", hosts, err)
	}
	if _, err := forward.Update(t.Context(), "", payload); !errors.Is(err, rpc.ErrPayload) {
		t.Errorf("a caller without a name: %v", err)
	}
}
