// SPDX-License-Identifier: Apache-2.0

package hosts

import "testing"

// Algorithms call back with numbers of hosts, and may get them wrong.
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
