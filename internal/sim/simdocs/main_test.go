// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestOnlyTheTableChanges(t *testing.T) {
	got, err := between("a\n"+begins+"old\n"+ends+"b\n", "new\n")
	if want := "a\n" + begins + "new\n" + ends + "b\n"; err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := between("a\n"+begins, "new\n"); err == nil || !strings.Contains(err.Error(), "add the lines") {
		t.Errorf("err = %v", err)
	}
}
