// SPDX-License-Identifier: Apache-2.0

// Package testrun describes to tests the run that they are part of: how long it may take, and
// where the programs are that they share. It does not know what is tested.
package testrun

import (
	"os"
	"testing"
)

// NotUnderRace skips a test that takes long under the race detector, which has nothing to
// find there: why says so.
func NotUnderRace(t testing.TB, why string) {
	t.Helper()
	if race {
		t.Skip("not under the race detector: " + why)
	}
}

// LongEnv is the variable that, when not empty, asks for the long form of the tests.
const LongEnv = "HEADGATE_LONG"

// Long reports whether the run may take as long as it needs, as in CI. Else
// tests choose what is most likely to show a defect: the worst seeds, the
// smaller clusters.
func Long() bool { return os.Getenv(LongEnv) != "" && !testing.Short() }
