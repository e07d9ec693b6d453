// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/admin/api/versions"
)

// An operator overrides and bypasses limits for a time, sees what holds, and ends it, without the text.
func TestOverridesAreMadeListedAndEnded(t *testing.T) {
	s := start(t, rights)
	s.must(t, 201, ``, "PUT", "/v1/limits?message=first", firstText, "If-Match", `"0"`)
	follow := func() {
		v, err := s.Store.Newest(t.Context())
		if err == nil {
			v, err = s.Store.Get(t.Context(), v.Number)
		}
		now, errParse := v.Parse()
		if err != nil || errParse != nil {
			t.Fatal(err, errParse)
		}
		if err := s.Limits.Set(now); err != nil {
			t.Fatal(err)
		}
	}
	s.must(t, 200, `limit 2x, until`, "PUT", "/v1/limits/override?key=orders:*&limit=2x&for=2h&message=sale&dry_run", "", "If-Match", `"1"`)
	s.must(t, 201, `"version":2`, "PUT", "/v1/limits/override?key=orders:*&limit=2x&for=2h&message=sale", "", "If-Match", `"1"`)
	s.must(t, 201, `"version":3`, "PUT", "/v1/limits/override?all&limit=bypass&for=10m&message=nothing+works", "", "If-Match", `"2"`)
	follow()
	var list struct{ Overrides []versions.Override }
	if err := json.Unmarshal([]byte(s.must(t, 200, ``, "GET", "/v1/limits/overrides", "")), &list); err != nil || len(list.Overrides) != 2 {
		t.Fatalf("%v: %+v", err, list)
	}
	sale, all := list.Overrides[0], list.Overrides[1]
	if lasts := time.Until(sale.Until); sale.Key != "orders:*" || sale.Limit != "2x" || sale.Author != "root" || sale.Reason != "sale" || sale.Ended || lasts > 2*time.Hour || lasts < 119*time.Minute {
		t.Errorf("the sale: %+v", sale)
	}
	if !all.All || all.Limit != "bypass" {
		t.Errorf("all: %+v", all)
	}
	s.must(t, 404, `no such override`, "DELETE", "/v1/limits/override?key=orders:*&bypass", "", "If-Match", `"3"`)
	s.must(t, 201, `"version":4`, "DELETE", "/v1/limits/override?all&bypass", "", "If-Match", `"3"`)
	s.must(t, 201, `"version":5`, "DELETE", "/v1/limits/override?key=orders:*", "", "If-Match", `"4"`)
	follow()
	s.must(t, 200, `{"overrides":[]}`, "GET", "/v1/limits/overrides", "")
}

// The API refuses an override with a mistake, or of an operator without the right, and says why.
func TestOverridesThatAreRefused(t *testing.T) {
	s := start(t, rights)
	s.must(t, 201, ``, "PUT", "/v1/limits?message=first", firstText, "If-Match", `"0"`)
	for _, tt := range []struct {
		token, query, says string
		status             int
	}{
		{"root", "key=orders:*&limit=2x&for=1h", "say why", 400},
		{"root", "key=orders:*&limit=2x&message=x", "for: ", 400},
		{"root", "key=orders:*&limit=2x&for=31d&message=x", "within 30 days", 400},
		{"root", "key=orders:*&limit=2x&for=0s&message=x", "in the future", 400},
		{"root", "key=orders:*&limit=100rps&for=1h&message=x", "limit: ", 400},
		{"root", "limit=2x&for=1h&message=x", "say which limit", 400},
		{"root", "all&key=orders:*&limit=2x&for=1h&message=x", "say which limit", 400},
		{"root", "key=oders:*&limit=2x&for=1h&message=x", "this would change nothing", 422},
		{"root", "all&limit=5/s&for=1h&message=x", "", 422},
		{"orders", "key=billing:*&limit=2x&for=1h&message=x", "may not change", 403},
		{"orders", "all&limit=bypass&for=1h&message=x", "may not change", 403},
		{"reader", "key=orders:a&limit=2x&for=1h&message=x", "may not change", 403},
	} {
		status, answer, _ := s.ask(t, tt.token+"-token", "PUT", "/v1/limits/override?"+tt.query, "", "If-Match", `"1"`)
		if status != tt.status || !strings.Contains(answer, tt.says) {
			t.Errorf("%s %s: %d %s", tt.token, tt.query, status, answer)
		}
	}
	s.must(t, 412, ``, "PUT", "/v1/limits/override?key=orders:*&limit=2x&for=1h&message=x", "", "If-Match", `"7"`)
	s.must(t, 200, `"version":1`, "GET", "/v1/limits", "")
	if status, answer, _ := s.ask(t, "root-token", "PUT", "/v1/limits/override?key=orders:*&limit=2x&for=1h&message=x", "", "If-Match", `"1"`, "Sec-Fetch-Site", "cross-site"); status != 403 {
		t.Errorf("from a page of another site: %d %s", status, answer)
	}
}

// Operators learn whether they may change what one key is limited by: a shared rule is of all of its keys.
func TestMeSaysWhetherAKeyMayBeChanged(t *testing.T) {
	s := start(t, rights)
	shared, err := dynamicconfig.Parse("limits", []byte(`limits: [{key: "orders:*", limit: 1/s, algorithm: even}, {key: "*", limit: 1/s, shared: true, algorithm: even}]`))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Limits.Set(shared); err != nil {
		t.Fatal(err)
	}
	for who, want := range map[string]map[string]bool{
		"root": {"orders:a": true, "x": true, "": true}, "orders": {"orders:a": true, "orders:*": true, "x": false, "": true}, "reader": {"orders:a": false, "": false},
	} {
		for key, may := range want {
			if _, answer, _ := s.ask(t, who+"-token", "GET", "/v1/me?key="+key, ""); !strings.Contains(answer, fmt.Sprintf(`"changes":%t`, may)) {
				t.Errorf("%s, %q: %s", who, key, answer)
			}
		}
	}
}
