// SPDX-License-Identifier: Apache-2.0

package world

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"

	"github.com/headgate/headgate/internal/testrun"
)

// The simulator makes much garbage in a small heap: a larger one saves a tenth of the
// processors' time. The long form also measures speed, with Go's defaults.
func TestMain(m *testing.M) {
	testrun.OnlyComputes()
	flag.Parse() // testrun.Long asks for -short
	if !testrun.Long() {
		debug.SetGCPercent(400)
	}
	os.Exit(m.Run())
}
