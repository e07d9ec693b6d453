// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"testing"

	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/internal/waittest"
)

func TestMain(m *testing.M) {
	testrun.CollectLess()
	waittest.Main(m)
}
