// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"net/http"
	"sync/atomic"

	"github.com/headgate/headgate/rpc/edge/httpapi"
)

const (
	// maxBodies bounds the bodies of HTTP requests that are read at once, in bytes.
	maxBodies = 32 << 20
	// smallBody is the largest body that does not count: there are at most as many
	// of those as connections.
	smallBody = 4 << 10
)

// bodies bounds the bytes of the bodies that are read at once. Safe for concurrent
// use.
type bodies struct{ taken atomic.Int64 }

// wrap answers 503 to a request whose body there is no room for. A body without a
// length takes the room of the largest.
func (b *bodies) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := r.ContentLength
		if n >= 0 && n <= smallBody {
			next.ServeHTTP(w, r)
			return
		}
		if n < 0 || n > httpapi.DefaultMaxBody {
			n = httpapi.DefaultMaxBody
		}
		defer b.taken.Add(-n)
		if b.taken.Add(n) > maxBodies {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many large bodies are being read; try again", http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}
