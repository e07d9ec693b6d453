// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"testing"

	"github.com/headgate/headgate/dynamicconfig/history"
)

// damaged is a store that has other texts than were stored.
type damaged struct{ history.Store }

func (d damaged) Get(ctx context.Context, number int64) (history.Version, error) {
	v, err := d.Store.Get(ctx, number)
	v.Damaged = true
	return v, err
}

func TestNothingIsMadeOfADamagedVersion(t *testing.T) {
	s := start(t, rights)
	s.must(t, 201, `"version":1`, "PUT", "/v1/limits?message=first", firstText, "If-Match", `"0"`)
	s.Store = damaged{s.Store}
	s.renew()
	s.must(t, 200, `"damaged":true`, "GET", "/v1/limits", "")
	s.must(t, 409, "version 1 is damaged", "PUT", "/v1/limits/rule?key=more&message=x", `{"limit": "1/s"}`, "If-Match", `"1"`)
	s.must(t, 409, "version 1 is damaged", "DELETE", "/v1/limits/rule?key=more&message=x", "", "If-Match", `"1"`)
	s.must(t, 409, "version 1 is damaged", "POST", "/v1/limits/rollback?to=1&message=x", "", "If-Match", `"1"`)
	s.must(t, 201, `"version":2`, "PUT", "/v1/limits?message=again", firstText+"# again\n", "If-Match", `"1"`)
}
