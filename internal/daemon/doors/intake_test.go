// SPDX-License-Identifier: Apache-2.0

package doors

import "testing"

func TestFieldsOfARequestAreCounted(t *testing.T) {
	for _, tc := range []struct {
		data         string
		flat, nested int64
	}{
		{"", 0, 0},
		{"\x12\x00\x12\x00", 2, 2},
		{"\x08\x01\x12\x04\x1a\x00\x1a\x00", 1, 3},
		{"\x12\x00\xff", 1, 1},
		{"\x12\x09", 0, 0},
	} {
		if flat, nested := fields([]byte(tc.data), false), fields([]byte(tc.data), true); flat != tc.flat || nested != tc.nested {
			t.Errorf("%q: %d and %d, want %d and %d", tc.data, flat, nested, tc.flat, tc.nested)
		}
	}
}
