// SPDX-License-Identifier: Apache-2.0

package api

import (
	_ "embed" // the description
	"net/http"
)

//go:embed openapi.json
var openapi []byte

// describe answers what the API is, to everybody.
func describe(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openapi)
}
