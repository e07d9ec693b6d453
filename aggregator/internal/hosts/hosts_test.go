// SPDX-License-Identifier: Apache-2.0

package hosts

import "testing"

// An account with a defect may report a host as gone that it does not have.
func TestANumberThatNoHostHasChangesNothing(t *testing.T) {
	h := New()
	a, b := h.Acquire("a"), h.Acquire("b")
	h.Gone(a)
	h.Add(a, -1)
	h.Add(17, -1)
	if c := h.Acquire("c"); c != a || h.rows[c] != 1 || h.rows[b] != 1 || h.Len() != 2 {
		t.Errorf("c has number %d in %d rows; %d hosts", c, h.rows[c], h.Len())
	}
}
