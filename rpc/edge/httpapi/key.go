// SPDX-License-Identifier: Apache-2.0

package httpapi

import "net/http"

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

func (a *API) key(w http.ResponseWriter, r *http.Request) {
	key := rest(r, "/v1/keys/")
	if key == "" {
		a.refuse(w, invalidKey, "%s", invalidKey.advice)
		return
	}
	b, ok := a.buckets.Look(key)
	if !ok {
		a.refuse(w, noBucket, "%s", noBucket.advice)
		return
	}
	setRateLimit(w.Header(), b.Policy, b.Limit, b.Burst, b.Left)
	body := bucket{Key: key, Rule: b.Rule, Algorithm: b.Algorithm, Live: b.Live, Fallback: b.Fallback}
	body.Limit, body.Burst, body.Remaining = bucketOf(b.Policy, b.Limit, b.Burst, b.Left)
	a.sendJSON(w, body)
}
