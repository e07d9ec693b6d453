// SPDX-License-Identifier: Apache-2.0

package events

import (
	"net/http"
	"time"
)

// wait waits for more, or for keepAlive. It returns false if r ends.
func wait(r *http.Request, more <-chan struct{}) bool {
	timer := time.NewTimer(keepAlive)
	defer timer.Stop()
	select {
	case <-r.Context().Done():
		return false
	case <-more:
	case <-timer.C:
	}
	return true
}
