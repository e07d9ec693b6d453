// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/static"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// serving is a transport that keeps what it is to serve.
type serving struct {
	late
	rpc.Decider
}

func (s *serving) Start(_ context.Context, d rpc.Decider) error {
	s.Decider = d
	return nil
}

// A transport may name a host by its identity, which is in its certificate.
func TestAHostHasItsLabelsByItsAddressAndByItsIdentity(t *testing.T) {
	members, err := static.New(
		ringpop.Host{Address: "127.0.0.1:7933"},
		ringpop.Host{Address: "127.0.0.1:7934", Identity: "spiffe://a", Labels: "zone=a"},
	)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // protects zones
	zones := make(map[string]string)
	transport := new(serving)
	n, err := headgate.New(headgate.Config{Address: "127.0.0.1:7933"},
		memory.New(limits(t, "limits: [{key: '*', limit: 100/s, algorithm: average/zones}]")), members, headgate.WithTransport(transport), quiet,
		headgate.WithAlgorithm("zones", func(capacity float64, demands []algorithm.Demand, parts []float64) {
			mu.Lock()
			defer mu.Unlock()
			for _, d := range demands {
				zones[d.Host] = d.Labels.Get("zone")
			}
			algorithm.RequestWeighted(capacity, demands, parts)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	report, err := usage.Columnar{}.EncodeReport(&usage.Report{
		Algorithm: "average/zones", Keys: []string{"k"}, Allowed: []int64{1}, Rejected: []int64{0},
		Elapsed: []time.Duration{time.Second}, Weight: []float64{0},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"127.0.0.1:7934": "a", "spiffe://a": "a", "stranger": ""}
	for host := range want {
		if _, err := transport.Update(t.Context(), host, report); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if !maps.Equal(zones, want) {
		t.Errorf("the weigher sees hosts in the zones %q, want %q", zones, want)
	}
}
