// SPDX-License-Identifier: Apache-2.0

package docstest

// docs/embedding.md shows a service that has tally export to Prometheus. Nothing else
// here imports that package, and without an import `go mod tidy` forgets what it needs.
import _ "github.com/uber-go/tally/v4/prometheus"
