// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/edge"
)

// bucket is the body of GET /v1/keys/{key}.
type bucket struct {
	Key       string   `json:"key"`
	Rule      string   `json:"rule"`
	Algorithm string   `json:"algorithm"`
	Limit     *float64 `json:"limit,omitempty"`
	Burst     *float64 `json:"burst,omitempty"`
	Remaining *float64 `json:"remaining,omitempty"`
	Live      bool     `json:"live"`
	Fallback  bool     `json:"fallback"`
}

// keysPath is what a key stands behind.
const keysPath = "/v1/keys/"

func (a *API) key(w http.ResponseWriter, r *http.Request) {
	key := keyOf(r)
	if key == "" || len(key) > rpc.MaxKeyLength {
		a.responder.refuse(w, invalidKey, "%s", invalidKey.advice)
		return
	}
	if err := a.decider.may(r.Context(), edge.Take, key); err != nil {
		a.responder.refuse(w, forbidden, "%v", err)
		return
	}
	b, ok := a.decider.engine.Look(key)
	if !ok {
		a.responder.refuse(w, noBucket, "%s", noBucket.advice)
		return
	}
	edge.SetRateLimit(w.Header(), &edge.Decision{Policy: b.Policy, Limit: b.Limit, Burst: b.Burst, Left: b.Left})
	body := bucket{Key: key, Rule: b.Rule, Algorithm: b.Algorithm, Live: b.Live, Fallback: b.Fallback}
	body.Limit, body.Burst, body.Remaining = bucketOf(b.Policy, b.Limit, b.Burst, b.Left)
	a.responder.sendJSON(w, body)
}

// keyOf is the key that r's path names, without escapes. Slashes may be in it, escaped
// or not.
func keyOf(r *http.Request) string {
	after, ok := strings.CutPrefix(r.URL.EscapedPath(), keysPath)
	if !ok { // escapes before the key
		return strings.TrimPrefix(r.URL.Path, keysPath)
	}
	key, err := url.PathUnescape(after)
	if err != nil {
		return after
	}
	return key
}
