// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/headgatetest"
)

func Example() {
	if err := run(os.Stdout); err != nil {
		panic(err)
	}
	// Output:
	// before: 5
	// step 1: 5
	// step 2: 5
	//         both allowed 5, only the old 0, only the new 3, neither 12
	// step 3: 8
}

func TestTheNewLimiterHasNoMoreTokensThanTheOldOne(t *testing.T) {
	measured := shadowed(rate.NewLimiter(0, 5), headgatetest.NewGroup(t, limits))
	if n := serve(measured, 4); n != 4 {
		t.Errorf("the old limiter allows %d of 4", n)
	}
	measured.SetMode(dynamicconfig.ModeNewShadowOld)
	if n := serve(measured, 20); n != 1 {
		t.Errorf("after the switch, %d are allowed; 1 was left", n)
	}
}
