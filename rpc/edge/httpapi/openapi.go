// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	_ "embed"
	"net/http"
)

// OpenAPI is the description of the API, in JSON, of OpenAPI 3.1.
//
//go:embed openapi.json
var OpenAPI []byte

func (a *API) openAPI(w http.ResponseWriter, _ *http.Request) {
	a.send(w, http.StatusOK, "application/json", OpenAPI)
}
