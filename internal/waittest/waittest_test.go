// SPDX-License-Identifier: Apache-2.0

package waittest

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a test that may fail.
type failing struct {
	testing.TB

	failed string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(string, ...any) {
	f.failed = "yes"
	runtime.Goexit()
}

func TestUntilWaitsForTheConditionAndNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		UntilSeldom(t, "a second has passed", func() bool { return time.Since(began) >= time.Second })
		if took := time.Since(began); took > time.Second+seldom {
			t.Errorf("it took %v", took)
		}
		f, ended := new(failing), make(chan struct{})
		go func() {
			defer close(ended)
			Until(f, "the impossible", func() bool { return false })
		}()
		<-ended
		if took := time.Since(began); f.failed == "" || took > patience+2*time.Second {
			t.Errorf("failed: %q, after %v", f.failed, took)
		}
	})
}
