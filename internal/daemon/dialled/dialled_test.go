// SPDX-License-Identifier: Apache-2.0

package dialled

import (
	"strings"
	"testing"
)

func TestTheAdvertisedAddressIsOneThatOthersCanDial(t *testing.T) {
	for _, tc := range []struct {
		address string
		others  []string
		want    string // "": good
	}{
		{"127.0.0.1:1", []string{"127.0.0.1:1", "127.0.0.2:1"}, ""},
		{"10.0.0.7:1", []string{"10.0.0.8:1"}, ""},
		{"127.0.0.1:1", []string{"127.0.0.1:1", "10.0.0.8:1"}, "of this machine only"},
		{"[::1]:1", []string{"10.0.0.8:1"}, "of this machine only"},
		{"nowhere.invalid:1", nil, "does not resolve"},
		{"127.0.0.1:1", []string{"nowhere.invalid:1"}, ""},
	} {
		err := Advertised(t.Context(), tc.address, tc.others)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "--address")) {
			t.Errorf("%s among %v: %v, want %q", tc.address, tc.others, err, tc.want)
		}
	}
}
