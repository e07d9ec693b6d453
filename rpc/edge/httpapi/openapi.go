// SPDX-License-Identifier: Apache-2.0

package httpapi

import _ "embed"

// OpenAPI is the description of the API, in JSON, of OpenAPI 3.1.
//
//go:embed openapi.json
var OpenAPI []byte
