// SPDX-License-Identifier: Apache-2.0

// Package buckettest has buckets for the tests of what asks them.
package buckettest

import (
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/buckets"
	"github.com/headgate/headgate/rpc/edge"
)

// Of returns the buckets of one host under limits, a file in YAML.
func Of(t testing.TB, limits string) edge.Buckets {
	t.Helper()
	s, err := dynamicconfig.Parse("limits.yaml", []byte(limits))
	if err != nil {
		t.Fatal(err)
	}
	return buckets.Of(limiter.NewGroup(s, 1), nil)
}
