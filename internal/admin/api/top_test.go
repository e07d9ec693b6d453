// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/admin/api/busiest"
)

// doing is what two members say, of which one does not answer.
type doing []busiest.Counts

func (d doing) Busy(_ context.Context, w busiest.Wanted) ([]busiest.Counts, []busiest.Member) {
	return d, []busiest.Member{{Host: "a", Keys: 4000, Fallback: 1, Allowed: 2, Rejected: 1}, {Host: "b", Error: "gone"}}
}

// even is n tokens in each period.
func even(n float64) []float64 {
	all := make([]float64, busiest.Periods)
	for i := range all {
		all[i] = n
	}
	return all
}

func TestTopIsWhatHappensNow(t *testing.T) {
	s := start(t, rights)
	s.Busiest = doing{
		{Key: "orders:a", Allowed: even(100), Rejected: even(0), Hosts: 2},
		{Key: "orders:b", Allowed: even(20), Rejected: even(6), Hosts: 1, Fallback: 1},
		{Key: "billing:c", Allowed: even(100), Rejected: even(4), Hosts: 1},
		{Key: "people:eve", Hosts: 1},
		{Key: "nobody's", Allowed: even(2), Rejected: even(0), Hosts: 1},
	}
	s.renew()
	names := func(answer string) (top busiest.Top, names string) {
		t.Helper()
		if err := json.Unmarshal([]byte(answer), &top); err != nil {
			t.Fatal(err)
		}
		for _, k := range top.Keys {
			names += k.Key + " "
		}
		return top, names
	}
	top, order := names(s.must(t, 200, "", "GET", "/v1/top", ""))
	if !strings.HasPrefix(order, "orders:b billing:c orders:a nobody's ") || len(top.Keys) != 5 || strings.Contains(order, "eve") {
		t.Errorf("by what is rejected: %s", order)
	}
	if k := top.Keys[0]; k.Allowed != 10 || k.Rejected != 3 || *k.Utilization != 0.1 || k.Limit != "100/s" || k.Rule != "orders:*" || k.RecentAllowed[29] != 10 || k.Fallback != 1 {
		t.Errorf("%+v", k)
	}
	if k := top.Keys[3]; k.Limit != "" || k.Utilization != nil {
		t.Errorf("a key without a rule: %+v", k)
	}
	if top.Total != 4000 || top.Step != 2 || top.Hosts[0].Fallback != 1 || top.Hosts[1].Error != "gone" {
		t.Errorf("%+v", top)
	}
	if _, order := names(s.must(t, 200, "", "GET", "/v1/top?sort=utilization&n=2", "")); order != "billing:c orders:a " {
		t.Errorf("by utilization: %s", order)
	}
	if _, order := names(s.must(t, 200, "", "GET", "/v1/top?sort=name&like=ers:", "")); order != "orders:a orders:b " {
		t.Errorf("by name: %s", order)
	}
	_, answer, _ := s.ask(t, "orders-token", "GET", "/v1/top?like=i", "")
	if top, order := names(answer); order != "" || top.Total != 0 {
		t.Errorf("who may see orders only sees %s", order)
	}
	s.must(t, 400, "sort by allowed, name, rejected, utilization", "GET", "/v1/top?sort=x", "")
	s.must(t, 400, "1 to 1000", "GET", "/v1/top?n=0", "")
}
