// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"
	"time"

	"github.com/headgate/headgate/rpc/edge"
)

// retryAfter is d and a random part more of it; 0 stays 0.
func (a *API) retryAfter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return edge.Later(d, a.random())
}

func setRetryAfter(h http.Header, d time.Duration) {
	if d > 0 {
		h["Retry-After"] = []string{edge.Seconds(d)}
	}
}
