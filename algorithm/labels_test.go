// SPDX-License-Identifier: Apache-2.0

package algorithm

import "testing"

func TestLabelsHaveWhatMembershipSays(t *testing.T) {
	of := NewLabels(map[string]string{"zone": "a", "canary": ""})
	for name, want := range map[string]struct {
		value string
		has   bool
	}{"zone": {"a", true}, "canary": {"", true}, "version": {"", false}} {
		if of.Get(name) != want.value || of.Has(name) != want.has {
			t.Errorf("%s is %q, %v; want %+v", name, of.Get(name), of.Has(name), want)
		}
		if none := (Labels{}); none.Get(name) != "" || none.Has(name) {
			t.Errorf("there is a label %s of none", name)
		}
	}
}
