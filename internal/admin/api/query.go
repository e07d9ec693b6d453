// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/admin/api/reply"
)

// parameters are the names that the query of each request may have, by the request's pattern, as
// the description has them.
func parameters() map[string][]string {
	var described struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, In string }
		}
	}
	if err := json.Unmarshal(openapi, &described); err != nil {
		return nil // a test reads it
	}
	names := make(map[string][]string)
	for path, methods := range described.Paths {
		for method, request := range methods {
			pattern := strings.ToUpper(method) + " " + path
			for _, p := range request.Parameters {
				if p.In == "query" {
					names[pattern] = append(names[pattern], p.Name)
				}
			}
		}
	}
	return names
}

// checkQuery refuses a query of r that has other names than known, one of them twice, or what
// cannot be read: url.URL.Query leaves that out, and ?enforce=10% would enforce all of a change.
func checkQuery(r *http.Request, known []string) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return reply.Refuse(http.StatusBadRequest, "the query cannot be read: %.100s: write %% as %%25, and ; as %%3B", err)
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch {
		case len(known) == 0:
			return reply.Refuse(http.StatusBadRequest, "unknown parameter %.40q: this request has none", name)
		case !slices.Contains(known, name):
			return reply.Refuse(http.StatusBadRequest, "unknown parameter %.40q: use %s", name, strings.Join(known, ", "))
		case len(query[name]) > 1:
			return reply.Refuse(http.StatusBadRequest, "the parameter %s is there twice: send it once", name)
		}
	}
	return nil
}
