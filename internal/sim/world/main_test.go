// SPDX-License-Identifier: Apache-2.0

package world

import (
	"os"
	"testing"

	"github.com/headgate/headgate/internal/testrun"
)

func TestMain(m *testing.M) {
	testrun.OnlyComputes()
	testrun.CollectLess()
	os.Exit(m.Run())
}
