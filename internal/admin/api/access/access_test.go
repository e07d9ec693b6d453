// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestOnlySoManyGuessersAreRemembered(t *testing.T) {
	var l logins
	for i := range 2 * maxGuessers {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/limits", http.NoBody)
		r.RemoteAddr = fmt.Sprintf("[2001:db8::%x]:1", i)
		l.failed(r)
	}
	if len(l.by) > maxGuessers {
		t.Errorf("%d addresses are remembered", len(l.by))
	}
}
