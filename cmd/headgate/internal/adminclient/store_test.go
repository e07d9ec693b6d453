// SPDX-License-Identifier: Apache-2.0

package adminclient

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/admin/api/versions"
)

// A change names its base as the decider does, so that one on top of a database that was replaced
// since changes nothing.
func TestAChangeNamesItsBaseAsTheDeciderDoes(t *testing.T) {
	t.Parallel()
	var match string
	decider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		match = r.Header.Get("If-Match")
		_ = json.NewEncoder(w).Encode(versions.Outcome{Version: 8, Fingerprint: "f8"})
	}))
	defer decider.Close()
	c, err := (&Decider{Address: decider.Listener.Addr().String()}).Client()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		c    history.Change
		want string
	}{
		{history.Change{Base: 7, Seen: "f7"}, `"7-f7"`},
		{history.Change{Base: 7}, `"7"`},
		{history.Change{}, `"0"`},
	} {
		v, err := (Store{Client: c}).Append(t.Context(), tt.c)
		if err != nil || match != tt.want || v.Fingerprint != "f8" {
			t.Errorf("%+v: If-Match %s, want %s; %+v, %v", tt.c, match, tt.want, v, err)
		}
	}
}
