// SPDX-License-Identifier: Apache-2.0

// Package enginetest has engines for the tests of what asks them. It knows no edge and no
// protocol.
package enginetest

import (
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/engine"
)

// Of returns the engine of one host under limits, a file in YAML.
func Of(t testing.TB, limits string) *engine.Engine {
	t.Helper()
	s, err := dynamicconfig.Parse("limits.yaml", []byte(limits))
	if err != nil {
		t.Fatal(err)
	}
	return engine.New(limiter.NewGroup(s, 1), func() *dynamicconfig.Snapshot { return s })
}
