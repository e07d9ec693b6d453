// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// Each route that the API describes answers strangers with 401 and programs without a right to see
// something with 403, whatever else they send. An operator with the role of a reader gets 403 from each route that changes something.
func TestEachRouteAsksWhoCalls(t *testing.T) {
	s := start(t, rights)
	s.must(t, 201, ``, "PUT", "/v1/limits?message=first", firstText, "If-Match", `"0"`)
	var described struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal([]byte(s.must(t, 200, "paths", "GET", "/v1/openapi.json", "")), &described); err != nil {
		t.Fatal(err)
	}
	public := []string{"/v1/openapi.json", "/v1/login", "/v1/logout"}
	changes := map[string]string{ // with what each needs of a query, or else it changes no limits
		"PUT /v1/limits": "?message=x", "PUT /v1/limits/rule": "?key=orders:*&message=x", "DELETE /v1/limits/rule": "?key=orders:*&message=x",
		"POST /v1/limits/rollback": "?to=1&message=x", "POST /v1/migrations/step": "?rule=orders:*&mode=new&message=x", "POST /v1/keys/reset": "?key=orders:a",
		"PUT /v1/limits/override": "?key=orders:*&limit=2x&for=1h&message=x", "DELETE /v1/limits/override": "?key=orders:*&message=x",
	}
	routes := 0
	for path, methods := range described.Paths {
		if slices.Contains(public, path) {
			continue
		}
		for method := range methods {
			if method == "parameters" {
				continue
			}
			routes++
			route := strings.ToUpper(method) + " " + path
			method, path := strings.ToUpper(method), strings.Replace(path, "{version}", "1", 1)+changes[route]
			for _, tt := range []struct {
				token string
				want  int
			}{{"", 401}, {"program-token", 403}} {
				if status, answer, _ := s.ask(t, tt.token, method, path, "limits: []", "If-Match", `"1"`); status != tt.want {
					t.Errorf("%s with the token %q: %d %s", route, tt.token, status, answer)
				}
			}
			if _, ok := changes[route]; ok {
				if status, answer, _ := s.ask(t, "reader-token", method, path, `{"limit": "1/s"}`, "If-Match", `"1"`); status < 400 {
					t.Errorf("%s as a reader: %d %s", route, status, answer)
				}
				delete(changes, route)
			}
		}
	}
	if routes < 20 || len(changes) > 0 {
		t.Errorf("%d routes are described, and not %v", routes, changes)
	}
	s.must(t, 200, `"version":1`, "GET", "/v1/limits", "")
}
