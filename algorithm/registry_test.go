// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"slices"
	"testing"
)

func TestRegistryNamesByWhatAlgorithmsAre(t *testing.T) {
	r := Builtin()
	if err := r.Register("a-custom-account", Elastic{}); err != nil {
		t.Fatal(err)
	}
	stateful := r.Stateful()
	if !slices.Contains(stateful, NameElastic) || !slices.Contains(stateful, "a-custom-account") || !slices.IsSorted(stateful) {
		t.Errorf("stateful: %q", stateful)
	}
	if slices.Contains(stateful, NameRequestWeighted) || slices.Contains(stateful, NameFairShare) {
		t.Errorf("stateful: %q", stateful)
	}
	want := []string{NameFairShare, NameNone, NameProportionalShare, NameStatic}
	if leasing := r.Leasing(); !slices.Equal(leasing, want) {
		t.Errorf("leasing: %q, not %q", leasing, want)
	}
}
