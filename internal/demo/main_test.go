// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/headgate/headgate/internal/testrun"
)

func TestMain(m *testing.M) {
	testrun.CollectLess()
	goleak.VerifyTestMain(m)
}
