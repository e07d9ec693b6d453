// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/admin/api/lasthour"
	"github.com/headgate/headgate/internal/recent"
)

// remembered is the past of two members, of which one more is silent.
type remembered map[string][2][]recent.Point

func (m remembered) Series(_ context.Context, w lasthour.Wanted) (map[string][]recent.Point, []string) {
	hosts := make(map[string][]recent.Point)
	for i, name := range []string{"a", "b"} {
		hosts[name] = nil
		for _, p := range m[w.Key][i] {
			if p.Second >= w.Since.Unix() {
				hosts[name] = append(hosts[name], p)
			}
		}
	}
	return hosts, []string{"c"}
}

func (m remembered) Totals(context.Context) ([]recent.Total, time.Time, []string) {
	sums := make(map[string]recent.Total)
	for key, hosts := range m {
		t := recent.Total{Key: key}
		for _, p := range append(hosts[0], hosts[1]...) {
			t.Allowed += p.Allowed
			t.Rejected += p.Reject
		}
		sums[key] = t
	}
	return recent.Largest(sums, 100), time.Now().Add(-recent.Hour).Truncate(time.Second), []string{"c"}
}

func TestADryRunSaysWhatWouldHaveBeenRejected(t *testing.T) {
	s := start(t, rights)
	now := time.Now().Unix() - 100
	points := func(allowed, rejected float64) (all []recent.Point) {
		for i := range int64(20) {
			all = append(all, recent.Point{Second: now + i, Length: 1, Allowed: allowed, Reject: rejected})
		}
		return all
	}
	s.History = remembered{
		"orders:a": {points(30, 0), points(30, 0)}, "orders:b": {points(1, 0), nil}, "billing:c": {points(50, 5), nil}, "people:eve": {points(9, 0), nil},
	}
	s.renew()
	s.must(t, 201, ``, "PUT", "/v1/limits?message=first", firstText, "If-Match", `"0"`)
	less := strings.NewReplacer("100/s", "20/s", "private: true", "private: true, description: x").Replace(firstText)
	var d lasthour.DryRun
	if err := json.Unmarshal([]byte(s.must(t, 200, "", "POST", "/v1/limits/dry-run", less)), &d); err != nil {
		t.Fatal(err)
	}
	// 60/s for 20 s meet 20/s and a burst of 20; orders:b fits, and the others do not change.
	if len(d.Keys) != 2 || d.Keys[0].Key != "orders:a" || d.Keys[0].Hosts != 2 || d.Keys[1].Key != "orders:b" || d.Keys[1].Would != 0 ||
		d.Offered != 1220 || d.Rejected != 0 || d.Would != 1200-20*20-20 || d.Silent != 1 || len(d.Changes) == 0 {
		t.Errorf("%+v", d)
	}
	denied := s.must(t, 200, `"would":1100`, "POST", "/v1/limits/dry-run", strings.Replace(firstText, `"billing:*"`, `"bills:*"`, 1)+"unmatched: deny\n")
	if !strings.Contains(denied, `"key":"billing:c","rule":"","hosts":1`) {
		t.Errorf("%s", denied)
	}
	s.must(t, 422, `mistakes`, "POST", "/v1/limits/dry-run", "limits: [")
	if _, answer, _ := s.ask(t, "orders-token", "POST", "/v1/limits/dry-run", "limits: []\nunmatched: deny\n"); strings.Contains(answer, "billing:c") || !strings.Contains(answer, `"key":"orders:a"`) {
		t.Errorf("who may see orders only: %s", answer)
	}
	if answer := s.must(t, 200, "", "POST", "/v1/limits/dry-run", "limits: [{key: 'people:*', limit: 1/s, algorithm: even}]"); strings.Contains(answer, "eve") {
		t.Errorf("a private key is shown: %s", answer)
	}

	// What happened, and what is suggested.
	var u lasthour.Usage
	if err := json.Unmarshal([]byte(s.must(t, 200, "", "GET", "/v1/usage?key=orders:a", "")), &u); err != nil || len(u.Times) != 20 || u.Allowed[0] != 60 || len(u.Hosts) != 2 || u.Hosts[0].Allowed != 600 {
		t.Errorf("%+v, %v", u, err)
	}
	s.must(t, 400, "at most an hour", "GET", "/v1/usage?key=orders:a&since=2h", "")
	s.must(t, 200, `"times":[]`, "GET", "/v1/usage?key=orders:a&since=1s", "")
	s.must(t, 200, `{"key":"orders:a","peak":60,"limit":"100/s","suggested":"90/s"}`, "GET", "/v1/limits/suggest?like=orders", "")
	s.must(t, 200, `"suggested":"120/s"`, "GET", "/v1/limits/suggest?n=1&margin=2", "")
	for _, margin := range []string{"0", "NaN", "Inf", "1e9", "x"} {
		s.must(t, 400, "1 to 100", "GET", "/v1/limits/suggest?margin="+url.QueryEscape(margin), "")
	}

	// A rule that is enforced for a part lets the rest of what is over its limit through.
	half, err := dynamicconfig.Parse("limits", []byte(strings.Replace(firstText, "100/s", "100/s, enforce: 40%", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Limits.Set(half); err != nil {
		t.Fatal(err)
	}
	s.History = remembered{"orders:a": {points(10, 20), points(5, 5)}}
	s.renew()
	s.must(t, 200, `"offered":800,"rejected":200,`, "POST", "/v1/limits/dry-run", firstText)
}

// Overrides hold in a dry run, those of the text and those in force.
func TestADryRunKnowsOverrides(t *testing.T) {
	s := start(t, rights)
	now := time.Now().Unix() - 100
	var points []recent.Point
	for i := range int64(20) {
		points = append(points, recent.Point{Second: now + i, Length: 1, Allowed: 30, Reject: 10})
	}
	s.History = remembered{"orders:a": {points, nil}}
	s.renew()
	limits := strings.Replace(firstText, "100/s", "10/s", 1)
	with := func(limit string) string {
		return limits + "overrides: [{key: 'orders:*', limit: " + limit + ", until: 2099-11-23T05:00:00Z, author: ada, reason: r}]\n"
	}
	for name, tt := range map[string]struct{ inForce, text, want string }{
		"the same override":             {with("3x"), with("3x") + "# more\n", `"offered":0,"rejected":0,"would":0,"keys":[]`},
		"the end of an override":        {with("3x"), limits, `"offered":800,"rejected":200,"would":590,`},
		"the end of a bypass":           {with("bypass"), limits, `"offered":800,"rejected":200,"would":590,`},
		"an override":                   {limits, with("2x"), `"offered":800,"rejected":200,"would":380,`},
		"a bypass":                      {limits, with("bypass"), `"offered":800,"rejected":200,"would":0,`},
		"a bypass in place of override": {with("3x"), with("bypass"), `"offered":800,"rejected":200,"would":0,`},
	} {
		t.Run(name, func(t *testing.T) {
			inForce, err := dynamicconfig.Parse("limits", []byte(tt.inForce))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Limits.Set(inForce); err != nil {
				t.Fatal(err)
			}
			s.must(t, 200, tt.want, "POST", "/v1/limits/dry-run", tt.text)
		})
	}
}
