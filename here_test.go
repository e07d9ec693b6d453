// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/static"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/usage"
)

// wordless is the Decider of a host that must not be sent messages by itself.
type wordless struct{}

func (wordless) Update(context.Context, string, *anypb.Any) (*anypb.Any, error) {
	return nil, errors.New("the host sent itself a message")
}

type everywhere string

func (e everywhere) Owner(string) string { return string(e) }

func TestANodeAsksItselfWithoutMessages(t *testing.T) {
	const address = "127.0.0.1:7933"
	limits, err := dynamicconfig.Parse("limits.yaml", []byte("limits: [{key: \"a:*\", limit: 100/s, algorithm: elastic}, {key: \"b:*\", limit: 100/s, algorithm: fair-share}]"))
	if err != nil {
		t.Fatal(err)
	}
	members, err := static.New(ringpop.Host{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	node, err := New(Config{Address: address}, memory.New(limits), members)
	if err != nil {
		t.Fatal(err)
	}
	fan := node.fanout
	fan.Placement, fan.Local = everywhere(address), wordless{}
	r := &usage.Report{Algorithm: "elastic", Keys: []string{"a:1"}, Allowed: []int64{1}, Rejected: []int64{0}, Elapsed: []time.Duration{time.Second}, Weight: []float64{0}}
	fan.Update(t.Context(), r, time.Second, func(_ usage.Part, g *usage.Grants, err error) {
		if err != nil || len(g.Lease) != 1 {
			t.Errorf("report: %+v, %v", g, err)
		}
	})
	claimant := node.Claimant()
	claimant.Placement, claimant.Peers = everywhere(address), nil
	leases, errs := claimant.Claim(t.Context(), &claims.Claims{Rows: []claims.Claim{{Key: "b:1", Host: "me", Bands: []claims.Band{{Clients: 1, Wants: 5}}}}})
	if errs != nil || leases.Rows[0].Lasts <= 0 {
		t.Errorf("claim: %+v, %v", leases, errs)
	}
}
