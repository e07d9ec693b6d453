// SPDX-License-Identifier: Apache-2.0

package waittest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// ends is how long goroutines may take to end. A probe of memberlist that is under way at
// Shutdown waits for its answer for up to nine seconds.
const ends = 30 * time.Second

// Main is a TestMain that runs the tests of a package, and then fails if a goroutine that
// they began does not end within 30 s. goleak alone waits for half a second.
func Main(m *testing.M) { goleak.VerifyTestMain(ending{m, ends}) }

// ending is tests that have run when their goroutines have ended, or have had the time to.
type ending struct {
	goleak.TestingM
	within time.Duration
}

// Run implements goleak.TestingM.
func (e ending) Run() int {
	code := e.TestingM.Run()
	for began := time.Now(); goleak.Find() != nil && time.Since(began) < e.within; {
	}
	return code
}
